"""The server and the daemons, as processes that can be killed and started again."""
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

START_SECONDS = 120
SCOPES = "fs:read,fs:write,approve"
LINES = "one line of many, and nothing special about it\n"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def fail(why):
    sys.exit(f"benches/chaos: FAILED: {why}")


class Server:
    """`portcullis serve`, always at the same port and in the same directory."""

    def __init__(self, binary, scratch):
        self.binary, self.scratch, self.data = binary, scratch, f"{scratch}/data"
        self.port, self.process = free_port(), None
        self.key = "chaos-" + os.urandom(16).hex()
        os.makedirs(f"{scratch}/served")
        self.hosts = []
        # Since when it is up; nothing while it is not.
        self.up, self.kills = None, 0

    def start(self):
        words = [self.binary, "serve", "--data-dir", self.data, "--dir", f"{self.scratch}/served",
                 "--port", str(self.port), "--gateway-user", "person0"]
        for host in self.hosts:
            words += ["--allow-host", host]
        with open(f"{self.scratch}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, "PORTCULLIS_GATEWAY_API_KEY": self.key})

    def is_up(self):
        if self.process.poll() is not None:
            with open(f"{self.scratch}/log", encoding="utf-8") as log:
                fail(f"the server ended: {log.read()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as reply:
                return reply.status == 200
        except OSError:
            return False

    def wait(self):
        until = time.monotonic() + START_SECONDS
        while not self.is_up():
            if time.monotonic() > until:
                fail(f"the server was not up within {START_SECONDS} s")
            time.sleep(0.02)
        self.up = time.monotonic()

    def kill(self):
        self.up = None
        self.kills += 1
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def command(self, *words):
        made = subprocess.run([self.binary, *words, "--data-dir", self.data],
                              capture_output=True, text=True, check=False)
        if made.returncode:
            fail(f"{' '.join(words)}: {made.stderr}")
        return made.stdout


class Person:
    """Whose machines they are, with an agent's token."""

    def __init__(self, server, name):
        self.name = name
        server.command("user", "add", name, "--scope", SCOPES)
        made = server.command("token", "create", "--user", name, "--scope", SCOPES)
        self.token = re.search(r"pcl_\S+", made)[0]


class Laptop:
    """A machine that is lent: a directory, a home, a daemon, and its way to the server."""

    def __init__(self, server, person, name, proxy, is_fixed):
        self.server, self.person, self.name, self.proxy = server, person, name, proxy
        self.is_fixed = is_fixed
        self.home, self.lent = f"{server.scratch}/{name}-home", f"{server.scratch}/{name}"
        os.makedirs(self.home)
        for number in range(40):
            os.makedirs(f"{self.lent}/tree/{number % 8}", exist_ok=True)
            with open(f"{self.lent}/tree/{number % 8}/{number}.txt", "w", encoding="utf-8") as file:
                file.write(LINES * 20 + f"needle {number}\n")
        self.daemon = None
        # When its daemon died, and when the next was linked; and those that died by themselves.
        self.deaths, self.given_up = [], []

    def connect(self):
        """Starts its daemon, with the fixed key or paired anew."""
        base = f"http://127.0.0.1:{self.proxy.port}"
        key = self.server.key
        if not self.is_fixed:
            made = self.server.command("link", "create", "--user", self.person.name, "--url", base)
            key = re.search(r"gw_[\w-]+", made)[0]
        env = {"HOME": self.home, "PATH": os.environ["PATH"], "PORTCULLIS_GATEWAY_TOKEN": key}
        with open(f"{self.home}/said", "a", encoding="utf-8") as said:
            self.daemon = subprocess.Popen(
                [self.server.binary, "connect", "--url", base, "--dir", self.lent, "--auto-confirm",
                 "--allowed-origins", base, "--machine", self.name,
                 "--filesystem-write-access", "--permission-filesystem-write", "allow"],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env)

    def kill(self):
        self.died()
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def died(self):
        now = time.monotonic()
        # One that came back and died before anybody looked excuses nothing after it.
        if self.deaths and self.deaths[-1][1] is None:
            self.deaths[-1][1] = now
        self.deaths.append([now, None])

    def is_back(self):
        """Takes note once its daemon is linked again."""
        up = self.proxy.up
        if self.deaths and self.deaths[-1][1] is None and up is not None and up > self.deaths[-1][0]:
            self.deaths[-1][1] = up

    def was_dead(self, start, end):
        return any(died <= end and (back is None or start <= back) for died, back in self.deaths)

    def said(self):
        with open(f"{self.home}/said", encoding="utf-8") as said:
            return said.read()[-1500:]

    def end(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
