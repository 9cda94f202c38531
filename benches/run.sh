#!/usr/bin/env bash
# Measures Portcullis side by side with its peers. What misses its limit is measured
# again, twice at most and with more rounds. Fails when it is missed then.
#
#   benches/run.sh                every row, in full (about 25 minutes)
#   benches/run.sh --smoke        few iterations; fails where a row cannot be measured, on no limit
#   benches/run.sh --only NAME    rows whose name has NAME in it; can be repeated
#   benches/run.sh --json FILE    write the rows there as well
#
# Installs the peers with npm into benches/peers, needs ripgrep.
#
# PORTCULLIS   the binary to measure, with portcullis-bench beside it; else target/release is built
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Node first: the others choose their native parts by the Node that installs them.
node=node@24.21.0
peers=(@openclaw/fs-safe@0.21.0 @modelcontextprotocol/server-filesystem@2026.8.31)
# Beside its driver, and without its native parts: its search needs none.
computer_use=@n8n/computer-use@0.19.0

# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash

for argument in "$@"; do
  case "$argument" in
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
  esac
done

install() {
  thrice npm install --no-save --no-audit --no-fund --no-package-lock --loglevel=error "$@"
}

installed() {
  [ -x node_modules/node/bin/node ] &&
    compgen -G 'node_modules/@openclaw/fs-safe-*/package.json' >/dev/null &&
    [ -f node_modules/@modelcontextprotocol/server-filesystem/dist/index.js ]
}

install_peers() (
  cd benches/peers
  installed && exit 0
  # npm runs on the Node it is about to install again, so it needs one elsewhere.
  elsewhere=$(mktemp -d)
  trap 'rm -rf "$elsewhere"' EXIT
  install "$node" &&
    cp node_modules/node/bin/node "$elsewhere/node" &&
    PATH="$elsewhere:$PATH" install "$node" "${peers[@]}" &&
    installed
)

install_computer_use() (
  # interop/computer-use/install.bash brings the same version in the same way.
  there=$(realpath -m "${CARGO_TARGET_DIR:-target}/interop/computer-use-${computer_use##*@}/node_modules")
  cd benches/peers/computer-use
  [ ! -f node_modules/@n8n/computer-use/package.json ] || exit 0
  # To what is no longer there.
  [ ! -L node_modules ] || rm node_modules
  if [ -f "$there/@n8n/computer-use/package.json" ] && [ ! -e node_modules ]; then
    exec ln -s "$there" node_modules
  fi
  # Its own prefix: without one npm takes the directory above for it.
  install --prefix . --ignore-scripts "$computer_use"
)

if ! install_peers || ! install_computer_use; then
  printf 'problem: the peers could not be installed\nhint: check that npm reaches its registry, then run benches/run.sh again\n' >&2
  exit 2
fi

# shellcheck source=benches/release.bash
source benches/release.bash
exec "$(dirname "$PORTCULLIS")/portcullis-bench" --binary "$PORTCULLIS" "$@"
