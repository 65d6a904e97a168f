// stdin: {"input", "failedChecks", "dryRun"}. stdout: {"output", "deletes"}. /workspace is read-only; what is
// written below /stage becomes the change, under the same path.
const fs = require("fs");
const path = require("path");

const { input } = JSON.parse(fs.readFileSync(0, "utf8"));
const source = path.join("/workspace", input.file);
const before = fs.existsSync(source) ? fs.readFileSync(source, "utf8") : "";
const after = before + (before === "" || before.endsWith("\n") ? "" : "\n") + input.line + "\n";

const target = path.join("/stage", input.file);
fs.mkdirSync(path.dirname(target), { recursive: true });
fs.writeFileSync(target, after);
console.log(JSON.stringify({ output: { lines: after.split("\n").length - 1 }, deletes: [] }));
