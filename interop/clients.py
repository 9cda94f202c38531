"""Drives `portcullis mcp` with the Python SDK, in both protocol eras."""

import sys
from pathlib import Path

import anyio
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult

binary, directory, data = sys.argv[1:4]
passed = 0


async def scenario(mode: str) -> None:
    global passed
    decisions: list[str] = []

    async def decide(_context, _params) -> ElicitResult:
        return ElicitResult(action="accept", content={"decision": decisions.pop(0)})

    server = StdioServerParameters(command=binary, args=["mcp", "--dir", directory, "--data-dir", data])
    async with Client(stdio_client(server), mode=mode, elicitation_callback=decide) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["get_file_tree", "list_files", "read_file", "stat", "glob", "search_files", "grep", "inspect_archive"], tools
        reply = await client.call_tool("read_file", {"filePath": "src/hello.py"})
        assert reply.structured_content["content"] == 'print("hello")\n', reply
        refused = await client.call_tool("read_file", {"filePath": "../secret"})
        assert refused.is_error and refused.structured_content["errorKind"] == "path_outside_workspace", refused
        assert directory not in str(refused)
        decisions[:] = ["deny_once", "allow_once"]
        denied = await client.call_tool("read_file", {"filePath": ".env"})
        assert denied.structured_content["reason"] == "approval_denied", denied
        allowed = await client.call_tool("read_file", {"filePath": ".env"})
        assert allowed.structured_content["content"] == "KEY=canary\n", allowed
        contents = (await client.read_resource("portcullis://workspace/notes.md")).contents
        assert contents[0].text == "# notes\n", contents
        uri = "portcullis://workspace/src"
        if mode == "auto":
            async with client.listen(resource_subscriptions=[uri]) as subscription:
                # The first event says that it is watched from now on.
                assert (await anext(subscription)).uri == uri
                (Path(directory) / "src" / "heard").write_text("x")
                with anyio.fail_after(10):
                    assert (await anext(subscription)).uri == uri
        else:
            await client.subscribe_resource(uri)
            await client.unsubscribe_resource(uri)
    passed += 1
    print(f"ok python, {mode}")


async def main() -> None:
    await scenario("legacy")
    await scenario("auto")
    print(f"{passed} passed, 0 failed")


anyio.run(main)
