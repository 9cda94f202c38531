#!/usr/bin/env bash
# Our daemon, `portcullis connect`, lends a directory to n8n's own gateway: the
# controller, registry and gateway classes out of n8n's package behind the routes they
# declare, every body held to the DTO schemas of @n8n/api-types, every tool offered,
# called and shown to the model by n8n's own code. Then streams are cut, confirmations
# given, replies thrown away and the link ended, from both sides. n8n's own daemon does
# the same beside it, and what the two say is compared.
#
#   interop/n8n.sh [--smoke]        the same either way: half a minute
#   interop/n8n.sh --only TEXT      scenarios whose name has TEXT in it
#   interop/n8n.sh --verbose        show what the daemons say
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=()
while (($#)); do
  case $1 in
    --smoke) ;;
    --verbose) arguments+=("$1") ;;
    --only)
      arguments+=("$1" "${2?--only wants a text}")
      shift
      ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *)
      printf 'problem: unknown option: %s\nhint: interop/n8n.sh --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done

# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=interop/n8n/install.bash
source interop/n8n/install.bash
# shellcheck source=interop/computer-use/install.bash
source interop/computer-use/install.bash
exec node interop/n8n/main.mjs --binary "$binary" --n8n "$n8n" \
  --daemon "$computer_use/$computer_use_cli" "${arguments[@]}"
