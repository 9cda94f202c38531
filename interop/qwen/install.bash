# Brings the real `qwen serve` and a Node that it runs on; sets $qwen and $qwen_node.
# Sourced from the top of the repository. What is there already is not asked for again.
qwen_version=0.24.4
qwen_home=$PWD/${CARGO_TARGET_DIR:-target}/interop/qwen-$qwen_version
[[ ${CARGO_TARGET_DIR:-} != /* ]] || qwen_home=$CARGO_TARGET_DIR/interop/qwen-$qwen_version
qwen=$qwen_home/cli/node_modules/@qwen-code/qwen-code/cli-entry.js
qwen_node=$qwen_home/node/node_modules/node/bin/node

# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash
qwen_install() {
  thrice npm install --prefix "$1" --no-save --no-package-lock --no-audit --no-fund --loglevel error "${@:2}" >&2
}

if [[ ! -x $qwen_node || ! -f $qwen ]]; then
  mkdir -p "$qwen_home/node" "$qwen_home/cli"
  # Node in a prefix of its own: its package needs its script, and the other must not run any.
  if ! qwen_install "$qwen_home/node" node@22 ||
    ! PATH=$(dirname "$qwen_node"):$PATH qwen_install "$qwen_home/cli" --ignore-scripts "@qwen-code/qwen-code@$qwen_version"; then
    printf 'problem: qwen serve could not be installed\nhint: check that npm reaches its registry, then run this again\n' >&2
    exit 2
  fi
fi
