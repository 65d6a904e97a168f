// stdin: {"changes": [{"path", "previousSha256", "newSha256"}]}. Every file is put back from what was kept before
// the change, whatever happens here: this is the place for what else a package wants to say about it.
const fs = require("fs");

const { changes } = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(JSON.stringify({ ok: true, restored: changes.map((change) => change.path) }));
