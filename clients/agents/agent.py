"""agent.py CLIENT: an agent as people install it is connected, held, approved, and disconnected. Its model follows a script (model.mjs, at MODEL,
which tells its calls in LOG), and asks it to keep notes with the source `notes`, so what ran, and how often, is read there. The person is the
owner over HTTP. The client runs in a folder of its own, which is its home, too, and in which nothing but its own settings is there.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

URL, OWNER, MODEL, LOG = (os.environ[name] for name in ("COUNTERSIGN_URL", "COUNTERSIGN_TOKEN", "MODEL", "LOG"))
COUNTERSIGN, AGENTS = os.environ["COUNTERSIGN"], Path(os.environ["AGENTS"])
# As `countersign connect` writes it, in seconds; and for a client that is to give up. Longer than a call takes to be seen, also on a busy machine.
PATIENCE, GIVES_UP = 600, 5
CLIENT_SECONDS_MAX = 180

# What a person has in the settings before: enough for the client to ask the scripted model. `--undo` must leave it to the letter.
CODEX = f"""# mine
model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{MODEL}/v1"
wire_api = "responses"
env_key = "MODEL_KEY"
"""
GEMINI = """{
  // mine
  "security": { "auth": { "selectedType": "gemini-api-key" } },
  "privacy": { "usageStatisticsEnabled": false }
}
"""
# It writes the schema itself, at its first start, into settings that have none.
OPENCODE = f"""{{
  // mine
  "$schema": "https://opencode.ai/config.json",
  "provider": {{
    "local": {{
      "npm": "@ai-sdk/openai-compatible",
      "options": {{ "baseURL": "{MODEL}/v1", "apiKey": "made-up" }},
      "models": {{ "scripted": {{}} }},
    }},
  }},
}}
"""
CLIENTS = {
    "claude-code": {
        "file": ".mcp.json",
        "before": '{ "mcpServers": {} }\n',
        "command": ["claude", "-p", "--mcp-config", ".mcp.json", "--allowedTools", "mcp__countersign__notes_note", "--"],
        "variables": {"ANTHROPIC_BASE_URL": MODEL, "ANTHROPIC_API_KEY": "made-up", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    },
    "codex": {
        "file": ".codex/config.toml",
        "before": CODEX,
        "command": ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"],
        "variables": {"MODEL_KEY": "made-up"},
    },
    "gemini": {
        "file": ".gemini/settings.json",
        "before": GEMINI,
        "command": ["gemini", "--yolo", "-m", "gemini-2.5-flash", "-p"],
        "variables": {"GEMINI_API_KEY": "made-up", "GOOGLE_GEMINI_BASE_URL": MODEL, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    },
    "opencode": {
        "file": "opencode.json",
        "before": OPENCODE,
        "command": ["opencode", "run", "-m", "local/scripted"],
        "variables": {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
    },
}


def ask(method, path, body=None):
    headers = {"authorization": f"Bearer {OWNER}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/api/v1/{path}", data, headers, method=method)) as response:
        return json.load(response)


def until(what, is_so, agent):
    """Waits for what somebody else does, for which there is nothing to wait on."""
    end = time.monotonic() + CLIENT_SECONDS_MAX
    while time.monotonic() < end:
        if found := is_so():
            return found
        if agent.poll() is not None:
            raise AssertionError(f"the agent ended before {what}: {agent.communicate()[0]}")
        time.sleep(0.05)
    agent.kill()
    raise AssertionError(f"it never happened: {what}: {agent.communicate()[0]}")


def questions(note):
    """The questions that a note has led to, answered or not."""
    items = ask("GET", "invocations?limit=100")["items"]
    return [item for item in items if item["action"] == "notes.note" and (item["params"] or {}).get("text") == note]


def calls_of_model(note):
    return [line for line in Path(LOG).read_text().splitlines() if line.startswith(f"{note} ")] if Path(LOG).exists() else []


class Agent:
    def __init__(self, name):
        self.name, self.client = name, CLIENTS[name]
        self.home = Path(os.environ["RUN"]) / name
        self.settings = self.home / self.client["file"]
        self.settings.parent.mkdir(parents=True)
        self.settings.write_text(self.client["before"])
        programs = AGENTS / name / "node_modules/.bin"
        self.variables = {"HOME": str(self.home), "PATH": f"{programs}:{os.environ['PATH']}", "LANG": "C.UTF-8", "TERM": "xterm-256color"}

    def countersign(self, *words):
        variables = {**self.variables, "COUNTERSIGN_URL": URL, "COUNTERSIGN_TOKEN": OWNER}
        done = subprocess.run([COUNTERSIGN, *words], cwd=self.home, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, f"countersign {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def asked_to_write(self, note):
        command = [*self.client["command"], f"Please write the note {note}."]
        variables = {**self.variables, **self.client["variables"]}
        return subprocess.Popen(
            command, cwd=self.home, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ends(self, agent, note):
        """The client prints what the tool said; one question was asked, and one note was written."""
        said, _ = agent.communicate(timeout=CLIENT_SECONDS_MAX)
        asked = questions(note)
        assert len(asked) == 1 and asked[0]["status"] == "succeeded", f"{[item['status'] for item in asked]}: {said}"
        look = json.loads(self.countersign("action", "invoke", "notes.look", f"at={note}", "--json"))
        assert look["result"]["structuredContent"] == {"found": [note]}, f"{look['result']}: {said}"
        assert "The tool was called" in said and "count" in said.split("The tool was called")[-1], said
        return said

    def is_held_and_approved(self):
        note = f"held{self.name.replace('-', '')}"
        agent = self.asked_to_write(note)
        [asked] = until("it waits for a person", lambda: [item for item in questions(note) if item["status"] == "pending"], agent)
        ask("POST", f"invocations/{asked['id']}/approve", {})
        self.ends(agent, note)
        assert len(calls_of_model(note)) == 1, calls_of_model(note)

    def gives_up_and_asks_again(self):
        note = f"late{self.name.replace('-', '')}"
        written = self.settings.read_text()
        impatient = written.replace(f"{PATIENCE}000", f"{GIVES_UP}000").replace(f"tool_timeout_sec = {PATIENCE}", f"tool_timeout_sec = {GIVES_UP}")
        assert impatient != written, written
        self.settings.write_text(impatient)
        agent = self.asked_to_write(note)
        # Its timer has fired, and its model has made the same call again.
        until("it gave up and asked again", lambda: len(calls_of_model(note)) >= 2, agent)
        [asked] = [item for item in questions(note) if item["status"] == "pending"]
        ask("POST", f"invocations/{asked['id']}/approve", {})
        self.ends(agent, note)
        self.settings.write_text(written)

    def try_all(self):
        self.countersign("connect", self.name, "--write", "--source", "notes")
        self.is_held_and_approved()
        self.gives_up_and_asks_again()
        self.countersign("connect", self.name, "--undo")
        left = self.settings.read_text() if self.settings.exists() else None
        assert left == self.client["before"], left
        print(f"{self.name}: held, approved, joined and undone")


Agent(sys.argv[1]).try_all()
