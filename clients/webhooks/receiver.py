"""Receives webhooks, as a program of somebody else would: standardwebhooks verifies each message. What it took is written to a file, one line
each, with the id of the message; what it cannot verify is answered with 401. The first message about a call is answered with 503, so that it
comes once more.

receiver.py <secret> <file>: prints its address, then serves until it is stopped."""

import http.server
import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError

SECRET, FILE = sys.argv[1:3]


class Receiver(http.server.BaseHTTPRequestHandler):
    has_failed = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            message = Webhook(SECRET).verify(body, dict(self.headers))
        except WebhookVerificationError:
            return self.answer(401)
        fails = not Receiver.has_failed and message["type"] != "channel.test"
        Receiver.has_failed |= fails
        with open(FILE, "a", encoding="utf-8") as file:
            taken = {"id": self.headers["webhook-id"], "taken": not fails, **message}
            print(json.dumps(taken), file=file, flush=True)
        self.answer(503 if fails else 204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
