"""Lends a directory with `portcullis connect` to `portcullis serve`; called by lend.sh."""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from linked import SECONDS, World, told, until

LARGE = 3 << 20


class Laptop:
    """A machine of somebody else: a home, a directory, a daemon."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.home, self.lent = f"{world.scratch}/{name}-home", f"{world.scratch}/{name}"
        os.makedirs(self.home)
        os.makedirs(self.lent)
        self.daemon = None

    def connect(self, key, *flags):
        env = {"HOME": self.home, "PATH": os.environ["PATH"]}
        with open(f"{self.home}/said", "a", encoding="utf-8") as said:
            self.daemon = subprocess.Popen(
                [self.world.binary, "connect", self.world.base, key, self.lent, "--auto-confirm",
                 "--allowed-origins", self.world.base, "--machine", self.name,
                 "--filesystem-write-access", "--permission-filesystem-write", "allow", *flags],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env)

    def said(self):
        with open(f"{self.home}/said", encoding="utf-8") as said:
            return said.read()

    def file(self, name):
        with open(f"{self.lent}/{name}", encoding="utf-8") as file:
            return file.read()

    def end(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait(SECONDS)


def works(world, laptop, number):
    """Whether a write gets there, and is there."""
    name = f"written-{number}.txt"
    wrote = world.call("write_file", filePath=name, content=f"{number}\n")
    return not wrote.get("isError") and laptop.file(name) == f"{number}\n"


def tried(world, laptop):
    here = world.tools()
    laptop.connect(world.link())
    until("the link", lambda: world.status()["connected"])
    there = world.tools()
    same = [name for name in here if name in there]
    yield "the same tools are there as here", same == list(here) and len(here) > 10
    yield "and their arguments, but for which machine", all(
        {name for name in there[tool]["inputSchema"]["properties"] if name != "machine"}
        == set(here[tool]["inputSchema"]["properties"]) for tool in here)
    yield "a write reaches the laptop", works(world, laptop, 1)
    yield "and not the server", not os.listdir(f"{world.scratch}/served")
    edited = world.call("edit_file", filePath="written-1.txt", oldString="1", newString="uncommon words")
    yield "an edit too", not edited.get("isError") and laptop.file("written-1.txt") == "uncommon words\n"
    found = world.call("search_files", query="uncommon")
    yield "a search finds it", "written-1.txt" in json.dumps(found)
    outside = world.call("read_file", filePath="../laptop-home/said")
    yield "what is outside stays outside", outside["isError"] and "path_outside_workspace" in json.dumps(outside)
    at_home = world.call("write_file", filePath="here.txt", content="here\n", machine="here")
    yield "the server's own files are there by name", not at_home.get("isError") and os.listdir(f"{world.scratch}/served") == ["here.txt"]
    line = "x" * 99 + "\n"
    with open(f"{laptop.lent}/large.txt", "w", encoding="utf-8") as file:
        file.write(line * (LARGE // 100))
    stays = world.call("read_file", filePath="here.txt")
    yield "and stay meant until another machine is named", not stays.get("isError") and stays["structuredContent"]["machine"] == "here"
    large = world.call("read_file", filePath="large.txt", maxLines=500, machine="laptop")
    yield "a page of a large file comes", not large["isError"] and line * 400 in large["structuredContent"]["content"]

    yield from over_rest(world, laptop, line)

    # The server dies, with a call on its way.
    late = []
    thread = threading.Thread(target=lambda: late.append(outcome(world, "search_files", query="nowhere")))
    thread.start()
    world.kill()
    thread.join()
    world.start()
    until("the link after a killed server", lambda: world.status()["connected"])
    yield "the daemon comes back to the next server by itself", works(world, laptop, 2)
    yield "and the call that was on its way ended", len(late) == 1
    world.end()
    world.start()
    until("the link after a server that ended", lambda: world.status()["connected"])
    yield "also to one that ended in order", works(world, laptop, 3)

    # The daemon dies.
    laptop.daemon.kill()
    laptop.daemon.wait(SECONDS)
    until("the loss", lambda: not world.status()["connected"])
    lost = world.call("read_file", filePath="here.txt")
    yield "without it no other machine is meant", lost["isError"] and "machine_gone" in json.dumps(lost)
    laptop.connect(world.link())
    until("the link of the next daemon", lambda: world.status()["connected"])
    yield "paired anew, the next one works", works(world, laptop, 4)
    yield "and is the same machine", len(re.findall(r"^m_\S+ .* laptop ", world.command("link", "list"), re.M)) == 1

    # Another one takes its place; the owner ends that.
    first = laptop.daemon
    laptop.connect(world.link())
    yield "another daemon of the machine takes its place, and the first goes", first.wait(SECONDS) is not None
    until("the link of the other", lambda: world.status()["connected"])
    until("the word of it", lambda: "stood for this machine and was let go" in laptop.said())
    yield "it works too", works(world, laptop, 5)
    world.ask("/rest/instance-ai/gateway/disconnect-session", {})
    yield "its owner ends it, and it goes", laptop.daemon.wait(SECONDS) == 0
    yield "no content is in what the daemon said", "uncommon" not in laptop.said() and "gw_" not in laptop.said()


def over_rest(world, laptop, line):
    """The file routes, on the laptop and by name on the server."""
    read = world.ask("/file?path=written-1.txt")
    yield "REST reads the laptop's file", read["content"] == "uncommon words\n" and read["hash"].startswith("sha256:")
    replaced = world.ask("/file/write", {"path": "written-1.txt", "content": "rest\n", "mode": "replace", "expectedHash": read["hash"]})
    yield "and replaces it", replaced["kind"] == "file_write" and laptop.file("written-1.txt") == "rest\n"
    again = world.ask("/file/write", {"path": "written-1.txt", "content": "x", "mode": "replace", "expectedHash": read["hash"]})
    yield "but not another version", again["reason"] == "version_mismatch" and laptop.file("written-1.txt") == "rest\n"
    world.ask("/undo", {"id": replaced["undo"]})
    yield "undo puts it back", laptop.file("written-1.txt") == "uncommon words\n"
    page = world.ask("/list?path=.&limit=1")
    rest = world.ask(f"/list?path=.&limit=9&cursor={page['nextCursor']}")
    yield "lists have pages", [one["name"] for one in page["entries"] + rest["entries"]] == sorted(os.listdir(laptop.lent))
    raw = world.raw("/file/raw?path=large.txt")
    yield "a download is the file, byte by byte", raw == (line * (LARGE // 100)).encode()
    outside = world.ask("/file?path=../laptop-home/said")
    yield "over REST too, what is outside stays outside", outside["errorKind"] == "path_outside_workspace"
    here = world.ask("/file?path=here.txt", **{"Portcullis-Machine": "here"})
    yield "the server's own files are there by name, over REST too", here.get("content") == "here\n"
    nobody = world.ask("/file?path=here.txt&machine=nobody")
    yield "and no others", nobody["reason"] == "bad_arguments"
    back = world.ask("/file?path=written-1.txt&machine=laptop")
    yield "and the laptop's again, by name", back.get("content") == "uncommon words\n"


def outcome(world, name, **arguments):
    """What a call came to, whatever that is."""
    try:
        return world.call(name, **arguments)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Cut off before a reply, in one, or in the middle of what it says.
        return error


def main():
    scratch = tempfile.mkdtemp(prefix="portcullis-lend-")
    world = World(sys.argv[1], scratch)
    laptop = Laptop(world, "laptop")
    began = time.monotonic()
    try:
        cases = []
        try:
            for case in tried(world, laptop):
                cases.append(case)
        except SystemExit as ended:
            print(f"problem: {ended}; the daemon said:\n{laptop.said()[-2000:]}")
            cases.append((str(ended), False))
        print(f"took {time.monotonic() - began:.0f} s")
        return told("interop/lend.sh", cases)
    finally:
        laptop.end()
        world.end()
        shutil.rmtree(scratch, ignore_errors=True)


sys.exit(main())
