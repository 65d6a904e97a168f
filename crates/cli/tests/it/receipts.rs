//! Tests the verification of records: what verifies, what does not, and what is said about the origin of the key.

use crate::countersign::{Server, User};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;

fn offline(folder: &Path) -> User {
    User::new(folder, &crate::fake::nobody(), None)
}

#[test]
fn the_published_vector_verifies_without_a_server() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../receipt/vectors");
    let pinned = ["receipt", "verify", "bundle.jsonl", "--key", "receipt-key.pem", "--checkpoint", "checkpoint.txt", "--json"];
    let report = offline(&vectors).run(&pinned).ok().json();
    assert_eq!((&report["ok"], &report["key_from"]), (&json!(true), &json!("pinned")));

    let unpinned = offline(&vectors).run(&["receipt", "verify", "bundle.jsonl"]).ok();
    assert!(unpinned.stderr.contains("the key was taken from the file itself"), "{}", unpinned.stderr);
}

#[test]
fn another_key_a_cut_off_file_and_a_forgotten_past_do_not_pass() {
    let (one, other) = (Server::start(), Server::start());
    let owner = one.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["receipt", "export", "all.jsonl"]).ok();
    owner.run(&["receipt", "key", "--out", "own.pem"]).ok();
    let key = other.owner().run(&["receipt", "key"]).ok().stdout;
    let folder = owner.folder();
    std::fs::write(folder.join("other.pem"), key).unwrap();
    let user = offline(folder);
    user.run(&["receipt", "verify", "all.jsonl", "--key", "own.pem"]).ok();

    let refused = user.run(&["receipt", "verify", "all.jsonl", "--key", "other.pem"]).exits(1);
    assert!(refused.stderr.contains("wrong_key"), "{}", refused.stderr);

    let whole = std::fs::read_to_string(folder.join("all.jsonl")).unwrap();
    let cut = &whole[..whole.trim_end().rfind('\n').unwrap() + 1];
    std::fs::write(folder.join("cut.jsonl"), cut).unwrap();
    let refused = user.run(&["receipt", "verify", "cut.jsonl", "--key", "own.pem"]).exits(1);
    assert!(refused.stderr.contains("truncated_tail"), "{}", refused.stderr);

    // A user who kept a later checkpoint notices that the end of the log was removed.
    owner.run(&["receipt", "checkpoint", "--out", "kept.txt"]).ok();
    user.run(&["receipt", "verify", "all.jsonl", "--key", "own.pem", "--checkpoint", "kept.txt"]).ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["receipt", "checkpoint", "--out", "later.txt"]).ok();
    let refused = user.run(&["receipt", "verify", "all.jsonl", "--key", "own.pem", "--checkpoint", "later.txt"]).exits(1);
    assert!(refused.stderr.contains("fork_or_rollback"), "{}", refused.stderr);
    // The finding is about the whole log, so no entry is said to hold.
    assert!(!refused.stderr.contains("before it") && refused.stderr.contains("read"), "{}", refused.stderr);

    std::fs::write(folder.join("empty.jsonl"), "").unwrap();
    user.run(&["receipt", "verify", "empty.jsonl"]).exits(1);
    user.run(&["receipt", "verify", "all.jsonl", "--key", "all.jsonl"]).exits(2);
}

#[test]
fn an_export_to_stdout_is_the_same_as_one_to_a_file_and_leaves_nothing_behind() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["receipt", "export", "all.jsonl"]).ok();
    let piped = owner.run(&["receipt", "export", "-"]).ok().stdout;
    assert_eq!(piped, std::fs::read_to_string(owner.folder().join("all.jsonl")).unwrap());
    assert!(!owner.folder().join("all.jsonl.part").exists());

    owner.with_token("wrong").run(&["receipt", "export", "none.jsonl"]).exits(4);
    let left = std::fs::read_dir(owner.folder())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("none"));
    assert_eq!(left.count(), 0);
}

