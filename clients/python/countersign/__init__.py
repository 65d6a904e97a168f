"""Countersign over HTTP. The types of `countersign.api` are generated from the API's description; nothing but the standard library is needed."""

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, cast

from .api import InvocationView, InvokeResponse, Problem

__all__ = ["Countersign", "CountersignError", "NotSucceededError", "RefusedError", "WebhookError", "verify_webhook"]

# The statuses of a call that goes on. Every call leaves them, at the latest when its time to be approved is over.
OPEN = ("pending", "approved", "running")
# How long the server holds one request open.
HELD_SECONDS = 30.0
# The shortest time between two requests of one wait.
PAUSE_SECONDS = 0.25
# Failed requests in a row before a wait gives up. A server that restarts is back by then.
FAILURES_MAX = 8
# How much the clocks of both sides of a webhook may differ.
TOLERANCE_SECONDS = 300


class CountersignError(Exception):
    """What went wrong: branch on `code`, show the message and `hint`. Every code has a page, `/docs/errors/{code}`."""

    def __init__(self, code: str, detail: str, hint: str | None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.hint = hint


class RefusedError(CountersignError):
    """The server refused a request. `problem` is the whole document; empty where something in between answered instead of the server."""

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(problem.get("code", "no_problem_document"), problem.get("detail", f"the answer was {status}"), problem.get("hint"))
        self.status = status
        self.problem = problem
        # Milliseconds to wait before trying again, where that helps.
        self.retry_after_ms = problem.get("retry_after_ms")


class NotSucceededError(CountersignError):
    """A call did not succeed: it was denied, it failed, it is in doubt, or it still waits. `invocation["status"]` says which."""

    def __init__(self, invocation: InvocationView, hint: str | None = None) -> None:
        status = invocation["status"]
        error = invocation.get("error") or {"code": status, "message": f"{invocation['id']} is {status}"}
        super().__init__(error["code"], error["message"], hint)
        self.invocation = invocation


class WebhookError(CountersignError):
    """A message that must not be believed."""

    def __init__(self, detail: str) -> None:
        super().__init__("webhook_invalid", detail, "answer it with 400, and do nothing it says")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is for the server it was given for, wherever that may point."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Countersign:
    """One person, agent or service: whoever the token is of. It may be used by several threads."""

    def __init__(self, url: str, token: str, *, timeout: float = 120) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect)

    def request(self, method: str, path: str, names: Mapping[str, str] = {}, *, query: Mapping[str, Any] = {}, body: Any = None) -> Any:
        """Any request of the API but its streams. Names in braces in the path are taken from `names`."""
        filled = re.sub(r"\{([^}]+)\}", lambda name: urllib.parse.quote(names[name[1]], safe=""), path)
        asked = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items() if value is not None}
        url = self._url + filled + ("?" + urllib.parse.urlencode(asked) if asked else "")
        headers = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        try:
            with self._opener.open(urllib.request.Request(url, data, headers, method=method.upper()), timeout=self._timeout) as response:
                text = response.read().decode()
                if response.headers.get_content_type() == "application/json":
                    return json.loads(text)
                return None if response.status == 204 else text
        except urllib.error.HTTPError as error:
            is_problem = error.headers.get_content_type() == "application/problem+json"
            raise RefusedError(error.code, json.load(error) if is_problem else cast(Problem, {})) from None

    def iterate(self, path: str, names: Mapping[str, str] = {}, *, query: Mapping[str, Any] = {}) -> Iterator[Any]:
        """Every item of every page, asked for as they are needed."""
        after = query.get("after")
        while True:
            page = self.request("get", path, names, query={**query, "after": after})
            yield from page["items"]
            after = page.get("next")
            if not after:
                return

    def invoke(
        self, session: str, action: str, params: Mapping[str, Any] = {}, *, timeout: float | None = None, **more: Any
    ) -> InvokeResponse:
        """Invokes an action and waits until it has been decided and done. Whatever else becomes of it is a `NotSucceededError`.

        `more` are further members of `InvokeRequest`, such as `reason` and `idempotency_key`.
        """
        body = {**more, "action": action, "params": params}
        try:
            answer: InvokeResponse = self.request("post", "/api/v1/sessions/{session}/actions/invoke", {"session": session}, body=body)
        except RefusedError as error:
            ended = error.problem.get("invocation")
            if ended is None:
                raise
            raise NotSucceededError(ended, error.hint) from error
        if answer["invocation"]["status"] in OPEN:
            answer = self.wait(session, answer["invocation"]["id"], timeout=timeout)
        if answer["invocation"]["status"] != "succeeded":
            raise NotSucceededError(answer["invocation"])
        return answer

    def wait(self, session: str, invocation: str, *, timeout: float | None = None) -> InvokeResponse:
        """Waits until a call has been decided and done, or until the time is over: its status says which. A server may restart meanwhile."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        path = "/api/v1/sessions/{session}/actions/invocations/{invocation}"
        failures = 0
        while True:
            held_ms = max(1, int(1000 * min(HELD_SECONDS, until - time.monotonic())))
            try:
                names = {"session": session, "invocation": invocation}
                answer: InvokeResponse = self.request("get", path, names, query={"wait": f"{held_ms}ms"})
                if answer["invocation"]["status"] not in OPEN or time.monotonic() >= until:
                    return answer
                failures = 0
            except (OSError, http.client.HTTPException, RefusedError) as error:
                failures += 1
                if failures > FAILURES_MAX or (isinstance(error, RefusedError) and error.status < 500):
                    raise
            time.sleep(PAUSE_SECONDS * 2 ** min(failures, 4))


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes | str) -> Any:
    """The message of a webhook, if its signature is one of this secret and it was sent within the last five minutes; otherwise a `WebhookError`.

    `body` is what arrived, byte for byte. A message may arrive twice: its `webhook-id` is the same then.
    """
    given = {name.lower(): value for name, value in headers.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    message, sent, signatures = (given.get(name, "") for name in names)
    if not message or not signatures or not re.fullmatch("[0-9]{1,12}", sent):
        raise WebhookError("a header of the signature is missing")
    if abs(time.time() - int(sent)) > TOLERANCE_SECONDS:
        raise WebhookError("it was sent at another time")
    key = _decoded(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else b""
    # Anyone can sign with an empty key.
    if len(key) < 24:
        raise ValueError("a secret is `whsec_` and at least 24 bytes in base64")
    bytes_ = body.encode() if isinstance(body, str) else body
    expected = hmac.digest(key, f"{message}.{sent}.".encode() + bytes_, hashlib.sha256)
    for signature in signatures.split(" "):
        if signature.startswith("v1,") and hmac.compare_digest(_decoded(signature[3:]), expected):
            return json.loads(bytes_)
    raise WebhookError("no signature of it is one of this secret")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
