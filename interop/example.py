"""Runs examples/daemon.py against the real `portcullis serve`; called by example.sh."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SECONDS = 20
DAEMON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "daemon.py")


def until(what, look):
    """What `look` finds, as soon as it finds something."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"example: FAILED: {what} took more than {SECONDS} s")


class World:
    def __init__(self, binary, scratch):
        self.binary, self.data, self.log = binary, f"{scratch}/data", f"{scratch}/log"
        self.lent = f"{scratch}/lent"
        os.makedirs(self.lent)
        os.makedirs(f"{scratch}/served")
        with open(f"{self.lent}/notes.txt", "w", encoding="utf-8") as file:
            file.write("what the laptop knows\n")
        with open(f"{scratch}/outside.txt", "w", encoding="utf-8") as file:
            file.write("nobody's business\n")
        os.symlink(f"{scratch}/outside.txt", f"{self.lent}/link.txt")
        with open(self.log, "w", encoding="utf-8") as log:
            self.server = subprocess.Popen(
                [binary, "serve", "--data-dir", self.data, "--dir", f"{scratch}/served", "--port", "0"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.base = until("the start", self.address)
        made = self.command("token", "create", "--scope", "fs:read,approve,audit")
        self.token = re.search(r"pcl_\S+", made)[0]

    def address(self):
        with open(self.log, encoding="utf-8") as log:
            found = re.search(r"http://127\.0\.0\.1:\d+", log.read())
        return found and found[0]

    def command(self, *words):
        made = subprocess.run([self.binary, *words, "--data-dir", self.data],
                              capture_output=True, text=True, check=False)
        if made.returncode:
            raise SystemExit(f"example: FAILED: {' '.join(words)}: {made.stderr}")
        return made.stdout

    def lend(self, key):
        return subprocess.Popen([sys.executable, DAEMON, self.base, key, self.lent],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def ask(self, path, body=None, **head):
        head |= {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, head)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as refused:
            return json.load(refused)

    def status(self):
        return self.ask("/rest/instance-ai/gateway/status")["data"]

    def read(self, name, **more):
        version = "2026-07-28"
        meta = {"io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "example", "version": "0"}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "read_file", "arguments": {"filePath": name, **more}, "_meta": meta}}
        told = self.ask("/mcp", call, **{"Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call",
                                         "Mcp-Protocol-Version": version, "Mcp-Name": "read_file"})
        return told.get("result", told)


def tried(world):
    """Each case: what it is, and whether it is so."""
    key = re.search(r"gw_[\w-]+", world.command("link", "create", "--url", world.base))[0]
    yield "nothing is linked at first", not world.status()["connected"]
    daemon = world.lend(key)
    try:
        until("the link", lambda: world.status()["connected"])
        yield "the directory it lends is told", world.status()["directory"] == os.path.realpath(world.lent)
        read = world.read("notes.txt")
        yield "an agent reads a file of the laptop", read["structuredContent"]["content"] == "what the laptop knows\n"
        for name in ["../outside.txt", "link.txt", "..", "gone.txt"]:
            refused = world.read(name)
            yield f"it refuses {name}", refused["isError"] and "business" not in json.dumps(refused)
        unknown = world.read("notes.txt", machine="another")
        yield "a machine nobody has is told", unknown["isError"] and "linked" in json.dumps(unknown)
        again = world.lend(key)
        yield "a pairing token counts once", again.wait(SECONDS) != 0 and "does not know this key" in again.stderr.read()
        lines = [line for line in world.command("audit", "query", "--json").splitlines() if '"relay"' in line]
        yield "every call is on the record, twice", len([line for line in lines if "notes.txt" in line]) == 2
        world.ask("/rest/instance-ai/gateway/disconnect-session", {})
        yield "its owner ends it, and it goes", daemon.wait(SECONDS) == 0
        yield "then nothing is linked", not world.status()["connected"]
    finally:
        if daemon.poll() is None:
            daemon.kill()


def main():
    scratch = tempfile.mkdtemp(prefix="portcullis-example-")
    world = World(sys.argv[1], scratch)
    try:
        cases = list(tried(world))
    finally:
        world.server.terminate()
        world.server.wait(SECONDS)
        shutil.rmtree(scratch, ignore_errors=True)
    wrong = [name for name, right in cases if not right]
    for name in wrong:
        print(f"problem: not so: {name}", file=sys.stderr)
    print(f"example: {len(cases)} cases with examples/daemon.py, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
