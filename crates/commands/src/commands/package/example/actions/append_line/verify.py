# stdin: {"input", "output"}. stdout: {"ok", "checks"}. /workspace holds the change by now, read-only.
import json
import os
import sys

asked = json.load(sys.stdin)
with open(os.path.join("/workspace", asked["input"]["file"]), encoding="utf-8", newline="") as file:
    lines = file.read().split("\n")[:-1]
checks = [
    {"name": "last_line", "ok": lines[-1:] == [asked["input"]["line"]]},
    {"name": "count", "ok": len(lines) == asked["output"]["lines"]},
]
print(json.dumps({"ok": all(check["ok"] for check in checks), "checks": checks}))
