"""Starts a collector and `portcullis serve`, asks for this and that, and parses all that the
collector is sent with the protobuf types of OpenTelemetry. The program is the first argument."""

import base64
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from opentelemetry.proto.trace.v1.trace_pb2 import Span

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
# Who the collector says it is under TLS, and what has to be trusted for that.
CERTIFICATE = "crates/server/tests/http/tls/certificate.pem"
KEY = "crates/server/tests/http/tls/key-for-tests-only.pem"
START_SECONDS = 60
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
messages = []


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        messages.append((self.path, self.headers["content-type"], body))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def ids(value):
    """Ids are hexadecimal in OTLP's JSON, where protobuf's own has base64."""
    if isinstance(value, list):
        return [ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for name, one in value.items():
        if name in IDS:
            assert re.fullmatch("[0-9a-f]{%d}" % IDS[name], one), (name, one)
            one = base64.b64encode(bytes.fromhex(one)).decode()
        changed[name] = ids(one)
    return changed


def strict(value, message):
    """What protobuf reads either way and OTLP does not allow: enums by their names, and 64-bit
    integers as numbers."""
    for field, inner in message.ListFields():
        written = value[field.json_name]
        repeated = isinstance(written, list)
        for one, of in zip(written, inner) if repeated else [(written, inner)]:
            if field.type == field.TYPE_ENUM:
                assert isinstance(one, int), (field.name, one)
            elif field.type in (field.TYPE_FIXED64, field.TYPE_SFIXED64, field.TYPE_UINT64, field.TYPE_INT64):
                assert isinstance(one, str), (field.name, one)
            elif field.type == field.TYPE_MESSAGE:
                strict(one, of)


def ask(base, path, token, **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    request = urllib.request.Request(base + path, headers={"authorization": f"Bearer {token}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=180) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def first_line(server):
    """The first line it says: a server that says none is ended, and its end is a line too."""
    too_long = threading.Timer(START_SECONDS, server.kill)
    too_long.start()
    try:
        return server.stdout.readline()
    finally:
        too_long.cancel()


def check(binary, scheme):
    messages.clear()
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    trusting = []
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, KEY)
        collector.socket = context.wrap_socket(collector.socket, server_side=True)
        trusting = ["--otlp-ca", CERTIFICATE]
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        tree, data = os.path.join(scratch, "tree"), os.path.join(scratch, "data")
        os.mkdir(tree)
        os.mkdir(data, 0o700)
        with open(os.path.join(tree, "a.txt"), "w") as file:
            file.write("one\n")
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"{scheme}://127.0.0.1:{collector.server_port}/",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
        }
        server = subprocess.Popen(
            [binary, "serve", "--dir", tree, "--data-dir", data, "--port", "0", *trusting],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        try:
            base = re.search(r"http://127[0-9.:]+", first_line(server)).group()
            made = [binary, "token", "create", "--data-dir", data, "--scope", "fs:read"]
            token = subprocess.run(made, capture_output=True, text=True, check=True).stdout.strip()
            parent = f"00-{TRACE}-{PARENT}-01"
            assert ask(base, "/file?path=a.txt", token, traceparent=parent) == 200
            assert ask(base, "/file?path=none", token) == 404
            assert ask(base, "/file?path=.env", token) == 403
            assert ask(base, "/list?path=.", token) == 200
            assert ask(base, "/file", "nobody") == 401
        finally:
            server.terminate()
            server.wait(timeout=180)
    parsed = {path: [] for path in KINDS}
    for path, kind, body in messages:
        assert kind == "application/json", kind
        value = ids(json.loads(body))
        message = KINDS[path]()
        json_format.ParseDict(value, message, ignore_unknown_fields=False)
        strict(value, message)
        parsed[path].append(message)
    spans = [
        span
        for message in parsed["/v1/traces"]
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    requests = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    assert len(requests) == 5, spans
    below = [span for span in spans if span.kind == Span.SPAN_KIND_INTERNAL]
    assert len(below) == 4, spans
    assert {span.parent_span_id for span in below} < {span.span_id for span in requests}
    [ours] = [span for span in requests if span.trace_id.hex() == TRACE]
    assert ours.parent_span_id.hex() == PARENT
    last = parsed["/v1/metrics"][-1].resource_metrics[0].scope_metrics[0].metrics
    told = {metric.name: metric for metric in last}
    requested = told["portcullis.http.requests"].sum
    assert requested.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    assert requested.is_monotonic and sum(point.as_int for point in requested.data_points) == 5
    for point in told["portcullis.http.request.duration"].histogram.data_points:
        assert sum(point.bucket_counts) == point.count
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    collector.shutdown()
    print(f"{scheme}: {len(messages)} messages are OTLP: {len(spans)} spans, {len(told)} metrics")


for scheme in ["http", "https"]:
    check(sys.argv[1], scheme)