#[test]
fn keys_are_rotated_and_everything_still_verifies_under_the_first() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["receipt", "key", "--out", "first.pem"]).ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let told = owner.run(&["key", "rotate", "--yes"]).ok().stderr;
    assert!(told.contains("a pinned key (receipt.pub) stays the one to verify with") && told.contains("are retired"), "{told}");
    owner.run(&["action", "invoke", "files.list"]).ok();
    let keys = owner.run(&["key", "list", "--json=purpose,retired_at"]).ok().json();
    let retired = keys["items"].as_array().unwrap().iter().filter(|key| key["retired_at"].is_string()).count();
    assert_eq!((keys["items"].as_array().unwrap().len(), retired), (4, 2));
    owner.run(&["receipt", "verify", "--key", "first.pem"]).ok();
    // The old key may be known to others. The log says that it is revoked, and its earlier signatures stay valid.
    let told = owner.run(&["key", "rotate", "--revoke", "--yes"]).ok().stderr;
    assert!(told.contains("are revoked: nothing they sign after that entry counts any more"), "{told}");
    owner.run(&["action", "invoke", "files.list"]).ok();
    let states = owner.run(&["key", "list"]).ok().stdout;
    let states: Vec<_> = states.lines().map(|line| line.split('\t').nth(4).unwrap()).collect();
    assert_eq!(states, ["retired", "retired", "revoked", "revoked", "signing", "signing"]);
    owner.run(&["receipt", "export", "revoked.jsonl"]).ok();
    let bundle = std::fs::read_to_string(owner.folder().join("revoked.jsonl")).unwrap();
    let payloads =
        bundle.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()?["envelope"]["payload"].as_str().map(str::to_owned));
    let entries = payloads.map(|payload| serde_json::from_slice::<Value>(&STANDARD.decode(payload).unwrap()).unwrap());
    let named: Vec<_> = entries.filter_map(|entry| entry["body"]["revoked"].as_array().map(Vec::len)).collect();
    assert_eq!(named, [0, 0, 2], "only the last entry of keys says of two that they count no more");
    owner.run(&["receipt", "verify", "revoked.jsonl", "--key", "first.pem"]).ok();
    let newest = owner.run(&["receipt", "list", "--limit", "1", "-o", "name"]).ok().stdout;
    owner.run(&["receipt", "prove", newest.trim()]).ok();
    let shown = owner.run(&["receipt", "show", newest.trim()]).ok().stdout;
    assert!(shown.contains("status\tsucceeded"), "{shown}");
}

#[test]
fn a_proof_that_does_not_add_up_is_refused_at_the_step_that_fails() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let receipt = owner.run(&["receipt", "list", "--limit", "1", "-o", "name"]).ok().stdout.trim().to_owned();
    let proof = owner.run(&["receipt", "prove", &receipt, "--json"]).ok().json()["proof"].clone();
    let keys = owner.run(&["key", "list", "--json"]).ok().json();

    type Change = fn(&mut serde_json::Value);
    let changes: [(&str, Change); 5] = [
        ("signature", |proof| proof["entry"]["envelope"]["signatures"][0]["sig"] = json!("A".repeat(86) + "==")),
        ("leaf", |proof| proof["leaf"] = json!("0".repeat(64))),
        ("leaf", |proof| proof["index"] = json!(0)),
        ("path", |proof| proof["hashes"][0] = json!("0".repeat(64))),
        ("checkpoint", |proof| proof["checkpoint"] = json!(proof["checkpoint"].as_str().unwrap().replace("— ", "— x"))),
    ];
    for (step, change) in changes {
        let mut proof = proof.clone();
        change(&mut proof);
        let keys = keys.clone();
        let fake =
            crate::fake::Fake::start(move |_, path| (200, if path.ends_with("/keys") { keys.to_string() } else { proof.to_string() }));
        let ran = User::new(owner.folder(), &fake.url, Some("t")).run(&["receipt", "prove", &receipt]).exits(1);
        assert!(ran.stderr.contains(&format!("does not hold at its {step}")), "{step}: {}", ran.stderr);
    }
}

