"""Runs examples/daemon.py against the real `portcullis serve`; called by example.sh."""
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tokenize

from linked import SECONDS, World, told, until

DAEMON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "daemon.py")


def code_lines():
    """Lines that hold code: neither blank, nor a comment, nor what the file says of itself."""
    with open(DAEMON, encoding="utf-8") as file:
        text = file.read()
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines, is_begun = set(), False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in silent:
            continue
        if token.type == tokenize.STRING and not is_begun:
            continue
        is_begun = True
        lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def lend(world, key):
    return subprocess.Popen([sys.executable, DAEMON, world.base, key, world.lent],
                            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def make(world):
    world.lent = f"{world.scratch}/lent"
    os.makedirs(world.lent)
    with open(f"{world.lent}/notes.txt", "w", encoding="utf-8") as file:
        file.write("what the laptop knows\n")
    with open(f"{world.scratch}/outside.txt", "w", encoding="utf-8") as file:
        file.write("nobody's business\n")
    os.symlink(f"{world.scratch}/outside.txt", f"{world.lent}/link.txt")


def tried(world):
    """Each case: what it is, and whether it is so."""
    yield "it has at most 60 lines of code", code_lines() <= 60
    key = world.link()
    yield "nothing is linked at first", not world.status()["connected"]
    daemon = lend(world, key)
    try:
        until("the link", lambda: world.status()["connected"])
        yield "the directory it lends is told", world.status()["directory"] == os.path.realpath(world.lent)
        read = world.call("read_file", filePath="notes.txt")
        yield "an agent reads a file of the laptop", read["structuredContent"]["content"] == "what the laptop knows\n"
        for name in ["../outside.txt", "link.txt", "..", "gone.txt"]:
            refused = world.call("read_file", filePath=name)
            yield f"it refuses {name}", refused["isError"] and "business" not in json.dumps(refused)
        unknown = world.call("read_file", filePath="notes.txt", machine="another")
        yield "a machine nobody has is told", unknown["isError"] and "linked" in json.dumps(unknown)
        again = lend(world, key)
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
        make(world)
        return told("interop/example.sh", list(tried(world)))
    finally:
        world.end()
        shutil.rmtree(scratch, ignore_errors=True)


sys.exit(main())
