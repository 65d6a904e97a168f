"""What the journey does not show: webhooks that must not be believed, pages, patience, a server that is away for a moment, and redirects."""

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from unittest import mock

from countersign import Countersign, NotSucceededError, RefusedError, WebhookError, verify_webhook

url = os.environ["COUNTERSIGN_URL"]
owner = Countersign(url, os.environ["COUNTERSIGN_TOKEN"])
session = owner.request("post", "/api/v1/sessions", body={"title": "Python checks"})
agent = Countersign(url, session["token"])
write = ("files.write_text", {"path": "checks.txt", "text": "hello"})

# The example of the reference libraries of Standard Webhooks.
SECRET, SENT, BODY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": str(SENT), "webhook-signature": SIGNATURE}


def verified(headers: dict[str, str] = {}, body: bytes = BODY, now: float = SENT, secret: str = SECRET) -> Any:
    with mock.patch("time.time", lambda: now):
        return verify_webhook(secret, {**HEADERS, **headers}, body)


assert verified() == verified(now=SENT + 299) == {"test": 2432232314}
assert verified({"webhook-signature": f"v1a,AAAA v1,AAAA {SIGNATURE}"})
forged: list[dict[str, Any]] = [
    {"body": b'{"test": 2432232315}'},
    {"now": SENT + 301},
    {"now": SENT - 301},
    {"secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"headers": {"Webhook-Id": "msg_other"}},
    {"headers": {"Webhook-Id": ""}},
    *({"headers": {"webhook-timestamp": sent}} for sent in ["", "soon", str(SENT + 1), "-1", "9" * 13]),
    *({"headers": {"webhook-signature": signature}} for signature in ["", "v1,", SIGNATURE[:-5], SIGNATURE[3:], "v2," + SIGNATURE[3:], "v1,é"]),
]
for one in forged:
    try:
        raise AssertionError(f"{one} was believed: {verified(**one)}")
    except WebhookError:
        pass
for wrong in ["", "whsec_", "whsec_c2hvcnQ=", "whsec_%", SECRET.removeprefix("whsec_")]:
    try:
        raise AssertionError(f"{wrong} is a secret: {verified(secret=wrong)}")
    except ValueError:
        pass

# Patience that ends leaves the call as it is.
pending = []
for _ in range(2):
    try:
        raise AssertionError(agent.invoke(session["id"], *write, timeout=0))
    except NotSucceededError as error:
        assert error.code == error.invocation["status"] == "pending", error
        pending.append(error.invocation["id"])

# Every page is asked for.
listed = owner.iterate("/api/v1/invocations", query={"session": session["id"], "limit": 1, "count": True})
assert [one["id"] for one in listed] == pending[::-1]

# A wait goes on when the server was away. What the server refuses ends it at once.
asked: list[Any] = []
real = Countersign.request


def shaky(self: Countersign, *args: Any, **more: Any) -> Any:
    asked.append(args)
    if len(asked) < 3:
        raise ConnectionRefusedError("away")
    return real(self, *args, **more)


owner.request("post", "/api/v1/invocations/{invocation}/deny", {"invocation": pending[0]}, body={})
with mock.patch.object(Countersign, "request", shaky):
    assert agent.wait(session["id"], pending[0])["invocation"]["status"] == "denied" and len(asked) == 3
    try:
        raise AssertionError(agent.wait(session["id"], "inv_00000000000000000000000000"))
    except RefusedError as error:
        assert error.status == 404 and error.code == "not_found" and len(asked) == 4, error

# A call that a rule denies is told as one that a person denies.
owner.request("put", "/api/v1/modes/{action}", {"action": write[0]}, body={"mode": "deny"})
try:
    raise AssertionError(agent.invoke(session["id"], *write))
except NotSucceededError as error:
    assert error.invocation["status"] == "denied" and error.code == "denied_by_mode" and error.hint, error
finally:
    owner.request("delete", "/api/v1/modes/{action}", {"action": write[0]})

# The token is not carried elsewhere, and what no server of ours answers is an error, too.
reached: list[str] = []


class Elsewhere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        reached.append(self.path)
        self.send_response(302)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        raise AssertionError(Countersign(f"http://127.0.0.1:{server.server_port}", "token").request("get", "/api/v1/whoami"))
    except RefusedError as error:
        assert error.status == 302 and error.code == "no_problem_document" and reached == ["/api/v1/whoami"], (error, reached)
    server.shutdown()
