#!/usr/bin/env bash
# Measures `portcullis connect` side by side with the real @n8n/computer-use, in one run
# and as an ordinary user (nobody, where this is root), both lending the same directory
# to the same gateway, which is neither's: start, idle memory, CPU of a read, searches,
# and reads while a search runs. What misses its limit is measured again, twice at most
# and with more rounds. Fails when it is missed then.
#
#   benches/lend.sh               every row, in full (about 10 minutes, most of it the peer's)
#   benches/lend.sh --smoke       a smaller tree and few rounds; fails where a row cannot be measured, on no limit
#   benches/lend.sh --only NAME   rows whose name has NAME in it
#   benches/lend.sh --json FILE   write the rows there as well
#
# PORTCULLIS   the binary to use; else target/release is built
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

json=/dev/null arguments=()
while [ "$#" -gt 0 ]; do
  case "$1" in
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    # Opened here: the ordinary user may not write where this one may.
    --json) json=$2 && shift ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
exec 3>"$json"

# shellcheck source=benches/release.bash
source benches/release.bash
# shellcheck source=interop/computer-use/install.bash
source interop/computer-use/install.bash
# shellcheck source=interop/ordinary.bash
source interop/ordinary.bash
benches=$(reach "$PWD/benches")
binary=$(reach "$(realpath "$PORTCULLIS")")
computer_use=$(reach "$computer_use")
# Where that user may be; its own working directory can be closed to it.
cd /
# Both sides and the gateway before whatever else runs here, where that may be asked for.
before=()
[[ $(id -u) -ne 0 ]] || before=(nice -n -10)
"${before[@]}" "${ordinary[@]}" node "$benches/lend/main.mjs" --binary "$binary" \
  --daemon "$computer_use/$computer_use_cli" ${arguments[@]+"${arguments[@]}"}
