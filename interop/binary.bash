# Finds the binary to test and says how to build one; sets $binary.
binary=${PORTCULLIS:-}
for built in "${CARGO_TARGET_DIR:-target}"/{release,debug}/portcullis; do
  if [[ -z $binary && -x $built ]]; then binary=$built; fi
done
if [[ -z $binary ]]; then
  echo "no portcullis binary was found" >&2
  echo "hint: cargo build --release -p portcullis-cli" >&2
  exit 2
fi
binary=$(realpath "$binary")
