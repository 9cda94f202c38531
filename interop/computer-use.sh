#!/usr/bin/env bash
# The real daemon of n8n, @n8n/computer-use as npm has it, lends a directory to
# `portcullis serve`, and an agent drives every file tool and the shell of it over
# our /mcp: what is done is looked for on the disk and in the record. Then it is
# disconnected, replaced, refused with keys that are nobody's, and held to its pin.
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
version=0.19.0
home=$PWD/${CARGO_TARGET_DIR:-target}/interop/computer-use-$version
[[ ${CARGO_TARGET_DIR:-} != /* ]] || home=$CARGO_TARGET_DIR/interop/computer-use-$version
daemon=$home/node_modules/@n8n/computer-use/dist/cli.js
if [[ ! -f $daemon ]]; then
  mkdir -p "$home"
  # No script of anybody's is run: what needs one (screen, keys) is switched off here.
  if ! npm install --prefix "$home" --no-save --no-package-lock --no-audit --no-fund \
    --loglevel error --ignore-scripts "@n8n/computer-use@$version" >&2; then
    printf 'problem: @n8n/computer-use could not be installed\nhint: check that npm reaches its registry, then run this again\n' >&2
    exit 2
  fi
fi
exec node interop/computer-use.mjs --binary "$binary" --daemon "$daemon" "${arguments[@]}"
