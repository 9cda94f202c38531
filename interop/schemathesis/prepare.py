"""Makes the document to test by: prepare.py CHECKED_IN CLOSED

Takes the one that is served, which has to be the one that is checked in; closes every
object of a reply, so that a member nobody told of is a failure; names files that are
there; and tags the streams, whose heads are looked at here, so that they are left out.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

BASE, TOKEN = os.environ["BASE"], os.environ["TOKEN"]
# Which parameter or member may be which of the files in the tree.
EXAMPLES = {
    "path": ["notes.txt", "src", "packed.zip", "raw.bin", ".", "new.txt"],
    "pattern": ["**/*.rs"],
    "cwd": ["src"],
    "query": ["notes"],
    "from": ["notes.txt", "src", "packed.zip"],
    "to": ["made", "made/2.zip"],
    "oldText": ["notes"],
}


GATEWAY = "/rest/instance-ai/gateway"


def ask(path, body=None, key=None):
    head = {"X-Gateway-Key": key} if key else {"Authorization": f"Bearer {TOKEN}"}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        head["Content-Type"] = "application/json"
    request = urllib.request.Request(BASE + path, data, head)
    return urllib.request.urlopen(request, timeout=180)


def lent():
    """The key of a machine that is linked; without one no stream of a daemon begins."""
    token = json.load(ask(f"{GATEWAY}/create-link", {}))["data"]["token"]
    told = {"rootPath": "/lent", "tools": [], "toolCategories": [], "hostIdentifier": "ada@laptop"}
    return json.load(ask(f"{GATEWAY}/init", told, token))["data"]["sessionKey"]


def of_daemons(operation):
    return operation["security"] == [{"gatewayKey": []}]


def known():
    """A server that runs hears of a new token within 100 ms."""
    for _ in range(100):
        try:
            return json.load(ask("/openapi.json"))
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            time.sleep(0.05)
    sys.exit("problem: a token made five seconds ago is still unknown")


def close(schema):
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            close(part)
    elif isinstance(schema, list):
        for part in schema:
            close(part)


def referred(part, document, found):
    """The names of every schema that `part` leads to."""
    if isinstance(part, dict):
        to = part.get("$ref", "")
        name = to.rsplit("/", 1)[-1]
        if to.startswith("#/components/schemas/") and name not in found:
            found.add(name)
            referred(document["components"]["schemas"][name], document, found)
        elif to.startswith("#/components/responses/"):
            referred(document["components"]["responses"][name], document, found)
        for below in part.values():
            referred(below, document, found)
    elif isinstance(part, list):
        for below in part:
            referred(below, document, found)
    return found


def strangers(document, workspace):
    """Asks every operation that needs a credential without one."""
    refused = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if not operation["security"]:
                continue
            url = BASE + path.replace("{workspace}", workspace).replace("{id}", "q_1")
            request = urllib.request.Request(url, method=method.upper())
            try:
                urllib.request.urlopen(request, timeout=180)
                sys.exit(f"problem: {method} {path} answers without a credential")
            except urllib.error.HTTPError as error:
                # n8n's daemons know 403 for a key that is nobody's.
                if error.code != (403 if of_daemons(operation) else 401):
                    sys.exit(f"problem: {method} {path} is {error.code} without a credential")
                refused += 1
    return refused


def streams(operation):
    told = operation["responses"].get("200", {}).get("content", {})
    return list(told) == ["text/event-stream"]


document = known()
with open(sys.argv[1], encoding="utf-8") as file:
    if json.load(file) != document:
        sys.exit("problem: the document that is served is not docs/openapi.json\nhint: build the binary anew")

schemas = document["components"]["schemas"]
read, written = set(), set()
operations = [one for path in document["paths"].values() for one in path.values()]
for operation in operations:
    referred(operation.get("requestBody", {}), document, read)
    referred(operation["responses"], document, written)
both = read & written
if both:
    sys.exit(f"problem: read and written alike, so they cannot be closed: {sorted(both)}")
for name in written:
    close(schemas[name])
for name in read:
    for member, schema in schemas[name].get("properties", {}).items():
        if member in EXAMPLES:
            schema["examples"] = EXAMPLES[member]

workspace = json.load(ask("/capabilities"))["workspaces"][0]
refused = strangers(document, workspace["id"])
looked_at = 0
for path, methods in list(document["paths"].items()):
    for method, operation in list(methods.items()):
        for parameter in operation["parameters"]:
            if parameter["name"] == "workspace":
                # Another than this is 400 before anything else is looked at.
                parameter["schema"] = {"enum": [workspace["id"]]}
            elif parameter["name"] in ("machine", "Portcullis-Machine"):
                # The same: which machines there are no schema knows.
                parameter["schema"] = {"enum": ["here"]}
            elif parameter["name"] in EXAMPLES and parameter["in"] == "query":
                parameter["schema"]["examples"] = EXAMPLES[parameter["name"]]
        if method == "get" and path == "/mcp":
            operation["tags"] = ["stream"]
        elif streams(operation):
            key = lent() if of_daemons(operation) else None
            with ask(path.replace("{workspace}", workspace["id"]), key=key) as answer:
                media = answer.headers["Content-Type"]
                if answer.status != 200 or media != "text/event-stream":
                    sys.exit(f"problem: {method} {path} is {answer.status} {media}")
            if key:
                # Else the linked machine would be the one that is meant.
                ask(f"{GATEWAY}/disconnect", {}, key)
            looked_at += 1
            operation["tags"] = ["stream"]

with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(document, file)
left = sum(one["tags"] != ["stream"] for one in operations)
print(f"{left} operations to try; {refused} refuse a stranger; {looked_at} streams begin as they are told")
