"""Breaks links between a server and its machines, while agents call; called by chaos.sh."""
import asyncio
import collections
import random
import shutil
import sys
import tempfile
import time

import judge
from callers import Call, Callers
from proxy import Proxy, Storm
from world import Laptop, Person, Server, fail

PEOPLE, EACH = 3, 2
# The server is killed so often, and down for so long at most.
CYCLE_SECONDS, DOWN_SECONDS = 20, 1.0
# How long it storms in a cycle; one in so many storms from end to end.
STORM_SECONDS, ALL_STORM = (3.0, 6.0), 4
LINK_SECONDS = 40
# A daemon that could not get in waits 30 s at most before it tries again.
BACK_SECONDS = 180 if sys.argv[6] == "smoke" else 60
KINDS = ["read"] * 9 + ["search"] * 1 + ["append"] * 6 + ["create"] * 4
# No more calls are under way at once than agents would be patient for.
MOST_AT_ONCE = 8000
# What part of the calls has to be made for it to count.
LEAST = 0.8
# A short run goes on for so many cycles at most where chance has kept a fault from it: a
# long one meets them all.
MORE_CYCLES = 3


class Chaos:
    def __init__(self, binary, scratch, seed, is_named):
        self.is_named = is_named
        self.chance = random.Random(seed)
        self.storm = Storm(self.chance)
        self.server = Server(binary, scratch)
        self.laptops, self.calls = [], []
        self.front = None
        self.is_over = self.is_settled = False
        # Of each machine, when server and link were there and nothing broke.
        self.spans = collections.defaultdict(list)
        self.backs, self.ups = [], []
        self.muted = self.kills = self.unlinked = self.called = 0

    async def set_up(self):
        people = PEOPLE * EACH
        proxies = [Proxy(self.storm, self.server.port) for _ in range(people)]
        self.front = Proxy(self.storm, self.server.port)
        for proxy in [*proxies, self.front]:
            await proxy.open()
        self.server.hosts = [f"127.0.0.1:{proxy.port}" for proxy in proxies]
        persons = [Person(self.server, f"person{n}") for n in range(PEOPLE)]
        self.server.start()
        await asyncio.to_thread(self.server.wait)
        for number, proxy in enumerate(proxies):
            person = persons[number % PEOPLE]
            # The fixed key is one machine's: the first.
            self.laptops.append(Laptop(self.server, person, f"machine-{number}", proxy, number == 0))
        for laptop in self.laptops:
            await asyncio.to_thread(laptop.connect)
            await self.linked(laptop, "at first")

    async def linked(self, laptop, when):
        until = time.monotonic() + LINK_SECONDS
        while laptop.proxy.up is None:
            if laptop.daemon.poll() is not None:
                fail(f"the daemon of {laptop.name} ended {when}: {laptop.said()}")
            if time.monotonic() > until:
                fail(f"{laptop.name} was not linked {when} within {LINK_SECONDS} s")
            await asyncio.sleep(0.02)

    async def kill_server(self):
        await asyncio.to_thread(self.server.kill)
        await asyncio.sleep(self.chance.uniform(0.2, DOWN_SECONDS))
        began = time.monotonic()
        self.server.start()
        await asyncio.to_thread(self.server.wait)
        self.ups.append(time.monotonic() - began)

    def lacks(self, seconds):
        """Whether a run of so long has yet to meet what it has to."""
        facts = {"faults": self.storm.faults, "server_kills": self.server.kills, "muted": self.muted}
        # Whether one was killed just then is seen on the disk, and later.
        return bool(judge.unseen(seconds, True, facts))

    async def cycles(self, seconds):
        """Kills the server, lets it storm, lets it be calm; again and again."""
        end, number = time.monotonic() + seconds, 0
        more = MORE_CYCLES if seconds < judge.ALL_KILLS_SECONDS else 0
        while True:
            if time.monotonic() >= end:
                if not more or not self.lacks(seconds):
                    break
                more, end = more - 1, time.monotonic() + CYCLE_SECONDS
            began, number = time.monotonic(), number + 1
            self.storm.raging = True
            await self.kill_server()
            lasts = CYCLE_SECONDS if number % ALL_STORM == 0 else self.chance.uniform(*STORM_SECONDS)
            await self.until(min(began + lasts, end))
            self.storm.raging = number % ALL_STORM == 0
            if not self.storm.raging:
                for proxy in [self.front, *(laptop.proxy for laptop in self.laptops)]:
                    proxy.calm()
            await self.until(min(began + CYCLE_SECONDS, end))
        self.storm.raging = False
        for proxy in [self.front, *(laptop.proxy for laptop in self.laptops)]:
            proxy.calm()
        self.is_over = True
        await self.all_back()
        self.is_settled = True

    async def all_back(self):
        """Whatever was done to it, every machine is lent again once nothing breaks."""
        until = time.monotonic() + BACK_SECONDS
        for laptop in self.laptops:
            while laptop.proxy.up is None or laptop.daemon.poll() is not None:
                if time.monotonic() > until:
                    fail(f"{laptop.name} was not linked again within {BACK_SECONDS} s of calm: {laptop.said()}")
                await asyncio.sleep(0.1)

    async def until(self, when):
        await asyncio.sleep(max(0.0, when - time.monotonic()))

    async def deaths(self):
        """Kills daemons; of four, two can say nothing more for a moment before."""
        turn = 0
        while not self.is_over:
            await asyncio.sleep(self.chance.uniform(8, 16))
            if self.is_over:
                return
            # The one with the fixed key as often as all others together.
            laptop = self.laptops[0] if turn % 2 == 0 else self.chance.choice(self.laptops[1:])
            if laptop.daemon.poll() is not None or laptop.proxy.up is None:
                continue
            if turn % 4 < 2:
                laptop.proxy.swallows = True
                self.muted += 1
                await asyncio.sleep(0.7)
            self.kills += 1
            laptop.kill()
            laptop.proxy.swallows, laptop.proxy.broken = False, time.monotonic()
            turn += 1

    async def births(self):
        """Starts a daemon where there is none, with the fixed key or paired anew."""
        while not (self.is_settled and all(call.ended for call in self.calls)):
            for laptop in self.laptops:
                laptop.is_back()
                if laptop.daemon.poll() is None or self.server.up is None:
                    continue
                if laptop.deaths and laptop.deaths[-1][1] is None:
                    # One that was never linked: a storm may keep it from being let in.
                    self.unlinked += laptop.daemon.returncode >= 0
                else:
                    laptop.given_up.append(laptop.said())
                    laptop.died()
                await asyncio.to_thread(laptop.connect)
            await asyncio.sleep(0.3)

    async def watch(self):
        """Notes when server and link of a machine are there, and nothing breaks."""
        since, was_up = {}, {}
        while True:
            now = time.monotonic()
            for laptop in self.laptops:
                proxy, name, up = laptop.proxy, laptop.name, self.server.up
                is_well = up is not None and proxy.up is not None and proxy.up > up and not self.storm.raging
                start = max(up or 0, proxy.up or 0, proxy.broken, self.front.broken) if is_well else None
                if since.get(name) is not None and since[name] != start:
                    self.spans[name].append((since[name], now))
                since[name] = start
                if up is not None and proxy.up is not None and was_up.get(name) != up and proxy.up > up:
                    was_up[name] = up
                    self.backs.append(proxy.up - up)
            if self.is_settled and not any(call.ended is None for call in self.calls):
                for name, start in since.items():
                    if start is not None:
                        self.spans[name].append((start, now))
                return
            await asyncio.sleep(0.1)

    async def calling(self, rate):
        callers = Callers(self.front, f"127.0.0.1:{self.server.port}", self.chance, self.is_named)
        under_way, began, number = set(), time.monotonic(), 0
        while not self.is_over:
            due = began + number / rate
            await self.until(due)
            if len(under_way) < MOST_AT_ONCE:
                call = Call(number, self.chance.choice(self.laptops), self.chance.choice(KINDS))
                self.calls.append(call)
                under_way.add(task := asyncio.create_task(callers.run(call)))
                task.add_done_callback(under_way.discard)
            number += 1
        self.called = time.monotonic() - began
        await asyncio.gather(*under_way)

    async def run(self, seconds, rate):
        await self.set_up()
        tasks = [asyncio.create_task(work) for work in
                 [self.cycles(seconds), self.deaths(), self.births(), self.watch(), self.calling(rate)]]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return {
            "calling": self.called, "server_kills": self.server.kills,
            "up_again": max(self.ups), "back": max(self.backs, default=float("nan")),
            "back_mean": sum(self.backs) / max(1, len(self.backs)),
            "daemon_kills": self.kills, "muted": self.muted, "unlinked": self.unlinked,
            "faults": self.storm.faults,
        }


