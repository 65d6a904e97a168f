//! The groups of the escape corpus that need a real package and the real API: paths that a caller passes to a script, files that a script
//! leaves under odd names, and answers that it gives. The results are checked from outside, and each attempt is compared with the same call
//! without anything odd in it.

use crate::countersign::{Server, User};
use crate::packages::{tree, write_package};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SETTINGS: &[(&str, &str)] = &[("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true"), ("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "1000")];

const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;

/// Does with the given path whatever it is told, without any check.
const GULLIBLE: &str = r#"
const fs = require("fs");
const { input } = JSON.parse(fs.readFileSync(0, "utf8"));
const answer = (output, deletes) => console.log(JSON.stringify({ output, deletes }));
const under = (folder) => input.path.startsWith("/") ? input.path : folder + "/" + input.path;
({
  read: () => answer({ text: fs.readFileSync(under("/workspace"), "utf8") }, []),
  write: () => { fs.writeFileSync(under("/stage"), "written"); answer({}, []); },
  name: () => { fs.writeFileSync("/stage/good", "x"); fs.writeFileSync("/stage/" + Buffer.from(input.path, "base64").toString(), "x"); answer({}, []); },
  delete: () => answer({}, [input.path]),
  lie: () => answer({ text: 7 }, []),
  misfit: () => { fs.writeFileSync("/stage/a.txt", "written"); answer({ text: 7 }, []); },
})[input.what]();
"#;

struct Ground {
    server: Server,
    owner: User,
}

impl Ground {
    fn new(tier: &str) -> Self {
        let server = Server::start_with(SETTINGS);
        let owner = server.owner();
        std::fs::write(server.workspace().join("a.txt"), "inside").unwrap();
        std::fs::write(owner.folder().join("victim.txt"), "outside").unwrap();
        let schema = json!({ "outputSchema": { "type": "object", "properties": { "text": { "type": "string" } } } });
        let scripts: &[_] = if tier == "R2" { &[("execute.js", GULLIBLE), ("verify.js", FINE)] } else { &[("execute.js", GULLIBLE)] };
        write_package(owner.folder(), "kit", "obey", tier, scripts, &schema);
        owner.run(&["package", "install", "kit"]).ok();
        owner.run(&["mode", "set", "kit.obey", "allow"]).ok();
        Self { server, owner }
    }

    /// Makes the call, and returns its status and the code of its failure.
    fn obey(&self, what: &str, path: &str) -> (String, String) {
        let _answer = self.owner.run(&["action", "invoke", "kit.obey", &format!("what={what}"), &format!("path={path}"), "--json"]);
        let listed = self.owner.run(&["invocation", "list", "--json"]).ok().json();
        let last = &listed["items"][0];
        assert_eq!((&last["params"]["what"], &last["params"]["path"]), (&json!(what), &json!(path)), "{last:#}");
        // The circuit breaker opens after several failures in a row. It is closed again, so that each attempt runs.
        self.owner.run(&["breaker", "close", "kit.obey", "--yes"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&last["status"]), text(&last["error"]["code"]))
    }

    fn picture(&self) -> Picture {
        let data = self.server.data();
        let names = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        Picture {
            workspace: tree(&self.server.workspace()),
            kept: tree(&data.join("snapshots")),
            victim: std::fs::read_to_string(self.owner.folder().join("victim.txt")).unwrap(),
            key: std::fs::read(data.join("master.key")).unwrap(),
            // Some of the database's own files come and go.
            beside: names.filter(|name| !name.starts_with("countersign.db")).collect(),
        }
    }
}

/// Everything that an escape from the workspace could have changed: the workspace, the snapshots and the files around it.
#[derive(Debug, PartialEq)]
struct Picture {
    workspace: BTreeMap<String, String>,
    kept: BTreeMap<String, String>,
    victim: String,
    key: Vec<u8>,
    beside: BTreeSet<String>,
}

#[track_caller]
fn assert_refused(ground: &Ground, what: &str, path: &str, code: &str) {
    let before = ground.picture();
    let (status, found) = ground.obey(what, path);
    assert_eq!((status.as_str(), found.as_str()), ("failed", code), "{what} {path:?}");
    assert_eq!(ground.picture(), before, "{what} {path:?} changed something");
}

#[test]
fn fs_dotdot_in_param_of_a_package_reaches_nothing() {
    let ground = Ground::new("R2");
    for path in ["../master.key", "../../victim.txt", "x/../../master.key"] {
        assert_refused(&ground, "read", path, "package_failed");
        assert_refused(&ground, "write", path, "package_failed");
        assert_refused(&ground, "delete", path, "path_outside_workspace");
    }
    assert_eq!(ground.obey("read", "a.txt"), ("succeeded".to_owned(), String::new()), "the same without `..` reads");
    assert_eq!(ground.obey("delete", "a.txt").0, "succeeded", "and deletes");
    assert_eq!(tree(&ground.server.workspace()), BTreeMap::new());
    ground.owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn fs_absolute_param_of_a_package_reaches_nothing() {
    let ground = Ground::new("R2");
    let (victim, key) = (ground.owner.folder().join("victim.txt"), ground.server.data().join("master.key"));
    for path in [victim.to_str().unwrap(), key.to_str().unwrap(), "/etc/passwd"] {
        assert_refused(&ground, "read", path, "package_failed");
        assert_refused(&ground, "write", path, "package_failed");
        assert_refused(&ground, "delete", path, "path_outside_workspace");
    }
    assert_eq!(ground.obey("read", "/workspace/a.txt").0, "succeeded", "what the jail shows under a whole path is read");
    assert_eq!(ground.obey("write", "/stage/b.txt").0, "succeeded", "and its stage is written to");
    assert_eq!(tree(&ground.server.workspace())["b.txt"], "written");
    ground.owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn fs_artifact_names_of_a_package_store_nothing() {
    use base64::Engine as _;
    let ground = Ground::new("R2");
    let encoded = |name: &str| base64::engine::general_purpose::STANDARD.encode(name);
    for (name, code) in [
        ("..\\..\\victim.txt", "package_stage_refused"),
        ("C:\\x", "package_stage_refused"),
        ("a\nb", "package_stage_refused"),
        ("gpj\u{202e}.exe", "package_stage_refused"),
        (".countersign-x", "path_not_allowed"),
        ("x.", "path_not_allowed"),
        (" x", "path_not_allowed"),
    ] {
        assert_refused(&ground, "name", &encoded(name), code);
    }
    for (path, code) in [("..\\victim.txt", "path_not_allowed"), ("./a.txt", "path_not_allowed"), (".//a.txt", "path_not_allowed")] {
        assert_refused(&ground, "delete", path, code);
    }
    assert_eq!(ground.obey("name", &encoded("fine")).0, "succeeded", "the same under a plain name is stored");
    assert_eq!(tree(&ground.server.workspace()).len(), 3);
    ground.owner.run(&["receipt", "verify"]).ok();
}

/// The part of `out_hostile` that only a check against the schema can refuse. The rest is tested in the jail and in `packages.rs`.
#[test]
fn out_hostile_that_fits_no_schema_changes_nothing() {
    let reads = Ground::new("R1");
    assert_refused(&reads, "lie", "a.txt", "result_schema_mismatch");
    assert_eq!(reads.obey("read", "a.txt").0, "succeeded", "an answer that fits is taken");

    let writes = Ground::new("R2");
    let before = tree(&writes.server.workspace());
    assert_eq!(writes.obey("misfit", "a.txt"), ("reverted".to_owned(), "result_schema_mismatch".to_owned()));
    assert_eq!(tree(&writes.server.workspace()), before, "what it staged was left in place");
    assert_eq!(writes.obey("write", "a.txt").0, "succeeded", "an answer that fits is taken");
    assert_eq!(tree(&writes.server.workspace())["a.txt"], "written");
    writes.owner.run(&["receipt", "verify"]).ok();
}
