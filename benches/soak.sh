#!/usr/bin/env bash
# Soaks `portcullis serve`: wrk on a mix of routes, and beside it clients that open,
# half-send, listen and cut. Fails on a 5xx, on handles that do not come back, and on
# memory that grows, and goes on to when the same server is soaked again for twice as long.
#
#   benches/soak.sh                 10 minutes
#   benches/soak.sh --smoke         20 seconds, the same limits
#   benches/soak.sh --seconds N     another length
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=600
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
  --smoke) seconds=20 ;;
  --seconds) seconds=$2 ;;
  '') ;;
  *)
    echo "unknown option: $1" >&2
    echo "hint: benches/soak.sh --help" >&2
    exit 2
    ;;
esac
if ! command -v wrk >/dev/null; then
  echo "wrk is not there" >&2
  echo "hint: apt-get install wrk" >&2
  exit 2
fi
# shellcheck source=interop/binary.bash
source interop/binary.bash
export PYTHONDONTWRITEBYTECODE=1
exec python3 benches/soak/main.py "$binary" "$seconds"
