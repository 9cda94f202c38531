#!/usr/bin/env bash
# The real daemon of n8n, @n8n/computer-use as npm has it, lends a directory to
# `portcullis serve`, and an agent drives every file tool and the shell of it over
# our /mcp: what is done is looked for on the disk and in the record. Then it is
# disconnected, replaced, refused with keys that are nobody's, and held to its pin.
# It runs as an ordinary user (nobody, where this is root), with Debian's bubblewrap and
# socat, so that its shell is jailed as its makers mean it.
#
#   interop/computer-use.sh [--smoke]   (the same either way: it takes about a minute)
#   interop/computer-use.sh --verbose   show what daemon and server say
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=()
while (($#)); do
  case $1 in
    --smoke) ;;
    --verbose) arguments+=("$1") ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *)
      printf 'problem: unknown option: %s\nhint: interop/computer-use.sh --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done

# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=interop/computer-use/install.bash
source interop/computer-use/install.bash
# shellcheck source=interop/ordinary.bash
source interop/ordinary.bash
drive=$(reach "$PWD/interop/computer-use/drive.mjs")
binary=$(reach "$binary")
computer_use=$(reach "$computer_use")
# Where that user may be; its own working directory can be closed to it.
cd /
"${ordinary[@]}" node "$drive" --binary "$binary" --daemon "$computer_use/$computer_use_cli" "${arguments[@]}"
