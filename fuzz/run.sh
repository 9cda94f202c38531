#!/usr/bin/env bash
# Runs every fuzz target, one after the other, and fails at the end if one did.
#
#   fuzz/run.sh              180 seconds each
#   fuzz/run.sh 10           10 seconds each
#   fuzz/run.sh 600 page     600 seconds of one target
#
# Installs nightly Rust and cargo-fuzz where they are missing. A target has at most
# 1 GiB of memory: what needs more is a finding.
#
# What it learns it keeps in fuzz/corpus; it begins with fuzz/seeds. An input
# that fails is kept in fuzz/artifacts, and the last lines name it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=.ci/setup.sh
source .ci/setup.sh
install_missing cc=build-essential git=git
ensure_rust
ensure_fuzz

seconds=${1:-180}
# To the fuzzer, 0 and what is no number mean without end.
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
  printf 'problem: not a number of seconds: %s\n' "$seconds" >&2
  printf 'hint: fuzz/run.sh 180\n' >&2
  exit 2
fi
if [ "$#" -gt 1 ]; then
  targets=("${@:2}")
else
  mapfile -t targets < <(cargo +nightly fuzz list)
fi

failed=()
for target in "${targets[@]}"; do
  printf '\n== fuzz %s: %s s\n' "$target" "$seconds"
  mkdir -p "fuzz/corpus/$target"
  inputs=("fuzz/corpus/$target")
  [ ! -d "fuzz/seeds/$target" ] || inputs+=("fuzz/seeds/$target")
  # Longer than a path may be, so that the limit is met; a single input that
  # takes this long, or this much memory, is a finding.
  cargo +nightly fuzz run "$target" "${inputs[@]}" -- \
    -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=1024 \
    -verbosity=0 -print_final_stats=1 </dev/null ||
    failed+=("$target")
done

printf '\n'
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'fuzz: FAILED: %s (inputs in fuzz/artifacts)\n' "${failed[*]}" >&2
  exit 1
fi
printf 'fuzz: %d targets, %s s each, nothing found\n' "${#targets[@]}" "$seconds"
