//! The examples of the older contracts, word for word (`tests/seed`), with the real `files` if they name it.

use crate::compat::{EXECUTE, PLANS, SHA256_HELLO, is_checked, keys};
use crate::harness::{Agent, Kind, TestServer, on_both_engines};
use countersign_core::Tier;
use countersign_core::action::{Effect, Reversibility};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::FakeSource;

on_both_engines!(
    the_requests_of_the_contract_are_performed_as_they_stand,
    an_action_of_the_contract_is_told_its_space,
    an_action_of_the_contract_answers_with_its_receipt,
    the_plan_of_the_contract_is_answered_with_its_result,
    the_builtin_action_is_the_one_of_the_contract,
);

const TOOL_SPEC: &str = include_str!("../seed/tool-spec.json");
const ENVELOPE: &str = include_str!("../seed/action-request.json");
const RECEIPT: &str = include_str!("../seed/receipt.json");
const QUICKSTART: &str = include_str!("../seed/quickstart.json");
const PLAN: &str = include_str!("../seed/plan.json");
const RESULT: &str = include_str!("../seed/result.json");

/// The fields of a `ToolSpec`, each with its name in the view of an action.
const SPECIFIED: [(&str, &str); 9] = [
    ("id", "tool_id"),
    ("version", "version"),
    ("requires", "caps_required"),
    ("params_schema", "params_schema"),
    ("result_schema", "result_schema"),
    ("effects", "side_effects"),
    ("safety_class", "safety_class"),
    ("timeout_ms", "timeout_ms"),
    ("idempotency_key_fields", "idempotency_key_fields"),
];

/// SHA-256 of each example as the contracts have it, so that nobody changes one to make a test pass.
const EXAMPLES: [(&str, &str); 7] = [
    ("action-request.json", "3fbc593a4530659f0c88783ace15aef9d9e9bc1122e9ead9fe890eda013c0ad8"),
    ("action.json", "a4c226ed7f7694ae47ddfb61f66a5e27a7f01fc37afdf830bf5826c9282bc302"),
    ("plan.json", "251169d8427dd706c6f8d63eaea11c5ac6b7556839d17673595f114e7711c167"),
    ("quickstart.json", "77ebaeeb3b7a4714cc2a3b1da925c4cd6c7b39c9cf0cbaa1e7908d0d3f7fe89a"),
    ("receipt.json", "76fe294190349224753464ec30cc5b8a77d4fee5a0737fd51cc0395087f9d14a"),
    ("result.json", "7ad002b4c87d05cb1ac2b02901b4dc5501219c9389b29e7337213c02f9b07824"),
    ("tool-spec.json", "be09a7969fff740d800f49ec648873fa34de14e29492519213b7465c1352ed80"),
];

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

async fn in_the_household(server: &TestServer) -> (String, Agent) {
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "shared:household" })).await.ok();
    (space["id"].as_str().unwrap().to_owned(), server.owner.new_session(json!({ "space": "shared:household" })).await)
}

async fn the_requests_of_the_contract_are_performed_as_they_stand(kind: Kind) {
    for example in [read(ENVELOPE), read(QUICKSTART)] {
        let server = TestServer::start_with_files(kind).await;
        let (_, agent) = in_the_household(&server).await;
        server.owner.set_mode("files.write_text", "allow").await;
        let receipt = agent.client.post(EXECUTE, example.clone()).await.ok();
        assert_eq!((&receipt["status"], &receipt["error"]), (&json!("ok"), &Value::Null), "{receipt:#}");
        for field in ["action_id", "subject_id", "space_id", "tool_id", "idempotency_key", "trace_id"] {
            assert_eq!(receipt[field], example[field], "{field}");
        }
        assert_eq!(receipt["policy"]["space"], "ok");
        assert_eq!(receipt["outputs"]["bytes_written"], 5);
        let written = server.home.workspace().join("workspace/notes/w36.txt");
        assert_eq!(std::fs::read_to_string(&written).unwrap(), "hello");
        // The same request again gives the same answer: the space it repeats in its params does not make it another call.
        let again = agent.client.post(EXECUTE, example).await.ok();
        assert_eq!((&again["receipt_id"], &again["replayed"]), (&receipt["receipt_id"], &json!(true)));
        server.verify().await;
    }
}