#[test]
fn the_proof_of_one_receipt_is_kept_and_verifies_without_a_server() {
    let (server, other) = (Server::start(), Server::start());
    let owner = server.owner();
    owner.run(&["receipt", "key", "--out", "own.pem"]).ok();
    let folder = owner.folder();
    std::fs::write(folder.join("other.pem"), other.owner().run(&["receipt", "key"]).ok().stdout).unwrap();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let receipt = owner.run(&["receipt", "list", "--limit", "1", "-o", "name"]).ok().stdout.trim().to_owned();
    let kept = owner.run(&["receipt", "prove", &receipt, "--json"]).ok().json();
    let keep = |kept: &Value| std::fs::write(folder.join("kept.json"), serde_json::to_string_pretty(kept).unwrap()).unwrap();
    // The page of a receipt writes the proof and the keys, and nothing else.
    keep(&json!({ "proof": kept["proof"], "keys": kept["keys"] }));
    let user = offline(folder);

    let told = user.run(&["receipt", "verify", "kept.json"]).ok();
    assert!(told.stdout.contains(&receipt) && told.stderr.contains("the keys came from the file itself"), "{told:?}");
    let pinned = user.run(&["receipt", "verify", "kept.json", "--key", "own.pem", "--json"]).ok().json();
    assert_eq!((&pinned["ok"], &pinned["key_from"], &pinned["receipt_id"]), (&json!(true), &json!("pinned"), &json!(receipt)));
    let refused = user.run(&["receipt", "verify", "kept.json", "--key", "other.pem"]).exits(1);
    assert!(refused.stderr.contains("does not hold at its signature"), "{refused:?}");
    owner.run(&["receipt", "checkpoint", "--out", "kept.txt"]).ok();
    user.run(&["receipt", "verify", "kept.json", "--checkpoint", "kept.txt"]).exits(2);

    for (place, step) in [("/proof/entry/envelope/payload", "signature"), ("/proof/entry/id", "payload"), ("/proof/leaf", "leaf")] {
        let mut changed = kept.clone();
        let text = changed.pointer_mut(place).unwrap();
        let mut letters = text.as_str().unwrap().to_owned();
        let last = if letters.pop() == Some('0') { '1' } else { '0' };
        letters.push(last);
        *text = json!(letters);
        keep(&changed);
        let refused = user.run(&["receipt", "verify", "kept.json"]).exits(1);
        assert!(refused.stderr.contains(&format!("does not hold at its {step}")), "{step}: {refused:?}");
    }
}

#[test]
fn after_a_rotation_each_key_counts_for_what_it_could_sign() {
    for rotate in [&["key", "rotate", "--yes"][..], &["key", "rotate", "--revoke", "--yes"]] {
        let server = Server::start();
        let owner = server.owner();
        owner.run(&["receipt", "key", "--out", "first.pem"]).ok();
        let newest = || owner.run(&["receipt", "list", "--limit", "1", "-o", "name"]).ok().stdout.trim().to_owned();
        let prove = |receipt: &str| owner.run(&["receipt", "prove", receipt, "--json"]).ok().json();
        owner.run(&["action", "invoke", "files.list"]).ok();
        let old = newest();
        let before = prove(&old);
        owner.run(rotate).ok();
        let after = prove(&old);
        owner.run(&["action", "invoke", "files.list"]).ok();
        let new = prove(&newest());
        assert_ne!(before["proof"]["checkpoint"], after["proof"]["checkpoint"]);

        let user = offline(owner.folder());
        let verified = |proof: &Value, keys: &Value, pinned: &[&str]| {
            std::fs::write(owner.folder().join("kept.json"), json!({ "proof": proof, "keys": keys }).to_string()).unwrap();
            user.run(&[&["receipt", "verify", "kept.json"], pinned].concat())
        };
        let (pinned, keys) = (["--key", "first.pem"], &new["keys"]);
        // The old keys count up to the rotation: also under a checkpoint that only the new one could sign.
        for proof in [&before["proof"], &after["proof"], &new["proof"]] {
            verified(proof, keys, &[]).ok();
        }
        verified(&after["proof"], keys, &pinned).ok();
        assert!(verified(&new["proof"], keys, &pinned).exits(1).stderr.contains("does not hold at its signature"));

        // The same signatures, at positions where the keys that made them had been replaced, or had not begun.
        let starting = |purpose: &str, from: u64| {
            let mut moved = keys.clone();
            let mut later = moved.as_array_mut().unwrap().iter_mut().filter(|key| key["starts_at_seq"] != json!(0));
            later.find(|key| key["purpose"] == purpose).unwrap()["starts_at_seq"] = json!(from);
            moved
        };
        let size: u64 = new["proof"]["checkpoint"].as_str().unwrap().lines().nth(1).unwrap().parse().unwrap();
        for (proof, purpose, from, step) in [
            (&after["proof"], "receipt", 1, "signature"),
            (&new["proof"], "receipt", size, "signature"),
            (&before["proof"], "checkpoint", 1, "checkpoint"),
            (&new["proof"], "checkpoint", size + 1, "checkpoint"),
        ] {
            let refused = verified(proof, &starting(purpose, from), &[]).exits(1);
            assert!(refused.stderr.contains(&format!("does not hold at its {step}")), "{purpose} from {from}: {refused:?}");
        }
        let refused = verified(&after["proof"], &starting("receipt", 1), &pinned).exits(1);
        assert!(refused.stderr.contains("does not hold at its signature"), "{refused:?}");
        // Nor does a proof of another position help.
        let seq = after["proof"]["index"].as_u64().unwrap();
        let mut moved = after["proof"].clone();
        moved["index"] = json!(seq - 1);
        let refused = verified(&moved, &starting("receipt", seq), &[]).exits(1);
        assert!(refused.stderr.contains("does not hold at its leaf"), "{refused:?}");
    }
}

