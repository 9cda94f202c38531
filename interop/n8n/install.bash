# Brings n8n's gateway: its DTO schemas, and its own classes out of the packages they
# are shipped in. Sets $n8n. Sourced from the top of the repository.
#
# n8n as a whole does not install everywhere (it compiles database drivers), so what
# holds the classes is unpacked and not installed; what they need is installed by name.
n8n_version=2.41.1
n8n=$PWD/${CARGO_TARGET_DIR:-target}/interop/n8n-$n8n_version
[[ ${CARGO_TARGET_DIR:-} != /* ]] || n8n=$CARGO_TARGET_DIR/interop/n8n-$n8n_version

# The packages that n8n 2.41.1 names, in the versions it names.
n8n_installed=(@n8n/api-types@1.41.0 @n8n/decorators@1.41.0 @n8n/di@0.17.0 @n8n/utils@1.48.0
  nanoid@3.3.18 reflect-metadata@0.2.2 zod@3.25.76
  zod-from-json-schema-v3@npm:zod-from-json-schema@0.0.5)
n8n_unpacked=(n8n@$n8n_version @n8n/instance-ai@1.26.1 @n8n/agents@0.26.1)

# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash
n8n_install() {
  local package tarball into
  mkdir -p "$n8n"
  # No script of anybody's is run.
  thrice npm install --prefix "$n8n" --no-save --no-package-lock --no-audit --no-fund \
    --loglevel error --ignore-scripts "${n8n_installed[@]}" >&2 || return 1
  for package in "${n8n_unpacked[@]}"; do
    tarball=$(cd "$n8n" && thrice npm pack --silent "$package") || return 1
    into=${package%@*}
    into=$n8n/unpacked/${into##*/}
    mkdir -p "$into"
    tar -xzf "$n8n/$tarball" -C "$into" --strip-components 1 || return 1
    rm "$n8n/$tarball"
  done
  : >"$n8n/complete"
}

if [[ ! -f $n8n/complete ]]; then
  if ! n8n_install; then
    printf 'problem: the gateway of n8n could not be installed\nhint: check that npm reaches its registry, then run this again\n' >&2
    exit 2
  fi
fi
