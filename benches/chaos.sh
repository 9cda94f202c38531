#!/usr/bin/env bash
# Breaks links on purpose, and counts on the disk what came of every call.
# The real server and real daemons, with a proxy between each daemon and the server, and
# one before the callers: they drop connections, delay, hold back and swallow what is sent,
# and cut what is idle. The server is killed and started again every 20 seconds, daemons
# are killed too, some of them after they acted and before they could reply. Callers give
# every call a name, and ask for it again until it has ended.
#
#   benches/chaos.sh                   10 minutes, 200 calls a second, 6 machines
#   benches/chaos.sh --smoke           40 seconds at 50 calls a second, always with the same seed: what is
#                                      lost, doubled or done elsewhere fails; what is late is only told
#   benches/chaos.sh --seconds S --rate N --seed X
#   benches/chaos.sh --unnamed         without names, to see that it fails then
#
# Fails, with the calls that missed: where a call has neither a result nor a typed error by
# its deadline, where one that was told to be done is not there exactly once or any is there
# twice, where one is lost without its daemon having been killed, and where one comes to
# nothing that had 10 seconds left after server and link were back. It fails as well where
# a run of a minute has not met every kind of fault, and one of five minutes no daemon that
# was killed between an act and its reply.
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=600 rate=200 seed=$RANDOM names=named smoke=
while [ "$#" -gt 0 ]; do
  case "$1" in
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    --smoke) seconds=40 rate=50 seed=20 smoke=smoke ;;
    --seconds) seconds=$2 && shift ;;
    --rate) rate=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    --unnamed) names=unnamed ;;
    *)
      echo "unknown option: $1" >&2
      echo "hint: benches/chaos.sh --help" >&2
      exit 2
      ;;
  esac
  shift
done
# shellcheck source=interop/binary.bash
source interop/binary.bash
export PYTHONDONTWRITEBYTECODE=1
exec python3 benches/chaos/main.py "$binary" "$seconds" "$rate" "$seed" "$names" "$smoke"
