"""with_mcp_proxy.py <command>...: `mcp-proxy` in front of an MCP server that is a program. Prints its own address, and serves until it is killed."""

import socket
import sys
import threading
import time

from mcp_proxy.__main__ import main

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]


def tell():
    """It does not say when it answers, so it is tried."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            print(f"url: http://127.0.0.1:{port}", flush=True)
            return
        except OSError:
            time.sleep(0.05)


threading.Thread(target=tell, daemon=True).start()
sys.argv = ["mcp-proxy", "--port", str(port), "--log-level", "ERROR", "--", *sys.argv[1:]]
main()