async fn an_action_of_the_contract_is_told_its_space(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("write", |action| action.params_schema = read(TOOL_SPEC)["params_schema"].clone());
    server.owner.set_mode("fake.write", "allow").await;
    let (space, agent) = in_the_household(&server).await;
    let mut request = read(ENVELOPE);
    request["tool_id"] = json!("fake.write");
    let receipt = agent.client.post(EXECUTE, request.clone()).await.ok();
    assert_eq!((&receipt["status"], &receipt["space_id"]), (&json!("ok"), &json!("shared:household")), "{receipt:#}");
    assert_eq!(server.source.calls()[0].params["space_id"], json!(space));
    // If an action has a param `space_id`, the gates decide about another space, by id or by name.
    let main = server.main_space().await;
    for other in [json!("main"), json!(main), json!("nowhere")] {
        request["params"]["space_id"] = other.clone();
        request["idempotency_key"] = Value::Null;
        let denied = agent.client.post(EXECUTE, request.clone()).await.ok();
        assert_eq!(denied["status"], "error", "{other}");
        // The agent is not told which gate it was; people are.
        let listed = server.owner.get("/api/v1/invocations?limit=1").await.ok();
        let gates = listed["items"][0]["gates"].as_array().unwrap().clone();
        assert!(gates.iter().any(|gate| gate["gate"] == "space" && gate["verdict"] == "deny"), "{other}: {listed:#}");
    }
    let crossing = json!({ "action": "fake.write", "from_space_id": space, "to_space_id": main });
    assert_eq!(server.owner.post("/api/v1/crossings", crossing).await.status, 204);
    request["params"]["space_id"] = json!("main");
    assert_eq!(agent.client.post(EXECUTE, request).await.ok()["status"], "ok");
    assert_eq!((server.source.effects(), &server.source.calls()[1].params["space_id"]), (2, &json!(main)));
    server.verify().await;
}

/// Checks that the answer has every member of the example, each with a value of its kind. What is null, in either, has no kind.
fn check_shape(example: &Value, answer: &Value, at: &str) {
    match (example, answer) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(members), Value::Object(_)) => {
            for (name, example) in members {
                let at = format!("{at}/{name}");
                check_shape(example, answer.get(name).unwrap_or_else(|| panic!("`{at}` is missing in {answer}")), &at);
            }
        }
        (Value::Bool(_), Value::Bool(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::String(_), Value::String(_))
        | (Value::Array(_), Value::Array(_)) => {}
        (example, answer) => panic!("`{at}` is {answer}, and the example has {example}"),
    }
}

