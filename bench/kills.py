"""kills.py BINARY SECONDS [URL of a PostgreSQL database]: kills a server with SIGKILL every 1 to 3 seconds and starts it again, under calls, runs
that are asked for, webhooks and ticks. Then it counts what was lost, done twice or stuck, and verifies the log. It ends with 1 if anything was.

Effects are counted outside the server, by the HTTP server that the calls go to."""

import collections
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CALLERS = 3
TICKERS = 6
STEPS = 2
# What has not ended by then is stuck.
PATIENCE_SECONDS = 300


class Upstream(BaseHTTPRequestHandler):
    """Counts what happened, by the body of the request. What comes again under the idempotency key of an earlier request happens once."""

    protocol_version = "HTTP/1.1"
    lock, effects, keys, asked_again = threading.Lock(), collections.Counter(), set(), 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        key = self.headers.get("idempotency-key")
        with self.lock:
            if key and key in self.keys:
                Upstream.asked_again += 1
            else:
                self.effects[body] += 1
                self.keys.add(key)
        time.sleep(0.02)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


class Server:
    """The server under test. Whoever asks it while it is away waits until it is back."""

    def __init__(self, binary, folder, upstream, database):
        self.command = [binary, "serve", "--listen", "127.0.0.1:0", "--data", folder] + (["--database", database] if database else [])
        allowed = {"COUNTERSIGN_HTTP_ALLOWED_HOSTS": upstream, "COUNTERSIGN_HTTP_ALLOWED_NETWORKS": "127.0.0.0/8"}
        quiet = {"COUNTERSIGN_INVOCATIONS_PER_MINUTE": "1000000", "COUNTERSIGN_LOG_LEVEL": "off"}
        self.environment = {**os.environ, **allowed, **quiet}
        self.folder, self.address, self.token = folder, None, None

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.environment, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("url: "):
                self.address = urllib.parse.urlparse(line[5:].strip()).netloc
                break
        else:
            sys.exit("the server did not start")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        with open(f"{self.folder}/owner.token") as token:
            self.token = token.read().strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def once(self, method, path, body=None, headers=(), timeout=60):
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            said = {"authorization": f"Bearer {self.token}", "content-type": "application/json", **dict(headers)}
            connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), said)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def ask(self, method, path, body=None, headers=()):
        """Asks until there is an answer. What changes something must carry a key, or be harmless twice."""
        while True:
            try:
                status, answer = self.once(method, path, body, headers)
                if status not in (429, 503):
                    return status, answer
            except (OSError, http.client.HTTPException, ValueError):
                pass
            time.sleep(0.05)

    def all(self, path):
        items, after = [], ""
        while True:
            _, page = self.ask("GET", f"{path}{'&' if '?' in path else '?'}limit=100{after}")
            items += page["items"]
            if not page.get("next"):
                return items
            after = f"&after={urllib.parse.quote(page['next'])}"


def definition(upstream):
    def step(number):
        key = {"Idempotency-Key": f"{{{{ run.id }}}}-{number}"} if number < STEPS else {}
        config = {"method": "POST", "url": upstream, "headers": key, "body": f"s{number} {{{{ run.id }}}}"}
        return {"step_id": f"s{number}", "action": "http.request", "config": config}

    every_minute = {"cron": "* * * * *", "timezone": "UTC", "catch_up": "all"}
    ticks = [{"trigger_id": f"tick-{n}", "type": "schedule", "config": every_minute} for n in range(TICKERS)]
    hook = {"trigger_id": "hook", "type": "webhook", "config": {"rate_limit": {"max": 1000, "per_seconds": 60}}}
    plan = [step(number) for number in range(1, STEPS + 1)]
    return {"schema_version": "1.0", "name": "Kills", "triggers": [hook, *ticks], "plan": plan, "execution": {"concurrency": "allow_parallel"}}


class Load:
    def __init__(self, server, upstream, automation, hook_token):
        self.server, self.upstream, self.automation, self.hook_token = server, upstream, automation, hook_token
        self.stop, self.lock = threading.Event(), threading.Lock()
        # What was acknowledged: calls by id with the status told and their effect, runs by id.
        self.calls, self.runs, self.refused = {}, {}, collections.Counter()
        self.number = 0

    def next(self):
        with self.lock:
            self.number += 1
            return self.number

    def call(self):
        _, session = self.server.ask("POST", "sessions", {})
        path = f"sessions/{session['id']}/actions/invoke"
        while not self.stop.is_set():
            number = self.next()
            params = {"method": "POST", "url": self.upstream, "body": f"call {number}"}
            # The key makes it one call, however often it is asked for.
            body = {"action": "http.request", "params": params, "idempotency_key": f"call-{number}"}
            _, answer = self.server.ask("POST", path, body)
            invocation = answer.get("invocation")
            if invocation:
                self.calls[invocation["id"]] = (invocation["status"], f"call {number}")
            else:
                self.refused[answer.get("code")] += 1

    def run(self, path, headers):
        while not self.stop.is_set():
            key = {"idempotency-key": f"{path}-{self.next()}"}
            _, answer = self.server.ask("POST", f"automations/{self.automation}/{path}", {"inputs": {}}, {**headers, **key})
            run = answer.get("run_id")
            if run:
                self.runs[run] = path
            else:
                self.refused[answer.get("code") or answer.get("reason")] += 1
            time.sleep(0.1)

    def start(self):
        threads = [threading.Thread(target=self.call) for _ in range(CALLERS)]
        threads.append(threading.Thread(target=self.run, args=("run", {})))
        threads.append(threading.Thread(target=self.run, args=("fire", {"authorization": f"Bearer {self.hook_token}"})))
        for thread in threads:
            thread.start()
        return threads


