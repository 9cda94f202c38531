"""A tiny MCP file server over stdio, in one of several temperaments.

    python3 server.py <temperament> <root>

naive     checks the real path against the root, then opens the path: the classic race
refusing  works until the race is on, then refuses everything: safe, and of no use
pinned    opens every component beneath a held directory, following no link
counting  as pinned, but trusts the link count alone to tell a planted hard link
hanging   works until the race is on, then never answers
"""

import base64
import json
import os
import stat
import sys

TEMPERAMENT, ROOT = sys.argv[1], os.path.realpath(sys.argv[2])
# Calibration makes far fewer calls than this; the race makes far more.
CALM_CALLS = 12
ROOT_FD = os.open(ROOT, os.O_PATH | os.O_DIRECTORY)


def checked(path):
    full = os.path.join(ROOT, path)
    real = os.path.realpath(full)
    if real != ROOT and not real.startswith(ROOT + "/"):
        raise PermissionError("outside of the root")
    return full


def beneath(path, flags):
    held = os.dup(ROOT_FD)
    parts = path.split("/")
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        how = flags if last else os.O_PATH | os.O_DIRECTORY
        try:
            following = os.open(part, how | os.O_NOFOLLOW, dir_fd=held)
        finally:
            os.close(held)
        held = following
    return held


def refuse_shared(facts):
    if facts.st_nlink != 1:
        raise PermissionError("another name leads to it")
    if TEMPERAMENT == "pinned" and facts.st_uid != os.geteuid():
        raise PermissionError("not ours")


def act(name, path):
    # Those that refuse or hang must leak nothing while they are still calm.
    if TEMPERAMENT != "naive":
        fd = beneath(path, os.O_RDONLY)
        try:
            if name == "read_file":
                refuse_shared(os.fstat(fd))
                return os.read(fd, 65536).decode()
            if name == "stat":
                facts = os.fstat(fd)
                refuse_shared(facts)
                return json.dumps({"size": facts.st_size})
            return "\n".join(os.listdir(fd))
        finally:
            os.close(fd)
    full = checked(path)
    if name == "read_file":
        with open(full, encoding="utf-8") as file:
            return file.read(65536)
    if name == "stat":
        return json.dumps({"size": os.stat(full)[stat.ST_SIZE]})
    return "\n".join(os.listdir(full))


def tool(name, argument):
    schema = {"type": "object", "properties": {argument: {"type": "string"}}}
    return {"name": name, "inputSchema": schema}


TOOLS = [tool("read_file", "filePath"), tool("stat", "path"), tool("list_files", "dirPath"),
         tool("write_file", "filePath")]
calls = 0


def moody(name, path):
    global calls
    calls += 1
    if calls > CALM_CALLS and TEMPERAMENT == "refusing":
        raise PermissionError("no")
    if calls > CALM_CALLS and TEMPERAMENT == "hanging":
        return None
    return act(name, path)


def answer(message):
    method = message["method"]
    if method == "initialize":
        assert message["params"]["protocolVersion"] == "2025-11-25"
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "victim", "version": "0"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"name": "file", "uriTemplate": "victim://{root}/{+path}"}]}
    if method == "tools/call":
        name = message["params"]["name"]
        assert name != "write_file", "a changing tool was called"
        (path,) = message["params"]["arguments"].values()
        try:
            text = moody(name, path)
            return text and {"content": [{"type": "text", "text": text}]}
        except (OSError, UnicodeError) as error:
            text = f"refused: {type(error).__name__}"
            return {"content": [{"type": "text", "text": text}], "isError": True}
    if method == "resources/read":
        uri = message["params"]["uri"]
        text = moody("read_file", uri.removeprefix("victim://workspace/"))
        blob = text and base64.b64encode(text.encode()).decode()
        return text and {"contents": [{"uri": uri, "blob": blob}]}
    return {}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    # A question now and then, as servers ask them; the hammer must answer and go on.
    if request["id"] % 500 == 0:
        send({"id": f"q{request['id']}", "method": "elicitation/create",
              "params": {"message": "May I?", "requestedSchema": {"type": "object", "properties": {}}}})
    try:
        result = answer(request)
    except (OSError, UnicodeError):
        send({"id": request["id"], "error": {"code": -32002, "message": "refused"}})
        continue
    if result is not None:
        send({"id": request["id"], "result": result})
