"""npx.py BINARY: how long an MCP server that is started with `npx` takes until it has answered a call, by itself and as a source, in turns. Cold:
npm's cache is empty, and as a source it is installed by `source add`. Warm: the package is there, and our server has just started."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PACKAGE = "@modelcontextprotocol/server-memory@2026.8.31"
COLD, WARM = 3, 7


def bare(cache):
    """Until the program has answered a call, without us."""
    environment = {**os.environ, "npm_config_cache": cache}
    began = time.monotonic()
    command = ["npx", "-y", PACKAGE]
    program = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    for message in (
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "read_graph", "arguments": {}}},
    ):
        print(json.dumps({"jsonrpc": "2.0", **message}), file=program.stdin, flush=True)
    for line in program.stdout:
        if json.loads(line).get("id") == 2:
            break
    else:
        sys.exit(f"`{' '.join(command)}` did not answer")
    took = time.monotonic() - began
    program.stdin.close()
    program.wait()
    return took


class Server:
    def __init__(self, binary, folder):
        self.binary, self.data = binary, f"{folder}/data"
        self.environment = {**os.environ, "npm_config_cache": f"{folder}/npm", "HOME": folder, "COUNTERSIGN_LOG_LEVEL": "off"}

    def start(self):
        command = [self.binary, "serve", "--listen", "127.0.0.1:0", "--data", self.data]
        self.process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)
        url = next((line[5:].strip() for line in self.process.stdout if line.startswith("url: ")), None)
        if url is None:
            sys.exit("the server did not start")
        with open(f"{self.data}/owner.token") as token:
            self.environment |= {"COUNTERSIGN_URL": url, "COUNTERSIGN_TOKEN": token.read().strip()}

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def run(self, *arguments):
        ended = subprocess.run([self.binary, *arguments], env=self.environment, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"countersign {' '.join(arguments)}: {ended.stderr}")

    def call(self):
        began = time.monotonic()
        self.run("action", "invoke", "memory.read_graph")
        return time.monotonic() - began


def spread(seconds):
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}–{max(seconds):.2f})"


def row(name, alone, governed):
    ratios = [ours / theirs for ours, theirs in zip(governed, alone)]
    print(f"| {name} | {spread(alone)} | {spread(governed)} | {spread(ratios)} |", flush=True)


def main(binary):
    cold, warm = ([], []), ([], [])
    for turn in range(COLD):
        print(f"an `npx` server, cold, {turn + 1} of {COLD}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            cold[0].append(bare(f"{folder}/bare"))
            server = Server(binary, folder)
            server.start()
            began = time.monotonic()
            server.run("source", "add", "memory", "--yes", "--default-tier", "R1", "--", "npx", "-y", PACKAGE)
            server.run("mode", "set", "memory.read_graph", "allow")
            server.call()
            cold[1].append(time.monotonic() - began)
            for _ in range(WARM if turn == COLD - 1 else 0):
                server.stop()
                warm[0].append(bare(f"{folder}/bare"))
                server.start()
                warm[1].append(server.call())
            server.stop()
    print("\n## The start of an MCP server by `npx`, until it has answered a call, s\n")
    print("| | by itself | as a source | ratio |\n|---|---|---|---|")
    row("cold: nothing is installed; as a source `source add`, a mode and the call", *cold)
    row("warm: as a source, the first call after a start of our server", *warm)


main(sys.argv[1])
