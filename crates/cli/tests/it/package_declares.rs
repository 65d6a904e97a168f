//! What the manifest of a package declares beside the frozen fields: it is shown, and it only makes the action stricter.

use crate::countersign::Server;
use crate::packages::write_package;
use serde_json::json;

const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;
const DONE: &str = r#"console.log(JSON.stringify({ output: {} }));"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_manifest_declares_is_shown_and_only_tightens_on_sqlite() {
    declares(None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_manifest_declares_is_shown_and_only_tightens_on_postgresql() {
    declares(Some(testkit::postgres::fresh_database().await));
}

fn declares(database: Option<String>) {
    let variables: Vec<_> = database.iter().map(|url| ("COUNTERSIGN_DATABASE", url.as_str())).collect();
    let server = Server::start_with(&variables);
    let owner = server.owner();
    let more = json!({
        "version": "2.1.0", "requires": ["billing.refund", "files.read"], "effects": ["filesystem_read", "user_visible"],
        "idempotencyKeyFields": ["order"],
    });
    write_package(owner.folder(), "kit", "refund", "R1", &[("execute.js", DONE)], &more);
    let scripts = [("execute.js", DONE), ("verify.js", FINE)];
    write_package(owner.folder(), "kit", "record", "R1", &scripts, &json!({ "effects": ["microphone"] }));
    owner.run(&["package", "install", "kit"]).ok();

    let refund = owner.run(&["action", "show", "kit.refund", "--json"]).ok().json();
    // What follows from the permissions comes first, and nothing is there twice.
    assert_eq!((&refund["version"], &refund["requires"]), (&json!("2.1.0"), &json!(["files.read", "billing.refund"])), "{refund:#}");
    assert_eq!(refund["effects"], json!(["filesystem_read", "user_visible"]), "{refund:#}");
    assert_eq!((&refund["safety_class"], &refund["idempotency_key_fields"]), (&json!("LOW"), &json!(["order"])), "{refund:#}");
    let record = owner.run(&["action", "show", "kit.record", "--json"]).ok().json();
    assert_eq!((&record["tier"], &record["safety_class"]), (&json!("R3"), &json!("HIGH")), "{record:#}");
    assert_eq!((&record["profile"], &record["mode"]), (&json!("high_isolation"), &json!("require_approval")), "{record:#}");
    let shown = owner.run(&["action", "show", "kit.refund"]).ok().stdout;
    for row in ["safety class\tLOW\n", "requires\tfiles.read, billing.refund\n", "automatic key\tof order\n", "version\t2.1.0\n"] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    // Nobody holds the permission yet.
    owner.run(&["action", "invoke", "kit.refund"]).exits(5);

    write_package(owner.folder(), "wild", "record", "R1", &scripts, &json!({ "effects": ["network_call", "camra"], "version": "a b" }));
    let refused = owner.run(&["package", "install", "wild"]).exits(8);
    for told in ["`camra` is not an effect", "did you mean `camera`?", "which its permissions do not let it do", "`a b` is not a `version`"]
    {
        assert!(refused.stderr.contains(told), "{told}: {refused:?}");
    }
}
