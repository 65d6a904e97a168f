"""An MCP server of the revision 2026-07-28, made with FastMCP: some tools that read, write, destroy and fail.

Prints its address, and serves until it is killed.
"""

import socket

import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

kit = FastMCP("kit", instructions="Look before you note.")
notes: list[str] = []


@kit.tool(annotations={"readOnlyHint": True})
def look(at: str = "") -> dict:
    """Returns the notes that contain a text."""
    return {"found": [note for note in notes if at in note]}


@kit.tool
def note(text: str) -> dict:
    """Keeps a note."""
    notes.append(text)
    return {"count": len(notes)}


@kit.tool(annotations={"destructiveHint": True})
def forget(text: str) -> str:
    """Forgets all notes that contain a text."""
    notes[:] = [note for note in notes if text not in note]
    return "forgotten"


@kit.tool(annotations={"readOnlyHint": True})
def fail() -> str:
    """Always fails."""
    raise ToolError("it did not work")


@kit.resource("kit://manual")
def manual() -> str:
    return "Keep notes short."


@kit.prompt
def summary(topic: str) -> str:
    """Asks for a summary."""
    return f"Summarise the notes about {topic}."


if __name__ == "__main__":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(kit.http_app(path="/mcp"), log_level="error")).run(sockets=[listener])
