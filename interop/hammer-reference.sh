#!/usr/bin/env bash
# Proves that the swap hammer bites: races the reference MCP file server, which is known to leak,
# and succeeds only if the hammer finds escapes.
#
#   interop/hammer-reference.sh [--smoke] [more options of `portcullis hammer`]
#
# PORTCULLIS           the binary to use; else target/release, else target/debug
# REFERENCE_VERSION    the version of the reference server; else the one last raced by hand
set -euo pipefail
cd "$(dirname "$0")/.."

package=@modelcontextprotocol/server-filesystem
version=${REFERENCE_VERSION:-2026.8.31}
server=interop/node_modules/$package/dist/index.js

# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash

limits=(--ops 200000)
if [[ ${1:-} == --smoke ]]; then
  shift
  # It leaks in every sixth operation or so: fewer show it as well.
  limits=(--ops 10000 --seconds 180)
fi

# Into node_modules alone, which git ignores: no manifest and no lock file is written.
thrice npm install --prefix interop --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
  "$package@$version" >&2

exec "$binary" hammer --expect-escapes "${limits[@]}" "$@" -- node "$server" '{root}'
