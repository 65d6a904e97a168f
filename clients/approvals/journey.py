"""An agent's loop of refunds, each of which waits for a person: journey.py BINARY FOLDER

The agent is a shell script with the command line, and has two variables. The person answers as people do: at the command line, with a button in
Slack, with the link of a mail that a real mail server took, or not at all. The Slack here takes what Slack's published description has and nothing
else, and signs what is pressed by the algorithm that Slack documents.
"""

import hashlib
import hmac
import html.parser
import http.cookiejar
import http.server
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

BINARY, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
HERE = Path(__file__).resolve().parents[2]
PUBLISHED = json.loads((HERE / "crates/notify/src/slack/published.json").read_text())
ROBIN, SLACK_USER, SLACK_CHANNEL = "robin@refunds.test", "U0ROBIN0000", "C0123456789"
SIGNING_SECRET, BOT = "signs as Slack does", "xoxb-of-this-journey"
PATIENCE = 60


class Outside(http.server.BaseHTTPRequestHandler):
    """Answers what `reply` says; `None` is a notification."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = self.reply(body)
        text = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(202 if answer is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

    @classmethod
    def start(cls):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), cls)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"


class Shop(Outside):
    """An MCP server that refunds orders."""

    refunded = []
    tool = {
        "name": "refund",
        "description": "Refunds an order.",
        "inputSchema": {"type": "object", "properties": {"order": {"type": "string"}, "amount": {"type": "number"}}, "required": ["order", "amount"]},
    }

    def reply(self, body):
        asked = json.loads(body)
        match asked["method"]:
            case "initialize":
                result = {
                    "protocolVersion": asked["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "shop", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [self.tool]}
            case "tools/call":
                self.refunded.append(asked["params"]["arguments"]["order"])
                result = {"content": [{"type": "text", "text": "done"}]}
            case method if method.startswith("notifications/"):
                return None
            case _:
                return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "there is no such method"}}
        return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


class Slack(Outside):
    said = []

    def reply(self, body):
        method, form = self.path.removeprefix("/api/"), dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))
        described = PUBLISHED["methods"].get(method, {"parameters": {}, "required": []})
        is_described = set(described["required"]) <= set(form) <= set(described["parameters"])
        if not is_described or self.headers["content-type"] not in PUBLISHED["consumes"] or self.headers["authorization"] != f"Bearer {BOT}":
            self.said.append(("refused", {"method": method, **form}))
            return {"ok": False, "error": "invalid_arg_name"}
        form.setdefault("ts", f"1548261231.{len(self.said):06}")
        self.said.append((method, form))
        return {"ok": True, "channel": form["channel"], "ts": form["ts"], "message": {}}

    @classmethod
    def heard(cls, method, *words):
        """The request of this method that has these words, once it was made."""

        def find():
            assert all(said != "refused" for said, _ in cls.said), cls.said
            return next((form for said, form in cls.said if said == method and all(word in str(form) for word in words)), None)

        return until(find)


def pressed(channel, form, label, secret=SIGNING_SECRET, ago=0):
    """Slack's request after this button was pressed."""
    actions = next(block for block in json.loads(form["blocks"]) if block["type"] == "actions")
    button = next(one for one in actions["elements"] if one["text"]["text"] == label)
    action = {"type": "button", "action_id": button["action_id"], "value": button["value"], "action_ts": str(time.time())}
    payload = {"type": "block_actions", "user": {"id": SLACK_USER}, "channel": {"id": SLACK_CHANNEL}, "actions": [action]}
    body, at = urllib.parse.urlencode({"payload": json.dumps(payload)}), str(int(time.time()) - ago)
    digest = hmac.new(secret.encode(), f"v0:{at}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"x-slack-request-timestamp": at, "x-slack-signature": f"v0={digest}", "content-type": "application/x-www-form-urlencoded"}
    return urllib.request.Request(f"{url}/api/v1/channels/{channel}/slack", body.encode(), headers)


def sent(request):
    """The status of an answer, and the code of its problem."""
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)["code"]