#[test]
fn the_receipt_of_a_batch_is_listed_and_tells_all_of_it() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let write = |path: &str| json!({ "action": "files.write_text", "params": { "path": path, "text": "x" } });
    let failing = json!({ "action": "files.read_text", "params": { "path": "nope.txt" } });
    let parts = json!([write("a.txt"), failing, write("b.txt")]).to_string();
    let batch = owner.run_with_stdin(&["batch", "run", "-", "--json"], &parts).exits(1).json();
    let (id, receipt) = (batch["id"].as_str().unwrap(), batch["receipt"]["id"].as_str().unwrap());

    let listed = owner.run(&["receipt", "list"]).ok().stdout;
    let row: Vec<_> = listed.lines().next().unwrap().split('\t').collect();
    assert_eq!((row[0], row[2], row[3]), (receipt, "reverted", "batch of 3"), "{listed}");
    let session = batch["session_id"].as_str().unwrap();
    assert!(owner.run(&["receipt", "list", "--session", session]).ok().stdout.contains(receipt));
    assert!(owner.run(&["receipt", "list", "--user", "owner"]).ok().stdout.contains(receipt));
    assert!(!owner.run(&["receipt", "list", "--action", "files.write_text"]).ok().stdout.contains(receipt), "a batch is of no one action");

    let shown = owner.run(&["receipt", "show", id]).ok().stdout;
    assert_eq!(owner.run(&["receipt", "show", receipt]).ok().stdout, shown);
    // A receipt by its id and its number.
    let numbered = |receipt: &Value| {
        let id = receipt.as_str().unwrap();
        format!("{id} (#{})", owner.run(&["receipt", "show", id, "--json"]).ok().json()["seq"])
    };
    let parts = &batch["parts"];
    for row in [
        "status\treverted".to_owned(),
        format!("batch\t{id}"),
        "mode\tall_or_nothing".to_owned(),
        format!("who\t{}", batch["principal"].as_str().unwrap()),
        format!("session\t{session}"),
        format!(
            "part\t1 files.write_text: succeeded, reverted, {}, reverted by {}",
            numbered(&parts[0]["receipt_id"]),
            numbered(&parts[0]["revert"]["receipt_id"])
        ),
        format!("part\t2 files.read_text: failed, file_not_found, nothing changed, {}", numbered(&parts[1]["receipt_id"])),
        "part\t3 files.write_text: not_started, nothing changed".to_owned(),
    ] {
        assert!(shown.lines().any(|line| line == row), "`{row}` is missing:\n{shown}");
    }
    owner.run(&["receipt", "prove", id]).ok();
    let waiting = owner
        .run_with_stdin(&["batch", "run", "-", "--no-wait"], &json!([{ "action": "files.delete", "params": { "path": "c" } }]).to_string());
    let none = owner.run(&["receipt", "show", waiting.stdout.trim()]).exits(6);
    assert!(none.stderr.contains("has no receipt yet") && none.stderr.contains("countersign batch show bat_"), "{none:?}");
}

#[test]
fn a_list_that_a_filter_left_empty_does_not_say_that_there_is_nothing() {
    let server = Server::start();
    let owner = server.owner();
    assert!(owner.run(&["receipt", "list"]).ok().stderr.contains("no receipts yet"));
    owner.run(&["action", "invoke", "files.list"]).ok();
    for noun in ["receipt", "invocation"] {
        let ran = owner.run(&[noun, "list", "--action", "files.lst"]).ok();
        assert!(ran.stdout.is_empty() && ran.stderr.contains(&format!("no {noun} matches: countersign action list shows")), "{ran:?}");
        let ran = owner.run(&[noun, "list", "--action", "files.*"]).exits(2);
        assert!(ran.stderr.contains("an action is named by its whole id, such as files.write_text"), "{ran:?}");
    }
    let ran = owner.run(&["invocation", "list", "--status", "failed"]).ok();
    assert!(ran.stderr.contains("no invocation matches"), "{ran:?}");
}

