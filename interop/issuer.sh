#!/usr/bin/env bash
# Tokens of a real issuer's library (PyJWT, with keys and JWK sets of its own making) brought
# to the real `portcullis serve`: those that count, over REST and MCP, and those that do not.
# The keys are rotated while it serves.
#
#   interop/issuer.sh            a few seconds
#   interop/issuer.sh --smoke    the same
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  '' | --smoke) ;;
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
  *)
    printf 'problem: unknown option: %s\nhint: interop/issuer.sh --help\n' "$1" >&2
    exit 2
    ;;
esac

# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash
venv=target/issuer
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
thrice "$venv/bin/pip" install --quiet --disable-pip-version-check 'pyjwt[crypto]>=2,<3'

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
mkdir "$scratch/tree"
mkdir -m 700 "$scratch/data"
printf 'some notes\n' >"$scratch/tree/notes.txt"
export KEYS=$scratch/keys.json ISSUER=https://login.example
# What is there at the start is rotated away.
BASE=- "$venv/bin/python" interop/issuer.py --publish-only

"$binary" serve --dir "$scratch/tree" --data-dir "$scratch/data" --port 0 --write \
  --oauth-issuer "$ISSUER" --oauth-keys "$KEYS" >"$scratch/said" 2>"$scratch/log" &
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
BASE=$base "$venv/bin/python" interop/issuer.py
if grep -n 'panicked' "$scratch/log" >&2; then exit 1; fi
