#!/usr/bin/env bash
# Our own daemon lends a directory to our own server, both as people start them: an agent
# works with it over MCP while servers and daemons are killed and started again.
#
#   interop/lend.sh            half a minute
#   interop/lend.sh --smoke    the same
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
    printf 'problem: unknown option: %s\nhint: interop/lend.sh --help\n' "$1" >&2
    exit 2
    ;;
esac
# shellcheck source=interop/binary.bash
source interop/binary.bash
export PYTHONDONTWRITEBYTECODE=1
exec python3 interop/lend.py "$binary"
