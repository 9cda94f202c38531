#!/usr/bin/env bash
# Holds many machines on one server, calls them at random, and looks at what that takes.
# Fails on a stream that ends by itself, on pings that come late, on a call that does not
# come back, and on memory over the limit. Where pings alone are late it measures again, once.
#
#   benches/links.sh                 10,000 machines for 10 minutes
#   benches/links.sh --smoke         200 machines for 18 seconds, half of them over TLS; limits of
#                                    memory and time decide nothing
#   benches/links.sh --machines N --seconds S
#   benches/links.sh --tls …         the same over TLS, with a limit of its own
#   benches/links.sh --json FILE     write the rows there as well
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

machines=10000 seconds=600 tls= smoke= json=
while [ "$#" -gt 0 ]; do
  case "$1" in
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    # Long enough for a ping, which comes after 15.
    --smoke) machines=100 seconds=18 smoke=--smoke ;;
    --json) json=$2 && shift ;;
    --tls) tls=--tls ;;
    --machines) machines=$2 && shift ;;
    --seconds) seconds=$2 && shift ;;
    *)
      echo "unknown option: $1" >&2
      echo "hint: benches/links.sh --help" >&2
      exit 2
      ;;
  esac
  shift
done
# A stream is a handle at each end.
needed=$((machines + 1000))
if [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt "$needed" ]; then
  ulimit -n "$needed" || {
    echo "this needs $needed open handles, and $(ulimit -n) are allowed" >&2
    echo "hint: run it as root, or raise the limit in /etc/security/limits.conf" >&2
    exit 2
  }
fi
# shellcheck source=interop/binary.bash
source interop/binary.bash
export PYTHONDONTWRITEBYTECODE=1
if [ -n "$smoke" ] && [ -z "$tls" ]; then
  # Beside the other: both wait, most of the time.
  python3 benches/links/main.py "$binary" "$machines" "$seconds" "" --tls --smoke &
  encrypted=$!
fi
python3 benches/links/main.py "$binary" "$machines" "$seconds" "$json" $tls $smoke
[ -z "${encrypted:-}" ] || wait "$encrypted"
