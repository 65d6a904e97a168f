"""Stand-ins of the vendors whose MCP servers are tried: vendors.py CERTIFICATE KEY POSTGRES_URL

Each answers one call in the vendor's own form, and refuses a key that is not the one that the server was given: so an answer proves that the
server's request came through, whole. A PostgreSQL is no stand-in: connections for it are passed on. It runs in a network namespace where the
vendors' names lead to it. It prints `ready`, and serves until it is killed. What it was asked is told on stderr.
"""

import json
import socket
import socketserver
import ssl
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

CERTIFICATE, CERTIFICATE_KEY, POSTGRES = sys.argv[1:]
KEY = "made-up-key"
BEARER = ("Authorization", f"Bearer {KEY}")
PAGE = "<html><head><title>Example</title></head><body><main><h1>A page</h1><p>It came through the relay.</p></main></body></html>"
PERSON = {"login": "ada", "id": 1, "node_id": "1", "avatar_url": "https://github.com/ada.png", "url": "https://api.github.com/users/ada",
          "html_url": "https://github.com/ada", "type": "User"}
REPOSITORY = {
    "id": 1, "node_id": "1", "name": "engine", "full_name": "ada/engine", "private": False, "owner": PERSON, "description": "A machine",
    "html_url": "https://github.com/ada/engine", "url": "https://api.github.com/repos/ada/engine", "fork": False, "default_branch": "main",
    "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "pushed_at": "2026-01-01T00:00:00Z",
    "git_url": "git://github.com/ada/engine.git", "ssh_url": "git@github.com:ada/engine.git",
    "clone_url": "https://github.com/ada/engine.git",
}

# By host: the header that has the key, and the answers by the beginning of the path.
VENDORS = {
    "context7.com": (BEARER, {"/api/v2/libs/search": {"results": [{
        "id": "/ada/engine", "title": "Engine", "description": "A machine", "branch": "main", "lastUpdateDate": "2026-01-01",
        "state": "finalized", "totalTokens": 1, "totalSnippets": 1, "stars": 1, "trustScore": 9, "benchmarkScore": 90, "versions": []}]}}),
    "api.notion.com": (BEARER, {"/v1/users/me": {"object": "user", "id": "1", "name": "Ada's engine", "type": "bot", "bot": {}}}),
    "api.github.com": (BEARER, {"/search/repositories": {"total_count": 1, "incomplete_results": False, "items": [REPOSITORY]}}),
    "slack.com": (BEARER, {"/api/conversations.list": {
        "ok": True, "channels": [{"id": "C1", "name": "engines"}], "response_metadata": {"next_cursor": ""}}}),
    "api.firecrawl.dev": (BEARER, {"/v2/search": {
        "success": True, "data": {"web": [{"url": "https://example.com/", "title": "Engines", "description": "About machines"}]}}}),
    "api.tavily.com": (BEARER, {"/search": {
        "query": "engines", "answer": "", "images": [], "response_time": 0.1, "request_id": "1",
        "results": [{"title": "Engines", "url": "https://example.com/", "content": "About machines", "score": 1}]}}),
    "sentry.io": (BEARER, {"/api/0/organizations/": [{
        "id": "1", "slug": "engines", "name": "Engines", "links": {"organizationUrl": "https://sentry.io", "regionUrl": "https://sentry.io"}}]}),
    "kubernetes.example.com": (BEARER, {
        # As `kubectl get` asks for it: a table.
        "/api/v1/namespaces": {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
            "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}],
            "rows": [{"cells": ["engines"], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "engines"}}}]},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            {"name": "namespaces", "singularName": "namespace", "namespaced": False, "kind": "Namespace", "verbs": ["get", "list"]}]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}}),
    "example.com": (None, {"/page": PAGE}),
}


class Vendor(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        host = (self.headers.get("Host") or "").split(":")[0]
        key, answers = VENDORS.get(host, (None, {}))
        body = next((answers[begin] for begin in answers if self.path.startswith(begin)), None)
        if body is None:
            return self.send(404, {"message": f"{host} has no {self.path}"})
        if key and self.headers.get(key[0]) != key[1]:
            return self.send(401, {"message": "the key is not the one that was made up"})
        self.send(200, body)

    def send(self, status, body):
        is_page = isinstance(body, str)
        content = body.encode() if is_page else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer


class Database(socketserver.StreamRequestHandler):
    """MongoDB: what a driver asks when it connects, and the names of the databases."""

    def handle(self):
        while head := self.rfile.read(16):
            length, number, _, kind = struct.unpack("<iiii", head)
            body = self.rfile.read(length - 16)
            # An old OP_QUERY has the name of its collection first; an OP_MSG has flags and one section.
            at = body.index(b"\0", 4) + 9 if kind == 2004 else 5
            command = first_key(body[at:])
            print(f"mongodb: {command}", file=sys.stderr, flush=True)
            answer = document({
                "isWritablePrimary": True, "ismaster": True, "helloOk": True, "maxBsonObjectSize": 16777216, "maxMessageSizeBytes": 48000000,
                "maxWriteBatchSize": 100000, "minWireVersion": 0, "maxWireVersion": 25, "readOnly": False, "version": "8.0.0",
                "databases": {"0": {"name": "engines", "sizeOnDisk": 1.0, "empty": False}}, "totalSize": 1.0, "ok": 1.0})
            if kind == 2004:
                content = struct.pack("<iiii", 36 + len(answer), 1, number, 1) + struct.pack("<iqii", 8, 0, 0, 1) + answer
            else:
                content = struct.pack("<iiii", 21 + len(answer), 1, number, 2013) + struct.pack("<ib", 0, 0) + answer
            self.wfile.write(content)


def first_key(bson):
    return bson[5 : bson.index(b"\0", 5)].decode()


def document(members):
    content = b""
    for name, value in members.items():
        name = name.encode() + b"\0"
        if isinstance(value, bool):
            content += b"\x08" + name + bytes([value])
        elif isinstance(value, int):
            content += b"\x10" + name + struct.pack("<i", value)
        elif isinstance(value, float):
            content += b"\x01" + name + struct.pack("<d", value)
        elif isinstance(value, str):
            content += b"\x02" + name + struct.pack("<i", len(value) + 1) + value.encode() + b"\0"
        else:
            content += (b"\x04" if "0" in value else b"\x03") + name + document(value)
    return struct.pack("<i", len(content) + 5) + content + b"\0"


class Passed(socketserver.BaseRequestHandler):
    """PostgreSQL, which listens on this machine's own address only."""

    def handle(self):
        url = urlsplit(POSTGRES)
        with socket.create_connection((url.hostname, url.port)) as other:
            threading.Thread(target=passed_on, args=(other, self.request), daemon=True).start()
            passed_on(self.request, other)


def passed_on(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Servers(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE_KEY)
    context.set_alpn_protocols(["http/1.1"])
    plain, secure = ThreadingHTTPServer(("", 80), Vendor), ThreadingHTTPServer(("", 443), Vendor)
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    for server in (plain, secure, Servers(("", 27017), Database), Servers(("", 5432), Passed)):
        threading.Thread(target=server.serve_forever).start()
    print("ready", flush=True)


main()
