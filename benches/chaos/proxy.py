"""A proxy on loopback that breaks what goes through it, while there is a storm."""
import asyncio
import collections
import time

EVENTS = b"GET /rest/instance-ai/gateway/events"
# How long a connection is left alone at most before something befalls it, in a storm.
CALM_SECONDS = 6.0
# How long a fault lasts at most, and how long a connection may be idle in a storm.
FAULT_SECONDS, IDLE_SECONDS = 4.0, 3.0
MOST_DELAY = 0.6
# What may befall a connection that is in use; the first twice as often.
IN_USE = ["delayed", "dropped", "held back up", "held back down", "half open up", "half open down"]
REFUSED, IDLE = "refused", "idle, cut"
FAULTS = [REFUSED, IDLE, *IN_USE]


class Storm:
    """Whether things break now; shared by every proxy."""

    def __init__(self, chance):
        self.chance, self.raging = chance, False
        self.faults = collections.Counter()


class Proxy:
    """One way to the server, with its own port."""

    def __init__(self, storm, target):
        self.storm, self.target = storm, target
        self.server = self.port = None
        self.pairs = set()
        self.tasks = set()
        # When something last broke here, and since when the link's stream has been up.
        self.broken, self.up, self.stream = 0.0, None, None
        # While set, what daemons reply is swallowed.
        self.swallows = False

    async def open(self):
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def close(self):
        self.server.close()
        for pair in list(self.pairs):
            pair.cut()
        for task in list(self.tasks):
            task.cancel()

    async def accept(self, reader, writer):
        self.tasks.add(task := asyncio.current_task())
        pair = None
        try:
            if self.storm.raging and self.storm.chance.random() < 0.05:
                self.note(REFUSED)
                writer.transport.abort()
                return
            there = await asyncio.open_connection("127.0.0.1", self.target)
            pair = Pair(self, (reader, writer), there)
            self.pairs.add(pair)
            await pair.run()
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self.tasks.discard(task)
            if pair:
                pair.cut()
                self.pairs.discard(pair)

    def note(self, fault):
        self.storm.faults[fault] += 1
        self.broken = time.monotonic()

    def calm(self):
        """The storm is over: what is broken by now breaks for good, and is seen to."""
        for pair in list(self.pairs):
            if pair.fault:
                pair.cut()


class Pair:
    """A connection and the one behind it."""

    def __init__(self, proxy, here, there):
        self.proxy, self.here, self.there = proxy, here, there
        self.fault, self.heard = None, time.monotonic()
        self.is_stream, self.is_open = False, True

    async def run(self):
        proxy = self.proxy
        ways = [asyncio.create_task(self.pump(self.here[0], self.there[1], "up")),
                asyncio.create_task(self.pump(self.there[0], self.here[1], "down")),
                asyncio.create_task(self.weather())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            if proxy.stream is self:
                proxy.up = proxy.stream = None
                proxy.broken = time.monotonic()

    async def pump(self, reader, writer, way):
        storm = self.proxy.storm
        first = True
        try:
            while (data := await reader.read(1 << 16)):
                self.heard = time.monotonic()
                if first and way == "up" and data.startswith(EVENTS):
                    self.is_stream = True
                if first and way == "down" and self.is_stream and b" 200 " in data[:20]:
                    self.proxy.up, self.proxy.stream = time.monotonic(), self
                first = False
                if way == "up" and self.proxy.swallows and not self.is_stream:
                    continue
                fault = self.fault
                if fault == "delayed":
                    await asyncio.sleep(storm.chance.uniform(0, MOST_DELAY))
                elif fault == f"held back {way}":
                    # Until the fault is over; then all of it goes at once.
                    while self.fault == fault:
                        await asyncio.sleep(0.05)
                elif fault == f"half open {way}":
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass

    async def weather(self):
        storm, chance = self.proxy.storm, self.proxy.storm.chance
        while True:
            await asyncio.sleep(chance.uniform(0.3, CALM_SECONDS))
            if not storm.raging:
                continue
            if time.monotonic() - self.heard > IDLE_SECONDS:
                self.proxy.note(IDLE)
                return
            fault = chance.choice([IN_USE[0], *IN_USE])
            self.proxy.note(fault)
            if fault == "dropped":
                return
            self.fault = fault
            await asyncio.sleep(chance.uniform(0.5, FAULT_SECONDS))
            self.proxy.broken = time.monotonic()
            # What was swallowed is gone: such a connection does not get well.
            if fault.startswith("half open"):
                return
            self.fault = None

    def cut(self):
        if self.is_open:
            self.is_open = False
            if self.fault:
                self.proxy.broken = time.monotonic()
            for _, writer in (self.here, self.there):
                writer.transport.abort()