def settle_doubts(server):
    """Says what became of calls in doubt, as a person would who has looked at the upstream. Returns of how many."""
    settled = 0
    for invocation in server.all("invocations?status=in_doubt"):
        happened = Upstream.effects[invocation["params"]["body"]] > 0
        answer = {"as": "succeeded" if happened else "failed", "reason": "the upstream was looked at"}
        settled += server.ask("POST", f"invocations/{invocation['id']}/settle", answer)[0] == 200
    return settled


def main():
    binary, seconds, database = sys.argv[1], float(sys.argv[2]), (sys.argv[3:] or [None])[0]
    counting = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    # A caller that was killed breaks off, which is no news.
    counting.handle_error = lambda *_: None
    threading.Thread(target=counting.serve_forever, daemon=True).start()
    upstream = f"http://127.0.0.1:{counting.server_address[1]}"
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, folder, upstream, database)
        server.start()
        try:
            wrong = measure(server, upstream, seconds)
        finally:
            server.kill()
    sys.exit(1 if wrong else 0)


def measure(server, upstream, seconds):
    server.ask("PUT", "modes/http.request", {"mode": "allow"})
    server.ask("POST", "consents", {"purpose": "action:http.request"})
    status, saved = server.ask("POST", "automations", {"definition": definition(upstream)})
    if status >= 300:
        sys.exit(f"the automation was not saved: {saved}")
    automation, token = saved["automation"]["id"], saved["tokens"][0]["token"]
    load = Load(server, upstream, automation, token)
    threads, began, kills = load.start(), time.monotonic(), 0
    while time.monotonic() - began < seconds:
        time.sleep(random.uniform(1, 3))
        server.kill()
        kills += 1
        server.start()
    load.stop.set()
    for thread in threads:
        thread.join()

    doubted, ended_by = 0, time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ended_by:
        doubted += settle_doubts(server)
        open_runs = sum(len(server.all(f"runs?automation={automation}&status={status}")) for status in ("pending", "running", "waiting"))
        open_calls = sum(len(server.all(f"invocations?status={status}")) for status in ("running", "approved", "in_doubt"))
        if open_runs == open_calls == 0:
            break
        time.sleep(1)

    runs = {run["id"]: run for run in server.all(f"runs?automation={automation}")}
    calls = {call["id"]: call for call in server.all("invocations")}
    effects = Upstream.effects
    lost = [id for id in load.runs if id not in runs] + [id for id in load.calls if id not in calls]
    lost += [id for id, (told, effect) in load.calls.items() if told == "succeeded" and not effects[effect]]
    lost += [id for id, run in runs.items() if run["status"] == "succeeded" and not all(effects[f"s{n} {id}"] for n in range(1, STEPS + 1))]
    # A call that ended keeps its end.
    changed = [id for id, (told, _) in load.calls.items() if told in ("succeeded", "failed") and id in calls and calls[id]["status"] != told]
    twice = [effect for effect, times in effects.items() if times > 1]
    firings = server.all(f"automations/{automation}/firings")
    ticks = [(firing["trigger_id"], firing["scheduled_for"]) for firing in firings if firing["scheduled_for"] and firing["run_id"]]
    by_trigger = collections.Counter(trigger for trigger, _ in ticks)
    ticks_twice = len(ticks) - len(set(ticks))
    ticks_lost = sum(max(by_trigger.values(), default=0) - count for count in by_trigger.values())
    verified = subprocess.run(
        [server.command[0], "receipt", "verify"],
        env={**server.environment, "COUNTERSIGN_URL": f"http://{server.address}", "COUNTERSIGN_TOKEN": server.token},
        capture_output=True,
        text=True,
    )
    ended = collections.Counter(run["status"] for run in runs.values())
    counts = collections.Counter(run["trigger_type"] for run in runs.values())
    print(f"{kills} kills in {time.monotonic() - began:.0f} s; {len(calls)} calls, {len(load.calls)} of them acknowledged as direct calls")
    print(f"{len(runs)} runs {dict(counts)}, ended {dict(ended)}; {len(ticks)} ticks {dict(by_trigger)}")
    print(f"settled by a person: {doubted}; asked again under a key: {Upstream.asked_again}; refused: {dict(load.refused)}")
    print(f"lost {len(lost)}, changed {len(changed)}, twice {len(twice) + ticks_twice}, ticks lost {ticks_lost}, stuck {open_runs + open_calls}")
    print(verified.stdout.strip() or verified.stderr.strip())
    for name, found in (("lost", lost), ("changed", changed), ("twice", twice)):
        if found:
            print(name, found[:5])
    return lost or changed or twice or ticks_twice or ticks_lost or open_runs or open_calls or verified.returncode


main()
