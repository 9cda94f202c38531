# Brings the real @n8n/computer-use, and what its shell needs to be jailed on Debian;
# sets $computer_use, where it is installed. Sourced from the top of the repository.
computer_use_version=0.19.0
computer_use=$PWD/${CARGO_TARGET_DIR:-target}/interop/computer-use-$computer_use_version
[[ ${CARGO_TARGET_DIR:-} != /* ]] || computer_use=$CARGO_TARGET_DIR/interop/computer-use-$computer_use_version
computer_use_cli=node_modules/@n8n/computer-use/dist/cli.js

# shellcheck source=.ci/setup.sh
source .ci/setup.sh
install_missing bwrap=bubblewrap socat=socat rg=ripgrep setpriv=util-linux >&2
if [[ ! -f $computer_use/$computer_use_cli ]]; then
  mkdir -p "$computer_use"
  # No script of anybody's is run: what needs one (screen, keys) is switched off here.
  if ! thrice npm install --prefix "$computer_use" --no-save --no-package-lock --no-audit --no-fund \
    --loglevel error --ignore-scripts "@n8n/computer-use@$computer_use_version" >&2; then
    printf 'problem: @n8n/computer-use could not be installed\nhint: check that npm reaches its registry, then run this again\n' >&2
    exit 2
  fi
fi
