"""client.py http|stdio [expired]: an agent with the official Python SDK lists, calls, waits for a person, gives up and asks again. The person is the
owner over HTTP. It runs with `mcp` 1.x, which speaks 2025-11-25, and with 2.x, which speaks 2026-07-28. The agent keeps notes with the source
`notes`, so what ran, and how often, is read there. The source's server is at KIT.

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

WAY, JOURNEY = sys.argv[1], (sys.argv[2:] or ["main"])[0]
IS_OLD = version("mcp").startswith("1.")
URL, OWNER, KIT = os.environ["COUNTERSIGN_URL"], os.environ["COUNTERSIGN_TOKEN"], os.environ["KIT"]
GIVES_UP = 2
WAITS = 400


def ask_now(method, path, body=None):
    headers = {"authorization": f"Bearer {OWNER}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/api/v1/{path}", data, headers, method=method)) as response:
        return json.load(response)


async def ask(method, path, body=None):
    return await asyncio.to_thread(ask_now, method, path, body)


SESSION = ask_now("POST", "sessions", {"title": f"Python {version('mcp')} over {WAY}: {JOURNEY}"})


async def until(what, is_so):
    """Waits for what somebody else does, for which there is nothing to wait on."""
    for _ in range(500):
        if found := await is_so():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"it never happened: {what}")


def named(name):
    return f"{SESSION['id']} {name}"


async def questions(name):
    """The questions that this call has led to, answered or not."""
    items = (await ask("GET", f"invocations?session={SESSION['id']}&limit=100"))["items"]
    return [item for item in items if (item["params"] or {}).get("text") == named(name)]


async def pending(name, count=1):
    async def are_there():
        found = [item["id"] for item in await questions(name) if item["status"] == "pending"]
        return found if len(found) == count else None

    return await until(f"{count} pending of {name}", are_there)


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

    async def names(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def called(self, tool, arguments, seconds=WAITS):
        seconds = timedelta(seconds=seconds) if IS_OLD else seconds
        return await self.client.call_tool(tool, arguments, read_timeout_seconds=seconds)

    async def note(self, name, seconds=WAITS):
        result = await self.called("notes.note", {"text": named(name)}, seconds)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        is_error = result.isError if IS_OLD else result.is_error
        return is_error, text, (result.meta or {}).get("countersign/invocation")

    def noting(self, name):
        return asyncio.create_task(self.note(name))

    async def noted(self, name):
        result = await self.called("notes.look", {"at": named(name)})
        return len((result.structuredContent if IS_OLD else result.structured_content)["found"])

    async def leaves(self, name):
        """It asks, and gives up before anybody answers. Returns the call that it left, at that moment."""
        if IS_OLD:
            async with connected() as other:
                call = other.noting(name)
                [asked] = await pending(name)
                call.cancel()
            return asked
        call = asyncio.create_task(self.note(name, GIVES_UP))
        [asked] = await pending(name)
        try:
            answer = await call
        except Exception as error:
            assert "time" in repr(error).lower(), repr(error)
        else:
            raise AssertionError(f"it was answered: {answer}")
        return asked

    async def ran_once(self, name, answer, asked):
        is_error, text, invocation = answer
        assert not is_error and invocation == asked, text
        assert len(await questions(name)) == 1, "nobody was asked a second time"
        assert await self.noted(name) == 1, "it ran once"

    async def hears(self, method, path, body=None):
        before = len(self.changes)

        async def is_told():
            return len(self.changes) > before

        await ask(method, path, body)
        await until(f"told of {method} {path}", is_told)


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
    assert "notes.note" in await agent.names()
    assert await agent.noted("approved") == 0

    # It is held, and then approved.
    held = agent.noting("approved")
    [asked] = await pending("approved")
    await approve(asked)
    await agent.ran_once("approved", await held, asked)

    # It is denied, and told so.
    refused = agent.noting("denied")
    [asked] = await pending("denied")
    await ask("POST", f"invocations/{asked}/deny", {"reason": "not today"})
    is_error, text, _ = await refused
    assert is_error and text.startswith("Denied by a person: ") and "not today" in text, text
    assert await agent.noted("denied") == 0

    # It gives up and asks again at once, and gets the one result of the one approval.
    asked = await agent.leaves("again")
    again = agent.noting("again")
    await asyncio.sleep(0.7)
    assert await pending("again") == [asked]
    await approve(asked)
    await agent.ran_once("again", await again, asked)

    # Approved while it was gone, nothing runs until it asks again.
    asked = await agent.leaves("gone")

    async def has_left():
        return (await ask("GET", f"invocations/{asked}"))["invocation"]["caller_left"]

    await until("its caller has left", has_left)
    await approve(asked)
    await asyncio.sleep(0.5)
    assert await agent.noted("gone") == 0, "nothing has run"
    await agent.ran_once("gone", await agent.note("gone"), asked)

    # The same words on two open streams are two calls.
    both = [agent.noting("twice"), agent.noting("twice")]
    for call in await pending("twice", 2):
        await approve(call)
    one, other = await asyncio.gather(*both)
    assert one[2] != other[2], (one, other)
    assert await agent.noted("twice") == 2

    # It hears that the catalogue has changed: a mode, and a source that comes and goes.
    await agent.hears("PUT", "modes/files.read_text", {"mode": "deny"})
    await agent.hears("DELETE", "modes/files.read_text")
    await agent.hears("POST", "sources", {"name": "more", "url": KIT, "default_tier": "R1"})
    assert "more.look" in await agent.names(), "what was added is listed"
    await agent.hears("DELETE", "sources/more")
    assert "more.look" not in await agent.names(), "what was removed is not"


async def expired(agent):
    """Nobody answers in time, which is five minutes."""
    is_error, text, _ = await agent.note("late")
    assert is_error and text.startswith("Expired:"), text
    assert await agent.noted("late") == 0


async def run():
    async with connected() as agent:
        await {"main": main, "expired": expired}[JOURNEY](agent)


asyncio.run(run())
