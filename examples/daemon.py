#!/usr/bin/env python3
"""A machine that is lent to a Portcullis server, or to n8n, in 60 lines.

    portcullis link create                      # prints a pairing token
    python3 examples/daemon.py http://127.0.0.1:7654 gw_... DIRECTORY

It offers one tool, which reads a file of DIRECTORY (not below it: names have no
slash, links are not followed). docs/PROTOCOL.md has the whole wire.
"""
import getpass, json, os, platform, re, stat, sys, time, urllib.error, urllib.request

BASE, KEY, DIRECTORY = sys.argv[1].rstrip("/") + "/rest/instance-ai/gateway", sys.argv[2], sys.argv[3]
HANDLE = os.open(DIRECTORY, os.O_PATH | os.O_DIRECTORY)
MOST = 256 * 1024
TOOLS = [{
    "name": "read_file", "description": "Read a file of the directory.",
    "inputSchema": {"type": "object", "properties": {"filePath": {"type": "string"}}, "required": ["filePath"]},
    "annotations": {"category": "filesystem", "readOnlyHint": True},
}]


def ask(path, body=None, timeout=60):
    data = None if body is None else json.dumps(body).encode()
    head = {"X-Gateway-Key": KEY, "Content-Type": "application/json", "Accept": "text/event-stream" if body is None else "application/json"}
    return urllib.request.urlopen(urllib.request.Request(BASE + path, data, head), timeout=timeout)


def read_file(arguments):
    name = arguments.get("filePath")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,200}", name) or name.strip(".") == "":
        raise ValueError("filePath is the name of a file, without a slash")
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=HANDLE)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"{name} is no file")
        return {"path": name, "content": file.read(MOST).decode(errors="replace")}


def serve(call):
    try:
        if call["name"] != "read_file":
            raise ValueError("unknown tool")
        told, failed = read_file(call.get("arguments") or {}), False
    except (OSError, ValueError) as error:
        told, failed = {"error": str(error)}, True
    return {"result": {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told, "isError": failed}}


def answer(call):
    try:
        ask("/response/" + call["requestId"], serve(call["toolCall"])).close()
    except urllib.error.HTTPError as error:
        if error.code != 404:  # That is a call nobody waits for any more.
            raise


def main():
    global KEY
    host = f"{getpass.getuser()}@{platform.node()}"
    while True:
        try:
            init = {"rootPath": os.path.realpath(DIRECTORY), "tools": TOOLS, "hostIdentifier": host,
                    "toolCategories": [{"name": "filesystem", "enabled": True, "writeAccess": False}]}
            KEY = json.load(ask("/init", init))["data"].get("sessionKey", KEY)
            for line in ask("/events", timeout=40):
                event = json.loads(line[5:]) if line.startswith(b"data:") else {}
                if event.get("type") == "gateway-disconnect":
                    return
                if event.get("type") == "filesystem-request":
                    answer(event["payload"])
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                sys.exit("the server does not know this key: create a link again")
        except OSError:
            pass
        time.sleep(1)


main()
