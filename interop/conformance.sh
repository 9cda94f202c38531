#!/usr/bin/env bash
# The MCP conformance suites against our HTTP stack: with their fixtures, and as it is served.
#
#   interop/conformance.sh [--smoke]     (the same either way: a minute or two)
#
# PORTCULLIS               the binary that is served; else target/release, else target/debug
# PORTCULLIS_CONFORMANCE   the binary with the fixtures; else it is built
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash

fixtures=${PORTCULLIS_CONFORMANCE:-}
if [[ -z $fixtures ]]; then
  # With the features the tests are built with: what they built is used as it is.
  cargo build --quiet --workspace --locked --bin portcullis-conformance --test http
  fixtures=target/debug/portcullis-conformance
fi

# The suites need Node 22; npm brings it. Two versions of one package stand side by side.
suites=target/conformance
mkdir -p "$suites"
thrice npm install --prefix "$suites" --no-save --no-package-lock --no-audit --no-fund --loglevel error \
  node@22 \
  suite-0.1@npm:@modelcontextprotocol/conformance@0.1.16 \
  suite-0.2@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12 >&2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$suites/node_modules/node/bin/node" interop/conformance.mjs \
  "$suites/node_modules" "$(realpath "$fixtures")" "$binary" "$scratch"