#[test]
fn what_is_no_export_no_key_and_no_checkpoint_is_said_to_be_none() {
    let server = Server::start();
    let owner = server.owner();
    let folder = owner.folder();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["receipt", "export", "all.jsonl"]).ok();
    owner.run(&["receipt", "key", "--out", "own.pem"]).ok();
    std::fs::write(folder.join("README.md"), "# Notes\n\nnothing of a log\n").unwrap();
    std::fs::write(folder.join("none"), "").unwrap();
    std::fs::write(folder.join("bytes"), b"\xff\xfe\x00").unwrap();
    let check = |arguments: &[&str], code: i32, told: &[&str]| {
        let ran = offline(folder).run(&[&["receipt", "verify"], arguments].concat()).exits(code);
        for part in told {
            assert!(ran.stderr.contains(part), "`{part}` is missing: {ran:#?}");
        }
    };
    let export = "hint: countersign receipt export FILE writes one";
    for key in [&[][..], &["--key", "own.pem"]] {
        check(
            &[&["README.md"], key].concat(),
            1,
            &["`README.md` is not an export of receipts", "its first line is not that of one", export],
        );
        check(&[&["none"], key].concat(), 1, &["`none` is not an export of receipts", "it is empty", export]);
        check(&[&["bytes"], key].concat(), 1, &["`bytes` is not an export of receipts", "it is not text", export]);
        check(&[&["missing.jsonl"], key].concat(), 3, &["there is no file `missing.jsonl`", export]);
        check(&[&["data"], key].concat(), 1, &["`data` is a folder", export]);
    }
    let key = "hint: countersign receipt key --out FILE writes it";
    check(
        &["all.jsonl", "--key", "README.md"],
        2,
        &["`README.md` is not a public key", "it does not begin with `-----BEGIN PUBLIC KEY-----`", key],
    );
    check(&["all.jsonl", "--key", "bytes"], 2, &["`bytes` is not a public key", key]);
    check(&["all.jsonl", "--key", "missing.pem"], 3, &["there is no file `missing.pem`", key]);
    let kept = "hint: countersign receipt checkpoint --out FILE writes one";
    check(&["all.jsonl", "--key", "own.pem", "--checkpoint", "README.md"], 2, &["`README.md` is not a checkpoint", kept]);
    check(&["all.jsonl", "--key", "own.pem", "--checkpoint", "missing"], 3, &["there is no file `missing`", kept]);

    // A problem in an export is reported with its place in the file or in the log, and with its meaning.
    let whole = std::fs::read_to_string(folder.join("all.jsonl")).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    let write = |name: &str, lines: &[&str]| std::fs::write(folder.join(name), lines.join("\n") + "\n").unwrap();
    write("broken.jsonl", &[&lines[..2], &["{not json"], &lines[2..]].concat());
    check(
        &["broken.jsonl", "--key", "own.pem"],
        1,
        &[
            "line 3 does not hold: key must be a string at column 2",
            "(`not_canonical`, class 17 of what can be wrong); the one entry before it holds",
        ],
    );
    write("cut.jsonl", &lines[..lines.len() - 1]);
    check(&["cut.jsonl", "--key", "own.pem"], 1, &["the end is missing (`truncated_tail`", "5 entries were read", "receipt export FILE"]);
    std::fs::write(folder.join("half.jsonl"), &whole[..lines[0].len() + lines[1].len() + 20]).unwrap();
    check(
        &["half.jsonl", "--key", "own.pem"],
        1,
        &["the last line breaks off", "the end is missing (`truncated_tail`", "receipt export FILE"],
    );
    let edited = lines[5].replacen("\"sig\":\"", "\"sig\":\"AAAA", 1);
    write("edited.jsonl", &[&lines[..5], &[edited.as_str()], &lines[6..]].concat());
    check(&["edited.jsonl", "--key", "own.pem"], 1, &["(entry #4) does not hold", "hint: "]);
}

/// Runs the verifier that was written from the documentation alone; returns its exit code and what it printed.
#[expect(clippy::disallowed_methods, reason = "a test of a program runs it")]
fn by_example(folder: &Path, file: &str) -> (Option<i32>, String) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/verify.py");
    let ran = std::process::Command::new("python3").arg(program).args([file, "--key", "own.pem"]).current_dir(folder).output().unwrap();
    (ran.status.code(), [ran.stdout, ran.stderr].map(|told| String::from_utf8(told).unwrap()).concat())
}

