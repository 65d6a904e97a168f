# stdin: {"input", "failedChecks", "dryRun"}. stdout: {"output", "deletes"}. /workspace is read-only; what is
# written below /stage becomes the change, under the same path.
import json
import os
import sys

given = json.load(sys.stdin)["input"]
source = os.path.normpath(os.path.join("/workspace", given["file"]))
before = open(source, encoding="utf-8", newline="").read() if os.path.exists(source) else ""
after = before + ("" if before == "" or before.endswith("\n") else "\n") + given["line"] + "\n"

target = os.path.normpath(os.path.join("/stage", given["file"]))
os.makedirs(os.path.dirname(target), exist_ok=True)
with open(target, "w", encoding="utf-8", newline="") as file:
    file.write(after)
print(json.dumps({"output": {"lines": after.count("\n")}, "deletes": []}))
