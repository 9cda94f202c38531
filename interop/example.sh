#!/usr/bin/env bash
# The example daemon (examples/daemon.py), which knows nothing of us but the protocol,
# lends a directory to the real `portcullis serve`, and an agent reads it over MCP.
#
#   interop/example.sh            a few seconds
#   interop/example.sh --smoke    the same
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  '' | --smoke) ;;
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
  *)
    printf 'problem: unknown option: %s\nhint: interop/example.sh --help\n' "$1" >&2
    exit 2
    ;;
esac
# shellcheck source=interop/binary.bash
source interop/binary.bash
export PYTHONDONTWRITEBYTECODE=1
exec python3 interop/example.py "$binary"
