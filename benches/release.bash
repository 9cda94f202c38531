# The binary to measure: sets $PORTCULLIS where it is not set. Sourced from the top of the
# repository. A debug build says nothing about speed.
if [[ -z ${PORTCULLIS:-} ]]; then
  # With the other bench, so that neither builds anew what the other has built.
  cargo build --release --workspace --locked --bin portcullis --bin portcullis-bench
  PORTCULLIS=${CARGO_TARGET_DIR:-target}/release/portcullis
fi