/// The action of the example, offered by a source that answers what the example's receipt says.
fn specified(spec: &Value) -> FakeSource {
    let texts =
        |field: &str| -> Vec<String> { spec[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect() };
    let (source, name) = spec["tool_id"].as_str().unwrap().split_once('.').unwrap();
    let offered = FakeSource::new(source).offering(name, |action| {
        is_checked(action);
        action.tier = Tier::R2;
        action.reversibility = Reversibility::Reversible;
        action.version = spec["version"].as_str().unwrap().to_owned();
        action.requires = texts("caps_required");
        action.params_schema = spec["params_schema"].clone();
        action.result_schema = spec["result_schema"].clone();
        action.effects = Effect::ALL.into_iter().filter(|effect| texts("side_effects").contains(&effect.to_string())).collect();
        action.timeout_ms = spec["timeout_ms"].as_u64().unwrap();
        action.idempotency_key_fields = texts("idempotency_key_fields");
    });
    offered.will_answer(read(RECEIPT)["outputs"].clone());
    offered
}

async fn an_action_of_the_contract_answers_with_its_receipt(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (spec, request, example) = (read(TOOL_SPEC), read(ENVELOPE), read(RECEIPT));
    let source = specified(&spec);
    server.registry.add(&server.org, source.clone());
    server.owner.set_mode("files.write_text", "allow").await;
    let (_, agent) = in_the_household(&server).await;
    let view = server.owner.get("/api/v1/actions/files.write_text").await.ok();
    let ours = SPECIFIED.map(|(ours, _)| view[ours].clone());
    let theirs = SPECIFIED.map(|(_, theirs)| spec[theirs].clone());
    assert_eq!(ours, theirs);
    assert_eq!(keys(&spec).len(), SPECIFIED.len() + 1, "all but the profile");
    // A profile is of code that a package brings; this source is one of the server's own.
    assert_eq!((&view["profile"], &spec["sandbox_profile"]), (&json!("in_process"), &json!("default")));
    // Whoever lacks a capability that the action requires is denied, and has a receipt.
    let denied = agent.client.post(EXECUTE, request.clone()).await.ok();
    assert_eq!((&denied["status"], source.calls().len()), (&json!("error"), 0), "{denied:#}");
    assert!(denied["receipt_id"].is_string(), "{denied:#}");
    let permit = r#"@id("rbac.household") permit (principal is Countersign::Agent, action in Countersign::Action::"class:write", resource)
        when { ["files.write", "workspace:shared:write"].containsAll(context.requires) };"#;
    server.owner.set_policies(json!({ "rbac": permit })).await.ok();
    let receipt = agent.client.post(EXECUTE, request.clone()).await.ok();
    check_shape(&example, &receipt, "");
    assert_eq!((&receipt["status"], &receipt["error"]), (&json!("ok"), &Value::Null), "{receipt:#}");
    assert!(example["status"].as_str().unwrap().split('|').eq(["ok", "error", "skipped", "quarantined"]));
    for field in ["action_id", "tool_id", "space_id", "subject_id", "outputs", "trace_id"] {
        assert_eq!(receipt[field], example[field], "{field}");
    }
    assert_eq!(receipt["idempotency_key"], request["idempotency_key"]);
    assert_eq!(receipt["inputs"], json!({ "path": example["inputs"]["path"], "sha256_text": SHA256_HELLO }));
    assert_eq!(keys(&receipt["inputs"]), keys(&example["inputs"]));
    assert_eq!(keys(&receipt["policy"]), keys(&example["policy"]));
    assert!(receipt["policy"].as_object().unwrap().values().all(|verdict| [json!("ok"), json!("n/a")].contains(verdict)), "{receipt:#}");
    server.verify().await;
}

async fn the_plan_of_the_contract_is_answered_with_its_result(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (plan, example) = (read(PLAN), read(RESULT));
    // Nothing checks it but the schema of its result.
    let source = FakeSource::new("kit").offering(plan["actionType"].as_str().unwrap(), |action| action.tier = Tier::R1);
    source.will_answer(example["output"].clone());
    server.registry.add(&server.org, source);
    server.owner.set_mode("kit.diagnose_error", "allow").await;
    let agent = server.agent().await;
    let result = agent.client.post(PLANS, plan.clone()).await.ok();
    check_shape(&example, &result, "");
    for field in ["status", "actionType", "riskTier", "output", "repair", "rollback"] {
        assert_eq!(result[field], example[field], "{field}: {result:#}");
    }
    assert_eq!((&result["verification"]["ok"], &result["actionId"]), (&example["verification"]["ok"], &plan["actionId"]));
    let path = format!("{PLANS}/{}", result["feedback"]["invocationId"].as_str().unwrap());
    assert_eq!(agent.client.get(&path).await.ok(), result);
    assert_eq!(result["verification"]["checks"], json!([{ "name": "result_schema", "ok": true }]), "what was checked is named");
    server.verify().await;
}

async fn the_builtin_action_is_the_one_of_the_contract(kind: Kind) {
    let server = TestServer::start_with_files(kind).await;
    let spec = read(TOOL_SPEC);
    let view = server.owner.get("/api/v1/actions/files.write_text").await.ok();
    for (ours, theirs) in SPECIFIED {
        match ours {
            // The builtin action has schemas of its own, which ask for less and say more, and the version of the builtin actions. Sharing is
            // up to the space, so it requires one permission less.
            "params_schema" | "result_schema" | "version" => {}
            "requires" => assert_eq!(view[ours], json!([spec[theirs][0]])),
            same => assert_eq!(view[same], spec[theirs], "{theirs}"),
        }
    }
    assert_eq!((&view["profile"], &spec["sandbox_profile"]), (&json!("in_process"), &json!("default")));
    // The space is the session's, so the action itself does not ask for it.
    for (schema, fields) in [("params_schema", &["path", "text"]), ("result_schema", &["bytes_written", "sha256_text"])] {
        for field in fields {
            assert_eq!(view[schema]["properties"][field]["type"], spec[schema]["properties"][field]["type"], "{schema} {field}");
        }
    }
}

#[test]
fn every_example_stands_beside_its_line() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seed");
    let listed = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".json")).collect();
    names.sort();
    assert_eq!(names, EXAMPLES.map(|(name, _)| name));
    for (name, sha256) in EXAMPLES {
        let row = listed.lines().find(|line| line.starts_with(&format!("| `{name}` | ")));
        assert!(row.is_some_and(|row| row.contains('–')), "{name} is not listed with its lines");
        let digest = hex::encode(Sha256::digest(std::fs::read(folder.join(name)).unwrap()));
        assert_eq!(digest, sha256, "{name} is no longer the example of the contract");
    }
}
