"""with_fastmcp.py <address>: the proxy of FastMCP in front of an MCP server. Prints its own address, and serves until it is killed."""

import socket
import sys

import uvicorn
from fastmcp.server import create_proxy

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(64)
print(f"url: http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
app = create_proxy(sys.argv[1]).http_app(path="/mcp")
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
