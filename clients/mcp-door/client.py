"""client.py http|stdio [expired]: an agent with the official Python SDK lists, calls, waits for a person, gives up and asks again. The person is the owner
over HTTP. It runs with `mcp` 1.x, which speaks 2025-11-25, and with 2.x, which speaks 2026-07-28.

The SDK has no timer of its own; where the agent is to give up, it is given one of 2 seconds. With 1.x that is not enough: it tells nobody that its
timer has fired, and keeps the stream of the call open, so its call goes on. There the agent's whole connection goes.
"""

import asyncio
import json
import os
import sys
import urllib.request
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

WAY = sys.argv[1]
IS_OLD = version("mcp").startswith("1.")
AGE = "old" if IS_OLD else "new"
URL, OWNER = os.environ["COUNTERSIGN_URL"], os.environ["COUNTERSIGN_TOKEN"]
GIVES_UP = 2


def ask_now(method, path, body=None):
    headers = {"authorization": f"Bearer {OWNER}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/api/v1/{path}", data, headers, method=method)) as response:
        return json.load(response)


async def ask(method, path, body=None):
    return await asyncio.to_thread(ask_now, method, path, body)


SESSION = ask_now("POST", "sessions", {"title": f"{AGE} Python over {WAY}"})


async def until(what, is_so):
    """Waits for what somebody else does, for which there is nothing to wait on."""
    for _ in range(500):
        if found := await is_so():
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"it never happened: {what}")


async def calls(status):
    return (await ask("GET", f"invocations?session={SESSION['id']}&limit=100&status={status}"))["items"]


async def pending(count=1):
    async def are_there():
        found = await calls("pending")
        return found if len(found) == count else None

    return [call["id"] for call in await until(f"{count} pending", are_there)]


async def shown(invocation):
    return (await ask("GET", f"invocations/{invocation}"))["invocation"]


async def left(invocation):
    async def is_left():
        return (await shown(invocation))["caller_left"]

    await until("its caller has left", is_left)


async def approve(invocation):
    await ask("POST", f"invocations/{invocation}/approve", {})


def stdio():
    from mcp import StdioServerParameters

    env = {"COUNTERSIGN_URL": URL, "COUNTERSIGN_TOKEN": SESSION["token"], "HOME": os.environ.get("HOME", "/")}
    return StdioServerParameters(command=os.environ["COUNTERSIGN"], args=["mcp", "--hold", "600"], env=env)


class Agent:
    """What both ages of the SDK have in common."""

    def __init__(self, client, changes):
        self.client, self.changes = client, changes

    async def call(self, tool, arguments, seconds=400):
        seconds = timedelta(seconds=seconds) if IS_OLD else seconds
        result = await self.client.call_tool(tool, arguments, read_timeout_seconds=seconds)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        is_error = result.isError if IS_OLD else result.is_error
        return is_error, text, (result.meta or {}).get("countersign/invocation")

    async def write(self, name, seconds=400):
        return await self.call("files.write_text", {"path": f"{AGE}-python-{WAY}-{name}.txt", "text": name}, seconds)

    def writing(self, name):
        return asyncio.create_task(self.write(name))

    async def gives_up(self, name):
        if IS_OLD:
            async with connected() as other:
                call = other.writing(name)
                await pending()
                call.cancel()
            return
        try:
            answer = await self.write(name, GIVES_UP)
        except Exception as error:
            assert "time" in repr(error).lower(), repr(error)
        else:
            raise AssertionError(f"it was answered: {answer}")


@asynccontextmanager
async def connected():
    changes = []

    async def heard(message):
        if "ToolListChanged" in f"{type(message).__name__} {type(getattr(message, 'root', message)).__name__}":
            changes.append(message)

    async with AsyncExitStack() as stack:
        if IS_OLD:
            from mcp import ClientSession
            from mcp.client.stdio import stdio_client
            from mcp.client.streamable_http import streamablehttp_client

            headers = {"authorization": f"Bearer {SESSION['token']}"}
            way = streamablehttp_client(f"{URL}/mcp?hold=600", headers=headers) if WAY == "http" else stdio_client(stdio())
            streams = await stack.enter_async_context(way)
            client = await stack.enter_async_context(ClientSession(streams[0], streams[1], message_handler=heard))
            await client.initialize()
            yield Agent(client, changes)
            return
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        target = stdio()
        if WAY == "http":
            http = httpx2.AsyncClient(headers={"authorization": f"Bearer {SESSION['token']}"}, timeout=httpx2.Timeout(30, read=300))
            target = streamable_http_client(f"{URL}/mcp?hold=600", http_client=await stack.enter_async_context(http))
        client = await stack.enter_async_context(Client(target))
        assert client.protocol_version == "2026-07-28", client.protocol_version
        listening = await stack.enter_async_context(client.listen(tools_list_changed=True))

        async def listen():
            async for event in listening:
                changes.append(event)

        hearing = asyncio.create_task(listen())
        yield Agent(client, changes)
        hearing.cancel()


async def main(agent):
    # It lists, and calls what needs nobody.
    tools = (await agent.client.list_tools()).tools
    assert any(tool.name == "files.write_text" for tool in tools), tools
    is_error, text, _ = await agent.call("files.list", {})
    assert not is_error, text

    # It is held, and then approved.
    held = agent.writing("approved")
    [asked] = await pending()
    await approve(asked)
    is_error, text, invocation = await held
    assert not is_error and invocation == asked, text

    # It is denied, and told so.
    refused = agent.writing("denied")
    [asked] = await pending()
    await ask("POST", f"invocations/{asked}/deny", {"reason": "not today"})
    is_error, text, _ = await refused
    assert is_error and text.startswith("Denied by a person: ") and "not today" in text, text

    # It gives up and asks again, and gets the one result of the one approval.
    await agent.gives_up("again")
    [abandoned] = await pending()
    await left(abandoned)
    again = agent.writing("again")
    await asyncio.sleep(0.3)
    assert await pending() == [abandoned], "nobody is asked a second time"
    await approve(abandoned)
    is_error, text, invocation = await again
    assert not is_error and invocation == abandoned, text

    # Approved while it was gone, nothing runs until it asks again.
    await agent.gives_up("gone")
    [gone] = await pending()
    await left(gone)
    await approve(gone)
    await asyncio.sleep(0.5)
    assert (await shown(gone))["status"] not in ("succeeded", "running")
    is_error, text, invocation = await agent.write("gone")
    assert not is_error and invocation == gone, text

    # The same words on two open streams are two calls.
    both = [agent.writing("twice"), agent.writing("twice")]
    for call in await pending(2):
        await approve(call)
    one, other = await asyncio.gather(*both)
    assert one[2] != other[2], (one, other)

    # It hears that the catalogue has changed.
    before = len(agent.changes)

    async def is_told():
        return len(agent.changes) > before

    await ask("PUT", "modes/files.read_text", {"mode": "deny"})
    await until("told of the change", is_told)
    await ask("DELETE", "modes/files.read_text")

    writes = [call for call in await calls("succeeded") if call["action"] == "files.write_text"]
    assert len(writes) == 5, "five writes ran, each once"


async def expired(agent):
    """Nobody answers in time. That takes five minutes, so it is tried by itself."""
    is_error, text, _ = await agent.write("expired")
    assert is_error and text.startswith("Expired:"), text


async def run():
    async with connected() as agent:
        await (expired if sys.argv[2:] else main)(agent)


asyncio.run(run())
