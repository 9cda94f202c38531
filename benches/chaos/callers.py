"""Agents that give every call a name, and ask for it again until it has ended."""
import asyncio
import json
import time

VERSION = "2026-07-28"
# How long a call may take, and how much longer its caller asks on, to see what is late.
DEADLINE_SECONDS, SLACK_SECONDS = 60, 15
# How long one try may take before the call is asked for again.
TRY_SECONDS, PAUSES = 4.0, (0.25, 2.0)
# Nothing was sent, and it may be later: asked for again.
NOT_SENT = {"overload", "not_linked", "machine_gone", "busy"}
CONNECTIONS = 64


class Call:
    """What was asked, and what came of it."""

    def __init__(self, number, laptop, kind):
        self.number, self.laptop, self.kind = number, laptop, kind
        self.name = f"call-{number:07d}"
        self.began = time.monotonic()
        self.ended = self.outcome = self.why = None
        self.tries = 0

    @property
    def is_mutation(self):
        return self.kind in ("append", "create")

    def arguments(self):
        machine = {"machine": self.laptop.name}
        if self.kind == "append":
            return "append_file", {"filePath": f"log-{self.number % 16}.txt", "content": f"{self.name}\n", **machine}
        if self.kind == "create":
            # Made by appending: a second time would be a second line.
            return "append_file", {"filePath": f"new/{self.number % 32}/{self.name}", "content": f"{self.name}\n", **machine}
        if self.kind == "search":
            return "search_files", {"query": f"needle {self.number % 40}", **machine}
        return "read_file", {"filePath": f"tree/{self.number % 8}/{self.number % 40 // 8 * 8 + self.number % 8}.txt", **machine}


class Callers:
    """All agents of one server, over connections that are used again while they last."""

    def __init__(self, proxy, host, chance, is_named):
        self.proxy, self.host, self.chance, self.is_named = proxy, host, chance, is_named
        self.idle = []

    async def run(self, call):
        """Asks until the call has ended, or its deadline is over."""
        until = call.began + DEADLINE_SECONDS + SLACK_SECONDS
        while (left := until - time.monotonic()) > 0:
            call.tries += 1
            try:
                told = await asyncio.wait_for(self.ask(call), min(TRY_SECONDS, left))
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
                call.why = repr(error)
                # What was too slow has waited long enough.
                if not isinstance(error, asyncio.TimeoutError):
                    await self.pause(call)
                continue
            call.outcome, call.why = told
            if call.outcome not in NOT_SENT:
                break
            await self.pause(call)
        call.ended = time.monotonic()
        return call

    async def pause(self, call):
        first, longest = PAUSES
        await asyncio.sleep(min(longest, first * 2 ** min(call.tries, 8)) * self.chance.uniform(0.5, 1))

    async def ask(self, call):
        tool, arguments = call.arguments()
        meta = {"io.modelcontextprotocol/protocolVersion": VERSION,
                "io.modelcontextprotocol/clientInfo": {"name": "chaos", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}}
        body = json.dumps({"jsonrpc": "2.0", "id": call.number, "method": "tools/call",
                           "params": {"name": tool, "arguments": arguments, "_meta": meta}}).encode()
        name = f"Idempotency-Key: {call.name}\r\n" if self.is_named else ""
        head = (f"POST /mcp HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {call.laptop.person.token}\r\n"
                f"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
                f"Mcp-Protocol-Version: {VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
                f"{name}Content-Length: {len(body)}\r\n\r\n").encode()
        connection = None
        # One that the other side has closed is not used again.
        while self.idle and connection is None:
            connection = self.idle.pop()
            if connection[0].at_eof() or connection[1].is_closing():
                connection[1].close()
                connection = None
        if connection is None:
            connection = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        reader, writer = connection
        is_whole = False
        try:
            writer.write(head + body)
            await writer.drain()
            status, text = await answer(reader)
            is_whole = True
        finally:
            if is_whole and len(self.idle) < CONNECTIONS:
                self.idle.append(connection)
            else:
                writer.transport.abort()
        return judged(status, text)


async def answer(reader):
    status = int((await reader.readline()).split()[1])
    fields = {}
    while (line := (await reader.readline()).strip()):
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.lower()] = value.strip()
    if "content-length" in fields:
        return status, await reader.readexactly(int(fields["content-length"]))
    text = b""
    while (size := int((await reader.readline()).split(b";")[0], 16)):
        text += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return status, text


def judged(status, text):
    """`done`, or the reason of a typed error; anything else raises, and is asked again."""
    told = json.loads(text) if text.startswith(b"{") else {}
    result = told.get("result", {})
    if status == 200 and "content" in result:
        if not result.get("isError"):
            return "done", None
        failure = result.get("structuredContent", {})
        if failure.get("errorKind") and failure.get("reason"):
            return failure["reason"], failure.get("error")
        return "untyped", text[:300].decode("utf-8", "replace")
    data = told.get("error", {})
    data = data.get("data", {}) if isinstance(data, dict) else told
    if data.get("errorKind") and data.get("reason"):
        return data["reason"], str(told)[:300]
    # 429, 503 and their like: the server says to come later.
    if status in (429, 500, 502, 503, 504):
        raise ValueError(f"{status} {text[:100]}")
    return "untyped", f"{status} {text[:300]}"
