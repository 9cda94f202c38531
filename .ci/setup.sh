# shellcheck shell=bash
# Sourced by ./run and ./test: brings a fresh Debian to where this tree builds.
# What is there already is left alone, and then apt is not called at all.
# shellcheck source=.ci/thrice.bash
source "$(dirname "${BASH_SOURCE[0]}")/thrice.bash"

# A problem, and the way out of it.
problem() {
  printf 'problem: %s\n' "$1" >&2
  printf 'hint: %s\n' "$2" >&2
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif ! command -v sudo >/dev/null; then
    problem "installing packages needs root, and sudo is missing" "as root: $*"
    return 1
  elif [ "${CI:-}" = true ]; then
    sudo -n "$@"
  else
    sudo "$@"
  fi
}

# Waits for whoever else installs something, as fresh machines do by themselves.
apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

install_packages() {
  apt_get update && apt_get install -y --no-install-recommends "$@"
}

# install_missing PROGRAM=PACKAGE…: installs the packages whose program is absent.
install_missing() {
  local pair packages=()
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || packages+=("${pair#*=}")
  done
  [ "${#packages[@]}" -eq 0 ] && return 0
  if ! command -v apt-get >/dev/null; then
    problem "missing: ${packages[*]}" "install them with this system's package manager, then run this again"
    return 1
  fi
  printf 'installing: %s\n' "${packages[*]}"
  # Who may not install has to be told once.
  as_root true || return 1
  thrice install_packages "${packages[@]}"
}

# The oldest Rust that builds this tree, from Cargo.toml.
wanted_rust() {
  sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml
}

rust_is_new_enough() {
  local have
  have=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
  [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$(wanted_rust)" "$have" | sort -V | head -n1)" = "$(wanted_rust)" ]
}

ensure_rust() {
  # A toolchain installed a minute ago is not on this shell's PATH yet.
  if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
    export PATH="$HOME/.cargo/bin:$PATH"
  fi
  if ! command -v cargo >/dev/null; then
    printf 'installing: Rust\n'
    if apt-cache show rustup >/dev/null 2>&1; then
      install_missing rustup=rustup
      rustup default stable
    else
      install_missing curl=curl
      curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs \
        | sh -s -- -y --profile minimal --component rustfmt,clippy || true
    fi
    export PATH="$HOME/.cargo/bin:$PATH"
  fi
  if ! rust_is_new_enough && command -v rustup >/dev/null; then
    rustup update stable && rustup default stable
  fi
  if ! rust_is_new_enough; then
    problem "Rust $(wanted_rust) or newer is needed; found: $(rustc --version 2>/dev/null || echo none)" \
      "install rustup from https://rustup.rs, run 'rustup default stable', then run this again"
    return 1
  fi
}

ensure_rust_tools() {
  local tool
  for tool in fmt clippy; do
    cargo "$tool" --version >/dev/null 2>&1 && continue
    if ! command -v rustup >/dev/null || ! rustup component add "${tool/#fmt/rustfmt}"; then
      problem "cargo $tool is missing" "rustup component add ${tool/#fmt/rustfmt}"
      return 1
    fi
  done
}

# Runs each test in a process of its own: a peak of memory is then the test's. Built
# without optimisations and without what updates it: that takes a third of the time.
ensure_nextest() {
  cargo nextest --version >/dev/null 2>&1 && return 0
  printf 'installing: cargo-nextest (built from source: a minute or two)\n'
  if ! thrice cargo install --locked --quiet --debug --no-default-features --features default-no-update \
    cargo-nextest@0.9.143; then
    problem "cargo-nextest could not be installed" "cargo install --locked cargo-nextest"
    return 1
  fi
}

# Nightly Rust and cargo-fuzz, which fuzz targets need.
ensure_fuzz() {
  if ! cargo +nightly --version >/dev/null 2>&1; then
    printf 'installing: nightly Rust\n'
    if ! command -v rustup >/dev/null || ! thrice rustup toolchain install nightly --profile minimal; then
      problem "nightly Rust is missing" "rustup toolchain install nightly --profile minimal"
      return 1
    fi
  fi
  cargo +nightly fuzz --version >/dev/null 2>&1 && return 0
  printf 'installing: cargo-fuzz (built from source: a minute or two)\n'
  if ! thrice cargo install --locked --quiet --debug cargo-fuzz; then
    problem "cargo-fuzz could not be installed" "cargo install --locked cargo-fuzz"
    return 1
  fi
}

# Colour for people, plain lines for logs; what is set already wins.
choose_colour() {
  if [ -z "${CARGO_TERM_COLOR:-}" ]; then
    if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
      CARGO_TERM_COLOR=always
    else
      CARGO_TERM_COLOR=never
    fi
  fi
  [ -t 1 ] || export CARGO_TERM_PROGRESS_WHEN=never
  export CARGO_TERM_COLOR
}