class Form(html.parser.HTMLParser):
    """The buttons of a page, and the fields that go with them."""

    def __init__(self, page):
        super().__init__()
        self.fields, self.buttons = {}, set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag == "input" and named.get("type") == "hidden":
            self.fields[named["name"]] = named["value"]
        if tag == "button":
            self.buttons.add(named.get("value"))


def follow(link, answer):
    """Opens a link in a browser of its own and presses a button there. Looking at it decides nothing."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    form = Form(browser.open(link).read().decode())
    if "open" in form.buttons:
        form = Form(browser.open(link, urllib.parse.urlencode({**form.fields, "answer": "open"}).encode()).read().decode())
    assert answer in form.buttons, form.buttons
    return browser.open(link, urllib.parse.urlencode({**form.fields, "answer": answer}).encode()).read().decode()


def until(find):
    """What `find` finds, once it does."""
    began = time.monotonic()
    while (found := find()) is None:
        assert time.monotonic() - began < PATIENCE, find
        time.sleep(0.05)
    return found


def mail_about(order):
    """The link in the mail that asks about this order."""

    def find():
        for path in (FOLDER / "mail").glob("*.mail"):
            text = path.read_text().replace("=\n", "").replace("=3D", "=")
            link = re.search(rf"{re.escape(url)}/answer/\S+", text)
            if ROBIN in text and f"order {order} came broken" in text and link:
                return link[0].split('"')[0].split("<")[0]
        return None

    return until(find)


def countersign(*words, token=None, stdin="", code=0):
    ran = subprocess.run([BINARY, *words], input=stdin, capture_output=True, text=True, cwd=FOLDER, env=variables(token or owner))
    assert ran.returncode == code, (words, ran)
    return ran.stdout.strip()


def variables(token):
    return {"PATH": f"{FOLDER / 'bin'}:{os.environ['PATH']}", "HOME": str(FOLDER), "COUNTERSIGN_URL": url, "COUNTERSIGN_TOKEN": token}


def api(method, path, token, **body):
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/{path}", json.dumps(body).encode(), headers, method=method)) as answer:
        return json.load(answer)


def pending():
    return until(lambda: countersign("inbox", "-o", "name").partition("\n")[0] or None)


def at_the_command_line(word, *more):
    def answer(_order):
        countersign(word, pending(), *more, token=robin)

    return answer


def in_slack(label, outcome):
    def answer(order):
        form, waits = Slack.heard("chat.postMessage", f"order {order} came broken"), pending()
        for forged in [pressed(channel, form, label, secret="a guess"), pressed("chn_00000000000000000000000000", form, label)]:
            assert sent(forged) == (403, "slack_signature_invalid")
        assert sent(pressed(channel, form, label, ago=301)) == (403, "slack_request_expired")
        assert json.loads(countersign("show", waits, "--json=status")) == {"status": "pending"}
        request = pressed(channel, form, label)
        assert sent(request) == (200, "")
        assert sent(request) == (409, "slack_request_replayed")
        Slack.heard("chat.update", form["ts"], f"has ended: {outcome}")

    return answer


def in_a_mail(button):
    def answer(order):
        follow(mail_about(order), button)

    return answer


def not_at_all(_order):
    """The deadline passes, without anybody waiting for it."""
    with sqlite3.connect(FOLDER / "data/countersign.db", timeout=30) as database:
        database.execute("UPDATE invocations SET expires_at = 1 WHERE id = ?", [pending()])


ANSWERS = {
    "812": (at_the_command_line("approve"), "refunded"),
    "813": (at_the_command_line("deny", "--reason", "it was not broken"), "denied"),
    "814": (in_slack("Approve once", "succeeded"), "refunded"),
    "815": (in_slack("Deny", "denied"), "denied"),
    "816": (in_a_mail("approve"), "refunded"),
    "817": (in_a_mail("deny"), "denied"),
    "818": (not_at_all, "not answered in time"),
}

children = []
# Whoever stops this program stops what it has started.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def start(*words, **more):
    children.append(subprocess.Popen(words, **more))
    return children[-1]


try:
    for name in ["mail", "data", "bin", "agent"]:
        (FOLDER / name).mkdir()
    (FOLDER / "bin/countersign").symlink_to(BINARY)
    certificates = HERE / "crates/testkit/certificates"
    mailing = start(
        sys.executable, HERE / "clients/mail/server.py", FOLDER / "mail", certificates / "first.pem", certificates / "first.key.pem",
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    mail_server = f"smtp://127.0.0.1:{mailing.stdout.readline().split()[0]}?tls=none"
    shop, slack = Shop.start(), Slack.start()
    allowed = {
        "SOURCE_ALLOWED_HOSTS": f"{shop},{slack}",
        "SOURCE_ALLOWED_NETWORKS": "127.0.0.1/32",
        "EMAIL_ALLOWED_SERVERS": mail_server,
        "SLACK_API_URL": f"{slack}/api",
    }
    serving = start(
        BINARY, "serve", "--data", FOLDER / "data", "--listen", "127.0.0.1:0", stdout=subprocess.DEVNULL, stderr=(FOLDER / "log").open("w"),
        env={"PATH": os.environ["PATH"], **{f"COUNTERSIGN_{name}": value for name, value in allowed.items()}},
    )  # fmt: skip

    def served():
        assert serving.poll() is None, (FOLDER / "log").read_text()
        found = FOLDER / "data/server.url"
        return (found.read_text().strip() if found.exists() else "") or None

    url = until(served)
    owner = (FOLDER / "data/owner.token").read_text().strip()
    invited = json.loads(countersign("user", "create", ROBIN, "--role", "approver", "--json"))
    robin = api("POST", "invitations/redeem", owner, invitation=invited["invitation"]["invitation"])["token"]
    countersign("secret", "set", "bot", "--stdin", stdin=BOT)
    countersign("secret", "set", "signs", "--stdin", stdin=SIGNING_SECRET)
    settings = {"channel": SLACK_CHANNEL, "token": "bot", "signing_secret": "signs", "users": {SLACK_USER: ROBIN}}
    channel = api("POST", "channels", owner, name="approvals", kind="slack", settings=settings)["id"]
    countersign("token", "create", f"slack {channel} {SLACK_USER}", token=robin)
    countersign("channel", "add", "mail", "--email", ROBIN, "--from", "countersign@refunds.test", "--server", mail_server)
    countersign("source", "add", "shop", "--mcp", f"{shop}/mcp")
    session = json.loads(countersign("session", "create", "--title", "refunds", "--source", "shop", "--json"))

    agent_has = {name: value for name, value in variables(session["token"]).items() if name != "HOME"}
    script = HERE / "crates/cli/tests/agent.sh"
    agent = start("sh", script, *ANSWERS, cwd=FOLDER / "agent", env=agent_has, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    for order, (answer, told) in ANSWERS.items():
        pending()
        assert order not in Shop.refunded, "nothing runs before it is approved"
        answer(order)
        # The agent's call returns, and its loop goes on.
        assert agent.stdout.readline() == f"{order} {told}\n", (FOLDER / f"agent/{order}.log").read_text()
    assert agent.wait(PATIENCE) == 0
    assert Shop.refunded == [order for order, (_, told) in ANSWERS.items() if told == "refunded"]
    for order, (_, told) in ANSWERS.items():
        result = (FOLDER / f"agent/{order}.json").read_text()
        assert "done" in result if told == "refunded" else result == "", (order, result)
    countersign("receipt", "verify")
finally:
    for child in reversed(children):
        child.terminate()
        child.wait()