#[test]
fn the_documented_format_is_enough_for_a_verifier_of_another_make() {
    let server = Server::start();
    let owner = server.owner();
    let made = owner.run(&["user", "create", "robin", "--role", "approver", "--json"]).ok().json();
    let robin = owner.invited(&made["invitation"]);
    owner.run(&["space", "quorum", "main", "R2=2"]).ok();
    let pending = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6).stdout;
    owner.run(&["approve", pending.trim()]).exits(6);
    robin.run(&["approve", pending.trim()]).ok();
    let denied = owner.run(&["action", "invoke", "files.write_text", "path=c", "text=d", "--no-wait"]).exits(6).stdout;
    robin.run(&["deny", denied.trim(), "--reason", "no"]).ok();
    owner.run(&["key", "rotate", "--yes"]).ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["receipt", "key", "--out", "own.pem"]).ok();
    owner.run(&["receipt", "export", "all.jsonl"]).ok();
    let folder = owner.folder();
    let (code, told) = by_example(folder, "all.jsonl");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.starts_with("verified: "), "{told}");

    // Every line that is dropped, doubled or damaged is noticed, by both verifiers.
    let whole = std::fs::read_to_string(folder.join("all.jsonl")).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    let user = offline(folder);
    for place in (0..lines.len()).step_by(7).chain([lines.len() - 1]) {
        let damaged = lines[place].replacen("\":\"", "\":\"0", 1);
        for instead in [vec![], vec![damaged.as_str()], vec![lines[place], lines[place]]] {
            let spoiled = [&lines[..place], &instead, &lines[place + 1..]].concat().join("\n") + "\n";
            std::fs::write(folder.join("spoiled.jsonl"), spoiled).unwrap();
            let (code, told) = by_example(folder, "spoiled.jsonl");
            assert_eq!(code, Some(1), "line {place}: {told}");
            user.run(&["receipt", "verify", "spoiled.jsonl", "--key", "own.pem"]).exits(1);
        }
    }
}

#[test]
fn receipts_are_filtered_an_action_is_summed_up_and_an_org_says_what_it_keeps() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let found = |filter: &[&str]| {
        let listed = owner.run(&[&["receipt", "list", "--json"], filter].concat()).ok().json();
        listed["items"].as_array().unwrap().clone()
    };
    let all = found(&[]);
    assert_eq!(all.len(), 1);
    let trace = all[0]["payload"]["body"]["trace_id"].as_str().unwrap();
    for (filter, expected) in [
        (&["--status", "succeeded"][..], 1),
        (&["--status", "denied"], 0),
        (&["--space", "main"], 1),
        (&["--since", "1h"], 1),
        (&["--until", "1h"], 0),
        (&["--idempotency-key", "none"], 0),
        (&["--trace-id", trace], 1),
        (&["--subject", "agent://planner"], 0),
        (&["--action-id", "act-7"], 0),
        (&["--action", "files.list", "--status", "succeeded", "--since", "2020-01-01T00:00:00Z"], 1),
    ] {
        assert_eq!(found(filter).len(), expected, "{filter:?}");
    }
    let stats = owner.run(&["action", "stats", "files.list", "--json=executed,success_rate"]).ok().json();
    assert_eq!(stats, json!({ "executed": 1, "success_rate": 1.0 }));
    assert!(owner.run(&["action", "stats", "files.list", "--since", "7d"]).ok().stdout.contains("calls\t1 succeeded\n"));

    assert!(owner.run(&["org", "retention"]).ok().stdout.contains("calls\tfor ever\nevents\t7 days\n"));
    let set = owner.run(&["org", "retention", "--receipts-days", "180", "--events-days", "30", "--json"]).ok().json();
    assert_eq!(set, json!({ "receipts_days": 180, "events_days": 30 }));
    let set = owner.run(&["org", "retention", "--events-days", "default", "--json"]).ok().json();
    assert_eq!(set, json!({ "receipts_days": 180 }), "what is not named stays as it is");
    owner.run(&["org", "retention", "--events-days", "few"]).exits(2);
    owner.run(&["org", "retention", "--events-days", "1"]).exits(8);
    assert_eq!(owner.run(&["space", "keep", "main", "digests", "--json=keeps"]).ok().json(), json!({ "keeps": "digests" }));
    assert!(owner.run(&["space", "show", "main"]).ok().stdout.contains("keeps\tdigests\n"));
    owner.run(&["receipt", "verify"]).ok();
}
