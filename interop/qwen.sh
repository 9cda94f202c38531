#!/usr/bin/env bash
# One table of file cases, by the names Qwen Code's own suite gives them, run against
# the real `qwen serve` and against `portcullis serve`. Where ours answers otherwise on
# purpose the case says so and holds both answers; a difference that is not listed
# fails, and so does a listed one that is gone.
#
#   interop/qwen.sh [--smoke]          both (the same either way: it takes about a minute)
#   interop/qwen.sh --side qwen|ours   one of them
#   interop/qwen.sh --only TEXT        cases whose name has TEXT in it
#   interop/qwen.sh --json FILE        write every result there as well
#
# PORTCULLIS   the binary to use; else target/release, else target/debug
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=()
side=
while (($#)); do
  case $1 in
    --smoke) ;;
    --side | --only | --json)
      [[ $1 != --side ]] || side=$2
      arguments+=("$1" "$2")
      shift
      ;;
    --verbose) arguments+=("$1") ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *)
      printf 'problem: unknown option: %s\nhint: interop/qwen.sh --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done

if [[ $side != qwen ]]; then
  # shellcheck source=interop/binary.bash
  source interop/binary.bash
  arguments+=(--binary "$binary")
fi
# shellcheck source=interop/qwen/install.bash
source interop/qwen/install.bash
exec "$qwen_node" interop/qwen/both.mjs --node "$qwen_node" --qwen "$qwen" "${arguments[@]}"
