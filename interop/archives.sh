#!/usr/bin/env bash
# What Node packs, unpacked by us byte for byte: `npm pack`, and zips and tars of
# the libraries that build tools use. (What other archivers pack, and what they
# make of ours, is in the tests of crates/hands/files.)
#
#   interop/archives.sh [--smoke]     (the same either way: it takes seconds)
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash

thrice npm install --prefix interop/packers --no-save --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel error \
  archiver@7 jszip@3 >&2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -m 700 "$scratch/data"
mkdir -p "$scratch/tree" "$scratch/package/lib/deep" "$scratch/package/bin"
cd "$scratch/package"
printf '{"name": "a-small-package", "version": "1.0.0", "bin": {"run": "bin/run.js"}}\n' >package.json
printf '#!/usr/bin/env node\nconsole.log("run")\n' >bin/run.js
chmod 755 bin/run.js
printf 'module.exports = 1;\n' >lib/index.js
printf 'ünïcødé\n' >'lib/deep/nämé with space.txt'
: >lib/empty.js
head -c 300000 /dev/urandom >lib/deep/noise.bin
head -c 500000 /dev/zero >lib/zeros.bin
npm pack --silent --pack-destination "$scratch/tree" >/dev/null
mv "$scratch"/tree/*.tgz "$scratch/tree/npm.tgz"
# npm puts all of it below a directory of its own.
mkdir -p "$scratch/want/npm.tgz" && cp -a "$scratch/package" "$scratch/want/npm.tgz/package"
cd - >/dev/null
node interop/archives.mjs pack "$scratch/package" "$scratch/tree"
for archive in archiver.zip archiver.tar archiver.tar.gz jszip.zip jszip-stored.zip; do
  cp -a "$scratch/package" "$scratch/want/$archive"
done

node interop/archives.mjs extract "$binary" "$scratch/tree" "$scratch/data"
passed=0
for want in "$scratch"/want/*; do
  archive=$(basename "$want")
  diff -r "$want" "$scratch/tree/out/$archive"
  run=$(cd "$want" && find . -name run.js)
  if [[ ! -x $scratch/tree/out/$archive/$run ]]; then
    printf 'problem: %s: the x bit of %s is lost\n' "$archive" "$run" >&2
    exit 1
  fi
  passed=$((passed + 1))
  printf 'ok %s\n' "$archive"
done
[[ -z $(find "$scratch/tree" -name '.portcullis*') ]]
printf '%d passed, 0 failed\n' "$passed"
