//! Tests that the names of checks which a package reports are short names. They stay in receipts for ever, so anything else is not
//! accepted.

use crate::countersign::Server;
use crate::packages::write_package;
use serde_json::json;

const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");
const WRITES: &str = r#"require("fs").writeFileSync("/stage/a.txt", "x"); console.log(JSON.stringify({ output: {} }));"#;
/// A made-up token in the format of a real one.
const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

fn reporting(name: &str, ok: bool, detail: &str) -> String {
    let check = json!({ "ok": ok, "checks": [{ "name": name, "ok": ok, "detail": detail }] });
    format!("console.log({:?});", check.to_string())
}

#[test]
fn no_secret_and_no_essay_reaches_a_receipt_through_a_check() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    let long = "a".repeat(200_000);
    let cases = [
        ("odd", reporting(&format!("{TOKEN} alice@example.com"), true, ""), "a check has a name other than"),
        ("long", reporting(&long, true, ""), "a check has a name other than"),
        ("loud", reporting("looks_right", false, &format!("it says {TOKEN} {long}")), "verify/looks_right"),
    ];
    for (name, verify, told) in cases {
        write_package(owner.folder(), name, "act", "R2", &[("execute.js", WRITES), ("verify.js", &verify)], &json!({}));
        owner.run(&["package", "install", name]).ok();
        let action = format!("{name}.act");
        owner.run(&["mode", "set", &action, "allow"]).ok();
        let refused = owner.run(&["action", "invoke", &action, "--json"]);
        assert!(refused.code != 0 && refused.stderr.contains(told), "{name}: {}", refused.stderr.chars().take(600).collect::<String>());
        let id = refused.error()["invocation_id"].as_str().unwrap().to_owned();
        let shown = owner.run(&["invocation", "show", &id, "--json"]).ok().stdout;
        let receipt = owner.run(&["explain", &id, "--json"]).ok().stdout;
        for text in [&refused.stderr, &shown, &receipt] {
            assert!(!text.contains(TOKEN) && !text.contains("alice@example.com"), "{name}: {}", text.chars().take(600).collect::<String>());
            assert!(text.len() < 40_000, "{name}: {} bytes", text.len());
        }
        assert!(!server.workspace().join("a.txt").exists(), "{name}: it was taken back");
    }
    owner.run(&["receipt", "verify"]).ok();
}
