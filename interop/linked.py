"""The real `portcullis serve` with machines linked to it, for the scripts beside this one."""
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

SECONDS = 120
VERSION = "2026-07-28"


def until(what, look, seconds=SECONDS):
    """What `look` finds, as soon as it finds something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"FAILED: {what} took more than {seconds} s")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class World:
    """A server with a directory of its own, and an agent's token."""

    def __init__(self, binary, scratch, scopes="fs:read,fs:write,approve,audit"):
        self.binary, self.scratch = binary, scratch
        self.data, self.log = f"{scratch}/data", f"{scratch}/log"
        os.makedirs(f"{scratch}/served")
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.server = None
        self.start()
        self.token = re.search(r"pcl_\S+", self.command("token", "create", "--scope", scopes))[0]

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.server = subprocess.Popen(
                [self.binary, "serve", "--data-dir", self.data, "--dir", f"{self.scratch}/served",
                 "--port", str(self.port), "--write"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("the start", self.is_up)

    def is_up(self):
        if self.server.poll() is not None:
            with open(self.log, encoding="utf-8") as log:
                raise SystemExit(f"FAILED: the server ended: {log.read()[-2000:]}")
        try:
            with urllib.request.urlopen(self.base + "/health", timeout=2) as reply:
                return reply.status == 200
        except OSError:
            return False

    def end(self):
        self.server.terminate()
        self.server.wait(SECONDS)

    def kill(self):
        self.server.kill()
        self.server.wait(SECONDS)

    def command(self, *words):
        made = subprocess.run([self.binary, *words, "--data-dir", self.data],
                              capture_output=True, text=True, check=False)
        if made.returncode:
            raise SystemExit(f"FAILED: {' '.join(words)}: {made.stderr}")
        return made.stdout

    def link(self):
        """A pairing token."""
        return re.search(r"gw_[\w-]+", self.command("link", "create", "--url", self.base))[0]

    def ask(self, path, body=None, seconds=SECONDS, **head):
        head |= {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, head)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as refused:
            return json.load(refused)

    def raw(self, path, seconds=SECONDS):
        request = urllib.request.Request(self.base + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=seconds) as reply:
            return reply.read()

    def status(self):
        return self.ask("/rest/instance-ai/gateway/status")["data"]

    def mcp(self, method, params, seconds=SECONDS):
        meta = {"io.modelcontextprotocol/protocolVersion": VERSION,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "linked", "version": "0"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        head = {"Accept": "application/json, text/event-stream", "Mcp-Method": method, "Mcp-Protocol-Version": VERSION}
        if "name" in params:
            head["Mcp-Name"] = params["name"]
        told = self.ask("/mcp", body, seconds, **head)
        return told.get("result", told)

    def tools(self):
        return {tool["name"]: tool for tool in self.mcp("tools/list", {})["tools"]}

    def call(self, name, **arguments):
        return self.mcp("tools/call", {"name": name, "arguments": arguments})


def told(script, cases):
    """Says how many cases are as they should be; the script's exit code."""
    wrong = [name for name, right in cases if not right]
    for name in wrong:
        print(f"problem: not so: {name}")
    print(f"{script}: {len(cases)} cases, {len(wrong)} wrong")
    return 1 if wrong or not cases else 0
