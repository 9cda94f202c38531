#!/usr/bin/env bash
# schemathesis over the OpenAPI document of the real `portcullis serve`: requests that fit
# the document and requests that do not, and every reply held to what it tells. No 500, no
# status, header, media type or member that the document does not know.
#
#   interop/schemathesis.sh            about ten minutes
#   interop/schemathesis.sh --smoke    half a minute, the same requests each time
#   interop/schemathesis.sh --seed N   the same requests as another run (it tells its seed)
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."

examples=60
seconds=600
arguments=()
while (($#)); do
  case $1 in
    --smoke)
      examples=4 seconds=30
      arguments+=(--seed 195)
      ;;
    --seed)
      arguments+=(--seed "$2")
      shift
      ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *)
      printf 'problem: unknown option: %s\nhint: interop/schemathesis.sh --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done

# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash
venv=target/schemathesis
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
thrice "$venv/bin/pip" install --quiet --disable-pip-version-check 'schemathesis==4.32.5'
venv=$(realpath "$venv")
here=$PWD/interop/schemathesis

scratch=$(mktemp -d)
server=
finish() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap finish EXIT
mkdir -p "$scratch/tree/src"
mkdir -m 700 "$scratch/data"
printf 'fn main() {}\n' >"$scratch/tree/src/main.rs"
printf 'some notes\nand more\n' >"$scratch/tree/notes.txt"
printf '\0\1\2' >"$scratch/tree/raw.bin"
(cd "$scratch/tree" && python3 -m zipfile -c packed.zip notes.txt src)

printf '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"%043d"}]}' 0 >"$scratch/keys.json"
"$binary" serve --dir "$scratch/tree" --data-dir "$scratch/data" --port 0 --write \
  --oauth-issuer https://login.example --oauth-keys "$scratch/keys.json" >"$scratch/said" 2>"$scratch/log" &
server=$!
base=
for _ in $(seq 200); do
  base=$(grep -o -m1 'http://127[0-9.:]*' "$scratch/said" || true)
  [[ -z $base ]] || break
  sleep 0.1
done
if [[ -z $base ]]; then
  echo "problem: the server said no address" >&2
  tail -20 "$scratch/log" >&2
  exit 1
fi
token=$("$binary" token create --data-dir "$scratch/data" \
  --scope fs:read,fs:write,shell,screen,browser,sandbox,approve,audit,admin 2>/dev/null | grep -o 'pcl_[a-z0-9]*_[A-Za-z0-9_-]*')

# The document as it is served, held to the one that is checked in, and closed.
BASE=$base TOKEN=$token "$venv/bin/python" "$here/prepare.py" docs/openapi.json "$scratch/closed.json"

cp "$here/schemathesis.toml" "$scratch"
cd "$scratch"
ended=0
# Time is bounded twice: by how many examples are tried, and by the clock.
# One worker: two threads in ast.parse trip over each other in Python 3.11 ("recursion depth
# mismatch"), which ends a run as an error of its own.
PYTHONPATH=$here SCHEMATHESIS_HOOKS=checks SCHEMATHESIS_TOKEN=$token \
  timeout $((seconds + 30)) "$venv/bin/schemathesis" --config-file schemathesis.toml run closed.json \
  --url "$base" --workers 1 --max-examples "$examples" --max-time "$seconds" \
  --request-timeout 20 --generation-database none --exclude-tag stream --no-color "${arguments[@]}" || ended=$?
kill -0 "$server" || {
  echo "problem: the server ended" >&2
  exit 1
}
if grep -n 'panicked' "$scratch/log" >&2; then exit 1; fi
exit "$ended"
