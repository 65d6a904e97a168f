// stdin: {"input", "output"}. stdout: {"ok", "checks"}. /workspace holds the change by now, read-only.
const fs = require("fs");
const path = require("path");

const { input, output } = JSON.parse(fs.readFileSync(0, "utf8"));
const lines = fs.readFileSync(path.join("/workspace", input.file), "utf8").split("\n").slice(0, -1);
const checks = [
  { name: "last_line", ok: lines[lines.length - 1] === input.line },
  { name: "count", ok: lines.length === output.lines },
];
console.log(JSON.stringify({ ok: checks.every((check) => check.ok), checks }));
