#!/usr/bin/env bash
# Proves that the swap hammer bites: races the reference MCP file server, which is known to leak,
# and succeeds only if the hammer finds escapes.
#
#   interop/hammer-reference.sh [more options of `portcullis hammer`]
#
# PORTCULLIS           the binary to use; else target/release, else target/debug
# REFERENCE_VERSION    the version of the reference server; else the one last raced by hand
set -euo pipefail
cd "$(dirname "$0")/.."

package=@modelcontextprotocol/server-filesystem
version=${REFERENCE_VERSION:-2026.8.31}
server=interop/node_modules/$package/dist/index.js

binary=${PORTCULLIS:-}
for built in target/release/portcullis target/debug/portcullis; do
  if [[ -z $binary && -x $built ]]; then binary=$built; fi
done
if [[ -z $binary ]]; then
  echo "no portcullis binary was found" >&2
  echo "hint: cargo build --release -p portcullis-cli" >&2
  exit 2
fi

# Into node_modules alone, which git ignores: no manifest and no lock file is written.
npm install --prefix interop --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
  "$package@$version" >&2

exec "$binary" hammer --expect-escapes "$@" -- node "$server" '{root}'
