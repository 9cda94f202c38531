#!/usr/bin/env bash
# What `portcullis serve` sends to an OpenTelemetry collector, held to the real schema: every
# message is parsed by Google's protobuf into the types of OpenTelemetry's own .proto files,
# and nothing in it may be unknown to them. In the clear, and under TLS.
#
#   interop/otel.sh            some seconds
#   interop/otel.sh --smoke    the same
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
    printf 'problem: unknown option: %s\nhint: interop/otel.sh --help\n' "$1" >&2
    exit 2
    ;;
esac

# shellcheck source=interop/binary.bash
source interop/binary.bash
# shellcheck source=.ci/thrice.bash
source .ci/thrice.bash
venv=target/otel
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
thrice "$venv/bin/pip" install --quiet --disable-pip-version-check 'opentelemetry-proto>=1.30,<2'
"$venv/bin/python" interop/otel.py "$binary"
