#!/usr/bin/env bash
# Measures `portcullis serve` side by side with the real `qwen serve`, in one run, as
# ratios: CPU per request, requests per second at 16 connections, start, idle memory.
# What misses its limit is measured again, twice at most and with more rounds. Fails when
# it is missed then.
#
#   benches/serve.sh               every row, in full (about 10 minutes)
#   benches/serve.sh --smoke       few and short rounds; fails where a row cannot be measured, on no limit
#   benches/serve.sh --only NAME   rows whose name has NAME in it
#   benches/serve.sh --json FILE   write the rows there as well
#
# PORTCULLIS   the binary to use; else target/release is built. Rates need wrk for
#              figures that the client does not limit; without it one in Node is used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac

# shellcheck source=benches/release.bash
source benches/release.bash
# shellcheck source=interop/qwen/install.bash
source interop/qwen/install.bash
exec "$qwen_node" benches/serve/main.mjs --node "$qwen_node" --qwen "$qwen" \
  --binary "$(realpath "$PORTCULLIS")" "$@"
