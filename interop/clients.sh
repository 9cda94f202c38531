#!/usr/bin/env bash
# Real clients against us: the TypeScript SDKs and the Python SDK, both protocol eras. The
# TypeScript SDK 1.20, of 2025-06-18, over a pipe and over HTTP.
#
#   interop/clients.sh [--smoke]     (the same either way: it takes seconds)
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash

sdks=(
  @modelcontextprotocol/sdk@1
  @modelcontextprotocol/client@2
  sdk-1.20@npm:@modelcontextprotocol/sdk@1.20
)
thrice npm install --prefix interop --no-save --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel error \
  "${sdks[@]}" >&2
# The newest SDK needs Node 20; where the system has an older one, npm brings one.
node=node
if [[ $(node -p 'process.versions.node.split(".")[0]') -lt 20 ]]; then
  thrice npm install --prefix interop --no-save --no-package-lock --no-audit --no-fund --loglevel error \
    node@24 "${sdks[@]}" >&2
  node=interop/node_modules/node/bin/node
fi
if [[ ! -x interop/.venv/bin/python ]]; then
  python3 -m venv interop/.venv
fi
thrice interop/.venv/bin/pip install --quiet --disable-pip-version-check 'mcp>=2,<3'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/tree/src"
mkdir -m 700 "$scratch/data" "$scratch/data-http"
printf 'print("hello")\n' >"$scratch/tree/src/hello.py"
printf '# notes\n' >"$scratch/tree/notes.md"
printf 'KEY=canary\n' >"$scratch/tree/.env"
ln -s "$scratch" "$scratch/tree/out"
mkfifo "$scratch/tree/pipe"

"$node" interop/clients.mjs "$binary" "$scratch/tree" "$scratch/data"
"$node" interop/clients-1.20.mjs "$binary" "$scratch/tree" "$scratch/data-http"
interop/.venv/bin/python interop/clients.py "$binary" "$scratch/tree" "$scratch/data"
"$binary" audit verify --data-dir "$scratch/data"
"$binary" audit verify --data-dir "$scratch/data-http"
