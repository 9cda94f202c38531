"""As much of HTTP as a bench of ten thousand streams needs."""
import asyncio
import json

BASE = "/rest/instance-ai/gateway"


class Connection:
    """One connection, one request at a time."""

    def __init__(self, port, source, tls=None):
        self.port, self.source, self.tls = port, source, tls
        self.reader = self.writer = None
        self.turn = asyncio.Lock()

    async def send(self, method, target, head, body=None):
        # A server lets go of a connection nobody uses; that is no loss.
        if self.writer is None or self.writer.is_closing() or self.reader.at_eof():
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.port, local_addr=(self.source, 0), limit=1 << 16, ssl=self.tls)
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        text = b""
        if method == "POST":
            text = json.dumps(body or {}).encode()
            lines += ["Content-Type: application/json", f"Content-Length: {len(text)}"]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + text)
        await self.writer.drain()
        status = int((await self.reader.readline()).split()[1])
        fields = {}
        while (line := (await self.reader.readline()).strip()):
            name, _, value = line.decode("latin-1").partition(":")
            fields[name.lower()] = value.strip()
        return status, fields

    async def chunk(self):
        """The next piece of a body that has no length; nothing at its end."""
        size = int((await self.reader.readline()).split(b";")[0] or b"0", 16)
        piece = await self.reader.readexactly(size)
        await self.reader.readline()
        return piece

    async def ask(self, method, target, head, body=None):
        """A request and the whole of its reply."""
        async with self.turn:
            status, fields = await self.send(method, target, head, body)
            if "content-length" in fields:
                text = await self.reader.readexactly(int(fields["content-length"]))
            else:
                text = b""
                while (piece := await self.chunk()):
                    text += piece
            return status, text

    def close(self):
        if self.writer is not None:
            self.writer.close()
