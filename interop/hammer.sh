#!/usr/bin/env bash
# Races our own server with the swap hammer, with the oracle on: every handle is
# asked where it really is, and one that was never inside ends the process.
#
#   interop/hammer.sh            1,000,000 raced operations
#   interop/hammer.sh --smoke    60,000
#
# The oracle is a build of its own (the debug binary, built with PORTCULLIS_ORACLE=1).
set -euo pipefail
cd "$(dirname "$0")/.."
ops=1000000 seconds=1800
if [[ ${1:-} == --smoke ]]; then
  ops=60000 seconds=240
fi
# With the features the tests are built with, which takes one test to ask for: what they
# built is used as it is, but for what opens files and what is built upon that. The test is
# of a crate below it, and so is there already.
PORTCULLIS_ORACLE=1 cargo build --quiet --workspace --locked --bin portcullis --test verdicts
exec target/debug/portcullis hammer --ops "$ops" --seconds "$seconds"