def main():
    binary, seconds, rate, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    scratch = tempfile.mkdtemp(prefix="portcullis-chaos-")
    chaos = Chaos(binary, scratch, seed, sys.argv[5] == "named")
    is_right = False
    try:
        facts = asyncio.run(chaos.run(seconds, rate))
        wrong, done_untold = judge.missed(chaos.calls, chaos.laptops, f"{scratch}/served", chaos.spans)
        smoke = sys.argv[6] == "smoke"
        if smoke:
            # A slow machine is late by itself: of time, a smoke run decides nothing.
            for what in [what for what in wrong if what in judge.LATE]:
                print(f"told, and not decided by a smoke run: {len(wrong.pop(what))} calls: {what}")
        elif len(chaos.calls) < LEAST * rate * chaos.called:
            wrong["were all that could be made: the machine is too slow to tell"].append(f"{rate} a second were asked for")
        for laptop in chaos.laptops:
            for words in laptop.given_up:
                wrong["were on their way when a daemon gave up by itself"].append(f"{laptop.name}: {words}")
        judge.told(chaos.calls, wrong, done_untold, facts)
        unseen = judge.unseen(seconds, done_untold, facts)
        for what in unseen:
            print(f"benches/chaos: {'not met' if smoke else 'FAILED'}: {what}")
        unseen = [] if smoke else unseen
        is_right = not wrong and not unseen and bool(chaos.calls)
    finally:
        for laptop in chaos.laptops:
            laptop.end()
        if chaos.server.process and chaos.server.process.poll() is None:
            chaos.server.process.kill()
            chaos.server.process.wait()
        if is_right:
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            print(f"benches/chaos: what they said is in {scratch}", file=sys.stderr)
    if not is_right:
        sys.exit(f"benches/chaos: FAILED with --seed {seed}")
    print(f"benches/chaos: {len(chaos.calls):,} calls, none lost, none done twice (--seed {seed})")


main()
