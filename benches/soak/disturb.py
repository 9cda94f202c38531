"""Clients that behave badly: they open, half-send, listen, and are gone."""
import json
import random
import socket
import struct
import threading
import time

ABORT = struct.pack("ii", 1, 0)
STREAMS = ["/audit/events", "/approvals/events", "/watch"]
ACCEPT = "Accept: application/json, text/event-stream\r\n"


class Disturber(threading.Thread):
    """One of them, until `ended` is set. What it did is counted in `done`."""

    def __init__(self, port, tokens, ended, seed):
        super().__init__(daemon=True)
        self.port, self.tokens, self.ended = port, tokens, ended
        self.chance = random.Random(seed)
        self.done, self.statuses = {}, {}
        self.problem = None

    def run(self):
        ways = [self.silent, self.half_head, self.half_body, self.half_reply,
                self.stream, self.unread, self.session, self.abandoned]
        try:
            while not self.ended.is_set():
                self.way(self.chance.choice(ways))
        except Exception as problem:  # Told by who waits for this thread.
            self.problem = problem

    def each(self):
        """Every way once, so that whatever is made when first needed is there."""
        for way in [self.silent, self.half_head, self.half_body, self.half_reply,
                    self.unread, self.session, self.abandoned]:
            self.way(way)
        for target in STREAMS:
            self.way(lambda: self.stream(target))

    def way(self, way):
        try:
            way()
            name = way.__name__
            self.done[name] = self.done.get(name, 0) + 1
        except (ConnectionError, TimeoutError):
            pass  # Whoever cuts is cut off at times.
        time.sleep(self.chance.uniform(0, 0.02))

    def open(self):
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        if self.chance.random() < 0.5:
            # Closed so, the peer is told that it was cut.
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        return stream

    def head(self, method, target, more="", token=None):
        token = token or self.tokens[0]
        return (f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
                f"Authorization: Bearer {token}\r\n{more}\r\n").encode()

    def silent(self):
        with self.open():
            time.sleep(self.chance.uniform(0, 0.3))

    def half_head(self):
        with self.open() as stream:
            head = self.head("GET", "/file?path=small.txt")
            stream.sendall(head[:self.chance.randrange(len(head))])

    def half_body(self):
        target, kind, size = self.chance.choice([
            ("/file/write", "json", 4_000), ("/mcp", "json", 4_000),
            ("/file/upload?path=up.bin", "octet-stream", 2_000_000)])
        with self.open() as stream:
            more = f"Content-Type: application/{kind}\r\n{ACCEPT}Content-Length: {size}\r\n"
            stream.sendall(self.head("POST", target, more))
            stream.sendall(b'{"path":"half.txt","content":"' + b"x" * self.chance.randrange(size // 2))

    def half_reply(self):
        with self.open() as stream:
            stream.sendall(self.head("GET", "/file/raw?path=huge.bin"))
            stream.recv(self.chance.randrange(1, 100_000))

    def unread(self):
        with self.open() as stream:
            ask = self.head("GET", "/file?path=large.txt")
            stream.sendall(ask * self.chance.randrange(1, 8))

    def stream(self, target=None):
        with self.open() as stream:
            status, _ = self.ask(stream, self.head("GET", target or self.chance.choice(STREAMS)))
            if status != 200:
                raise ConnectionError("refused")  # Not counted as done.
            time.sleep(self.chance.uniform(0, 0.5))

    def ask(self, stream, head, body=b""):
        """Sends a request, and reads the head of the answer."""
        stream.sendall(head + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            some = stream.recv(65_536)
            if not some:
                raise ConnectionError("cut")
            answer += some
        lines = answer.split(b"\r\n\r\n")[0].decode().split("\r\n")
        status = int(lines[0].split(" ")[1])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        return status, headers

    def initialize(self, token):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "soak", "version": "1"}}}).encode()
        more = f"Content-Type: application/json\r\n{ACCEPT}Content-Length: {len(body)}\r\n"
        with self.open() as stream:
            return self.ask(stream, self.head("POST", "/mcp", more, token), body)

    def session(self):
        """A session that is listened to, cut and ended."""
        token = self.tokens[1]
        status, headers = self.initialize(token)
        if status != 200:
            return
        named = f"Mcp-Session-Id: {headers['mcp-session-id']}\r\n"
        if self.chance.random() < 0.7:
            with self.open() as stream:
                self.ask(stream, self.head("GET", "/mcp", named + ACCEPT, token))
        with self.open() as stream:
            self.ask(stream, self.head("DELETE", "/mcp", named, token))

    def abandoned(self):
        """A session nobody ends: sixteen are there until they are idle too long."""
        self.initialize(self.tokens[2])
