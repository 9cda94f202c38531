"""Soaks a server, looks at its handles and its memory, and says what came of it."""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from disturb import Disturber

DISTURBERS = 6
CONNECTIONS = 16
# How long the server has, once nobody asks any more, to close what was left open; and
# for how long nothing has to have changed. Its clients have closed all of theirs.
QUIET_SECONDS, STEADY_SECONDS = 40, 3
# How much more memory the last fifth may take than the second: what an allocator keeps
# between rounds, and no more. The first fifth is for what is made when first needed.
GROWTH_SHARE, GROWTH_MIB = 0.10, 8
START_SECONDS = 120


def fail(what):
    print(f"benches/soak: FAILED: {what}")
    sys.exit(1)


class Server:
    def __init__(self, binary, scratch):
        self.binary, self.scratch = binary, scratch
        self.data, self.root = os.path.join(scratch, "data"), os.path.join(scratch, "root")
        make(self.root)
        self.log = open(os.path.join(scratch, "log"), "w+")
        self.process = subprocess.Popen(
            [binary, "serve", "--data-dir", self.data, "--dir", self.root, "--port", "0", "--write"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.port = self.listening()

    def listening(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with open(self.log.name) as log:
                found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read())
            if found:
                return int(found[1])
            time.sleep(0.02)
        fail(f"it did not start: {self.said()}")

    def said(self):
        with open(self.log.name) as log:
            return log.read()[-2_000:]

    def token(self, scopes):
        made = subprocess.run(
            [self.binary, "token", "create", "--data-dir", self.data, "--scope", scopes],
            capture_output=True, text=True, check=True)
        return re.search(r"pcl_\S+", made.stdout)[0]

    def handles(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def names(self):
        """What its handles are, for who has to find one too many."""
        held = {}
        for fd in os.listdir(f"/proc/{self.process.pid}/fd"):
            try:
                name = re.sub(r"\d{3,}", "N", os.readlink(f"/proc/{self.process.pid}/fd/{fd}"))
            except OSError:
                continue
            held[name] = held.get(name, 0) + 1
        return held

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1024

    def metrics(self, token):
        ask = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics",
                                     headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(ask, timeout=20) as answer:
            text = answer.read().decode()
        counts, broken = {}, []
        for route, status, count in re.findall(
                r'requests_total\{route="([^"]*)",status="(\dxx)"\} (\d+)', text):
            counts[status] = counts.get(status, 0) + int(count)
            if status == "5xx":
                broken.append(f"{route} {count}")
        return counts, broken

    def end(self):
        self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None


def make(root):
    os.makedirs(os.path.join(root, "listed"))
    os.makedirs(os.path.join(root, "written"))
    line = "the quick brown fox jumps over the lazy dog, twice\n"
    for name, size in [("small.txt", 4_096), ("large.txt", 204_800), ("huge.bin", 8 << 20)]:
        with open(os.path.join(root, name), "w") as file:
            file.write((line * (size // len(line) + 1))[:size])
    for n in range(1_000):
        open(os.path.join(root, "listed", f"entry-{n}.txt"), "w").close()


def wrk(server, token, seconds):
    here = os.path.dirname(os.path.abspath(__file__))
    return subprocess.Popen(
        ["wrk", "-t2", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "20s", "-s",
         os.path.join(here, "mix.lua"), f"http://127.0.0.1:{server.port}", "--", token],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def steady(server):
    """The handles of a server nobody asks, when they have stayed as they are for a while."""
    until, held, since = time.monotonic() + QUIET_SECONDS, server.handles(), time.monotonic()
    while time.monotonic() < until and time.monotonic() - since < STEADY_SECONDS:
        time.sleep(0.1)
        now = server.handles()
        if now != held:
            held, since = now, time.monotonic()
    return held


def back_at(server, base):
    """The handles once they are back at `base`, or when the time for that is up."""
    until = time.monotonic() + QUIET_SECONDS
    while server.handles() > base and time.monotonic() < until:
        time.sleep(0.25)
    return server.handles()


def statuses_of(output):
    counts = {}
    for line in re.findall(r"^statuses (.*)$", output, re.M):
        for status, count in re.findall(r"(\d+)=(\d+)", line):
            counts[status] = counts.get(status, 0) + int(count)
    return counts


def fifth(samples, which):
    size = len(samples) // 5
    return samples[which * size:(which + 1) * size]


def soak(server, seconds):
    scopes = "fs:read,fs:write,approve,audit"
    tokens = [server.token(scopes) for _ in range(3)]
    ended = threading.Event()
    # What is made when first needed is there before anything is measured.
    Disturber(server.port, tokens, ended, 0).each()
    wrk(server, tokens[0], 2).communicate()
    base, names = steady(server), server.names()
    disturbers = [Disturber(server.port, tokens, ended, seed) for seed in range(1, DISTURBERS + 1)]
    load = wrk(server, tokens[0], seconds)
    for one in disturbers:
        one.start()
    samples = []
    pause = max(0.1, seconds / 500)
    while load.poll() is None:
        samples.append((server.resident_mib(), server.handles()))
        time.sleep(pause)
    output = load.stdout.read()
    ended.set()
    for one in disturbers:
        one.join(30)
    after = back_at(server, base)
    problems = report(server, tokens[0], samples, (base, after, names), output, disturbers)
    return problems, growth(samples)


def report(server, token, samples, handles, output, disturbers):
    base, after, names = handles
    counts, broken = server.metrics(token)
    told = statuses_of(output)
    did = {}
    for one in disturbers:
        for name, count in one.done.items():
            did[name] = did.get(name, 0) + count
    refused = [status for one in disturbers for status in one.statuses if status >= 500]
    requests = int(re.search(r"^requests (\d+)", output, re.M)[1])
    rows = [
        ("requests by wrk", f"{requests:,}"),
        ("answered by the server", " ".join(f"{status} {count:,}" for status, count in sorted(counts.items()))),
        ("seen by wrk", " ".join(f"{status} {count:,}" for status, count in sorted(told.items()))),
        ("not answered", re.search(r"^errors (.*)$", output, re.M)[1]),
        ("disturbances", " ".join(f"{name} {count:,}" for name, count in sorted(did.items()))),
        ("memory, by fifths (MiB)", " ".join(
            f"{statistics.median(mib for mib, _ in fifth(samples, which)):.1f}" for which in range(5))),
        ("handles before, most, after", f"{base} {max(held for _, held in samples)} {after}"),
    ]
    for name, value in rows:
        print(f"{name:<28} {value}")
    problems = []
    if broken or refused or any(status >= "500" for status in told):
        problems.append(f"it answered with a 5xx: {broken} {refused}")
    if any(one.problem for one in disturbers):
        problems.append(f"a disturber broke: {[one.problem for one in disturbers]}")
    if not requests or min(did.values()) == 0 or len(did) < 8:
        problems.append("not everything was tried")
    # A reply that takes longer than 20 seconds says something of a busy machine too, so
    # it is told and decides nothing; a connection that is not taken does.
    if re.search(r"^errors connect=[1-9]", output, re.M):
        problems.append("connections were not taken")
    if after > base:
        more = {name: count for name, count in server.names().items() if count > names.get(name, 0)}
        # The first file of a chain says that its process lives; a long record goes on in a
        # second one.
        more = {name: count for name, count in more.items()
                if count > 2 or not re.search(r"/audit/[^/]+/N\.jsonl$", name)}
        if more:
            problems.append(f"handles were left open, these more often than before: {more}")
    return problems


def growth(samples):
    """What is wrong with its memory, if anything is."""
    second, last = (statistics.median(mib for mib, _ in fifth(samples, which)) for which in (1, 4))
    most = second + max(GROWTH_MIB, second * GROWTH_SHARE)
    return f"memory grew from {second:.1f} to {last:.1f} MiB; {most:.1f} is the most" if last > most else None


def main():
    binary, seconds = sys.argv[1], int(sys.argv[2])
    scratch = tempfile.mkdtemp(prefix="portcullis-soak-")
    server = None
    try:
        server = Server(binary, scratch)
        problems, grew = soak(server, seconds)
        if grew:
            # The same server, for twice as long: what leaks grows again, and more; what was
            # made when first needed, late on a slow machine, does not.
            print(f"{grew}; soaking it again, for {2 * seconds} s")
            more, grew = soak(server, 2 * seconds)
            problems += more + ([grew] if grew else [])
        if server.end() != 0:
            problems.append(f"it did not end in order: {server.said()}")
        for problem in problems:
            print(f"benches/soak: FAILED: {problem}")
        if problems:
            sys.exit(1)
        print(f"benches/soak: {seconds} s, no 5xx, handles back, memory flat")
    finally:
        if server and server.process.poll() is None:
            server.process.kill()
        shutil.rmtree(scratch, ignore_errors=True)


main()
