//! What operators allow the sources of every org, while the servers run.

use crate::harness::{Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use crate::upstream::Upstream;
use reqwest::Method;
use serde_json::{Value, json};

on_both_engines!(what_an_operator_allows_counts_at_once_and_is_signed);

on_sqlite!(
    only_operators_see_and_change_it,
    what_the_settings_fix_is_changed_there_alone,
    what_cannot_be_allowed_is_refused,
    a_command_is_kept_whole_and_changed_as_a_whole,
    an_operators_part_of_a_source_is_there_with_it_or_not_at_all,
);

on_postgres!(two_servers_on_one_database_follow_each_change);

const HOSTS: &str = "/api/v1/allowed/hosts";
const NETWORKS: &str = "/api/v1/allowed/networks";
const COMMANDS: &str = "/api/v1/allowed/commands";

async fn entries(by: &Client, list: &str) -> Vec<String> {
    let listed = by.get(list).await.ok();
    listed["items"].as_array().unwrap().iter().map(|entry| entry["entry"].as_str().unwrap().to_owned()).collect()
}

/// The path of an entry, which may hold slashes.
fn at(list: &str, entry: &str) -> String {
    format!("{list}/{}", entry.replace('%', "%25").replace('/', "%2F").replace(':', "%3A"))
}

fn kit(upstream: &Upstream) -> Value {
    json!({ "name": "kit", "url": upstream.mcp(), "trust_hints": true })
}

async fn what_an_operator_allows_counts_at_once_and_is_signed(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    owner.post("/api/v1/sources", kit(&upstream)).await.problem(403, "host_not_allowed");
    let allowed = owner.post(HOSTS, json!({ "entry": upstream.url })).await.ok();
    assert_eq!(
        (&allowed["entry"], &allowed["fixed"], &allowed["list"]),
        (&json!(upstream.url), &json!(false), &json!("hosts")),
        "{allowed}"
    );
    // The same once more changes nothing.
    assert_eq!(owner.post(HOSTS, json!({ "entry": upstream.url })).await.ok()["version"], allowed["version"]);
    let added = owner.post("/api/v1/sources", kit(&upstream)).await;
    assert_eq!(added.status, 201, "{added:?}");
    // Connections follow the same list.
    let connection = json!({ "name": "kit", "kind": "bearer", "url": upstream.mcp(), "value": "canary-1" });
    assert_eq!(owner.post("/api/v1/connections", connection.clone()).await.status, 201);
    let agent = server.agent().await;
    agent.invoke("kit.look", json!({ "text": "x" })).await.ok();

    owner.send(Method::DELETE, &at(HOSTS, &upstream.url), None).await.ok();
    let refused = agent.invoke("kit.look", json!({ "text": "x" })).await;
    assert_ne!(refused.status, 200, "{refused:?}");
    assert_eq!(upstream.called(), ["look"], "what is not allowed any more is not asked");
    let again = json!({ "name": "other", "kind": "bearer", "url": upstream.mcp(), "value": "canary-1" });
    owner.post("/api/v1/connections", again).await.problem(403, "host_not_allowed");
    owner.send(Method::DELETE, &at(HOSTS, &upstream.url), None).await.problem(404, "not_found");
    owner.post(HOSTS, json!({ "entry": upstream.url })).await.ok();
    agent.invoke("kit.look", json!({ "text": "x" })).await.ok();

    owner.post(NETWORKS, json!({ "entry": "10.1.2.3/16" })).await.ok();
    assert_eq!(entries(owner, NETWORKS).await, ["127.0.0.1/32", "10.1.0.0/16"]);
    owner.send(Method::DELETE, &at(NETWORKS, "10.1.0.0/16"), None).await.ok();
    assert_eq!(entries(owner, NETWORKS).await, ["127.0.0.1/32"]);
    let rules: Vec<_> = server.rules().await.into_iter().filter(|rule| rule["list"].is_string()).collect();
    let told: Vec<_> = rules.iter().map(|rule| [rule["rule"].as_str().unwrap(), rule["list"].as_str().unwrap()]).collect();
    let (set, removed) = ("allowed_set", "allowed_removed");
    assert_eq!(told, [[set, "hosts"], [removed, "hosts"], [set, "hosts"], [set, "networks"], [removed, "networks"]]);
    assert_eq!(rules[0]["entry"], json!(upstream.url));
    assert_eq!(owner.get("/api/v1/receipts/integrity").await.ok()["differences"], json!([]));
    server.verify().await;
}

async fn only_operators_see_and_change_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let org = owner.post("/api/v1/orgs", json!({ "name": "others" })).await;
    assert_eq!(org.status, 201, "{org:?}");
    let redeemed = owner.post("/api/v1/invitations/redeem", json!({ "invitation": org.body["invitation"]["invitation"] })).await.ok();
    let others_owner = owner.with_token(redeemed["token"].as_str().unwrap());
    let agent = server.agent().await.client;
    for by in [&others_owner, &owner.person("ada", "admin").await, &owner.person("robin", "member").await, &agent] {
        for list in [HOSTS, NETWORKS, COMMANDS] {
            by.get(list).await.problem(403, "forbidden");
        }
        by.post(HOSTS, json!({ "entry": "mcp.example.com" })).await.problem(403, "forbidden");
        by.send(Method::DELETE, &at(HOSTS, "mcp.example.com"), None).await.problem(403, "forbidden");
        let refused = by.post(&format!("{COMMANDS}/plan"), json!({ "command": ["node"] })).await;
        refused.problem(403, "forbidden");
        assert!(refused.body["detail"].as_str().unwrap().contains("an owner of the first org"), "{refused:?}");
    }
    // Nor do they allow a program with a source of theirs.
    let with = json!({ "name": "kit", "command": ["node", "x.js"], "allow": { "command": ["node", "x.js"] } });
    for by in [&others_owner, &owner.person("sam", "admin").await] {
        by.post("/api/v1/sources", with.clone()).await.problem(403, "forbidden");
    }
    assert_eq!(entries(owner, HOSTS).await, Vec::<String>::new());
    assert_eq!(entries(owner, COMMANDS).await.len(), 1, "only the fixed one");
    owner.get("/api/v1/allowed/anything").await.problem(404, "not_found");
}

async fn what_the_settings_fix_is_changed_there_alone(kind: Kind) {
    let server = TestServer::start_reaching(kind, &["https://fixed.example.com"]).await;
    let owner = &server.owner;
    let fixed = owner.get(HOSTS).await.ok()["items"][0].clone();
    assert_eq!((&fixed["entry"], &fixed["fixed"], &fixed["set_by"]), (&json!("fixed.example.com"), &json!(true), &Value::Null));
    let again = owner.post(HOSTS, json!({ "entry": "https://FIXED.example.com:443" })).await.ok();
    assert_eq!((&again["fixed"], &again["version"]), (&json!(true), &Value::Null), "it is allowed already");
    let command = owner.get(COMMANDS).await.ok()["items"][0].clone();
    assert_eq!((&command["command"]["command"], &command["fixed"]), (&json!(["node", "fixed.js"]), &json!(true)));
    for (list, entry) in [(HOSTS, "fixed.example.com"), (NETWORKS, "127.0.0.1/32"), (COMMANDS, command["entry"].as_str().unwrap())] {
        let refused = owner.send(Method::DELETE, &at(list, entry), None).await;
        refused.problem(400, "invalid_request");
        assert!(refused.body["detail"].as_str().unwrap().contains("in the settings of the server"), "{refused:?}");
    }
    let otherwise = json!({ "command": { "command": ["node", "fixed.js"], "hosts": ["api.example.com"] } });
    owner.post(COMMANDS, otherwise).await.problem(400, "invalid_request");
    assert!(server.rules().await.iter().all(|rule| !rule["list"].is_string()), "nothing was written");
}

async fn what_cannot_be_allowed_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    for (list, body, said) in [
        (HOSTS, json!({}), "give `entry`"),
        (HOSTS, json!({ "entry": "*" }), "is not a host rule"),
        (HOSTS, json!({ "entry": "ftp://example.com" }), "is not a host rule"),
        (HOSTS, json!({ "entry": "a.example.com", "command": { "command": ["node"] } }), "give `entry`"),
        (NETWORKS, json!({ "entry": "127.0.0.1" }), "write `127.0.0.1/32`"),
        (NETWORKS, json!({ "entry": "example.com" }), "is not a network"),
        (COMMANDS, json!({ "entry": "node" }), "give `command`"),
        (COMMANDS, json!({ "command": { "command": [] } }), "names no program"),
        (COMMANDS, json!({ "command": { "command": ["bin/serve"] } }), "neither the name"),
        (COMMANDS, json!({ "command": { "command": ["node"], "hosts": ["*"] } }), "is not a host rule"),
        (COMMANDS, json!({ "command": { "command": ["node"], "readable": ["opt"] } }), "in `readable`"),
        (COMMANDS, json!({ "command": { "command": ["node"], "env": ["LD_PRELOAD"] } }), "in `env`"),
        (COMMANDS, json!({ "command": { "command": ["node"], "memory_mb": 1 } }), "`memory_mb` must be"),
        (COMMANDS, json!({ "command": { "command": ["x".repeat(100_000)] } }), "is longer than"),
    ] {
        let refused = owner.post(list, body.clone()).await;
        refused.problem(400, "invalid_request");
        assert!(refused.body["detail"].as_str().unwrap().contains(said), "{body}: {refused:?}");
    }
    owner.send(Method::DELETE, &at(HOSTS, "nobody.example.com"), None).await.problem(404, "not_found");
    assert!(server.rules().await.iter().all(|rule| !rule["list"].is_string()), "nothing was written");
}

async fn a_command_is_kept_whole_and_changed_as_a_whole(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let terms = json!({ "command": ["node", "/opt/kit/x.js"], "readable": ["/opt/kit"], "env": ["TOKEN"], "hosts": ["https://A.example.com"],
        "memory_mb": 64 });
    let first = owner.post(COMMANDS, json!({ "command": terms })).await.ok();
    let kept = &first["command"];
    assert_eq!((&kept["hosts"], &kept["memory_mb"], &kept["env"]), (&json!(["a.example.com"]), &json!(64), &json!(["TOKEN"])), "{first}");
    let second = owner.post(COMMANDS, json!({ "command": { "command": ["node", "/opt/kit/x.js"] } })).await.ok();
    assert_eq!((&second["entry"], &second["command"]["hosts"]), (&first["entry"], &Value::Null), "{second}");
    assert!(second["version"].as_i64() > first["version"].as_i64());
    assert_eq!(entries(owner, COMMANDS).await.len(), 2);
    // The words stay out of the log: its digest names what is archived.
    let log = server.rules().await.into_iter().filter(|rule| rule["list"] == "commands").collect::<Vec<_>>();
    assert_eq!((log.len(), log[0]["terms"].as_str().map(str::len)), (2, Some(64)));
    assert!(!format!("{log:?}").contains("x.js"), "{log:?}");
    owner.send(Method::DELETE, &at(COMMANDS, first["entry"].as_str().unwrap()), None).await.ok();
    assert_eq!(entries(owner, COMMANDS).await.len(), 1);
    assert_eq!(owner.get("/api/v1/receipts/integrity").await.ok()["differences"], json!([]));
    server.verify().await;
    // Whoever reaches past the log is found.
    if matches!(kind, Kind::Postgres) {
        return;
    }
    owner.post(COMMANDS, json!({ "command": { "command": ["node", "y.js"] } })).await.ok();
    server.home.tamper("UPDATE allowed SET terms = replace(terms, 'y.js', 'z.js')");
    let differences = owner.get("/api/v1/receipts/integrity").await.ok()["differences"].to_string();
    assert!(differences.contains("allowed entry"), "{differences}");
}

async fn an_operators_part_of_a_source_is_there_with_it_or_not_at_all(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    // No program runs here, so the source cannot be asked for its actions.
    let with = |allow: Value| json!({ "name": "kit", "command": ["node", "x.js"], "allow": allow });
    let refused = owner.post("/api/v1/sources", with(json!({ "command": ["node", "x.js"] }))).await;
    assert!(refused.status >= 400, "{refused:?}");
    for (allow, said) in [
        (json!({ "command": ["node", "y.js"] }), "another `command`"),
        (json!({ "command": ["node", "x.js"], "memory_mb": 1 }), "`memory_mb` must be"),
    ] {
        let refused = owner.post("/api/v1/sources", with(allow)).await;
        refused.problem(400, "invalid_request");
        assert!(refused.body["detail"].as_str().unwrap().contains(said), "{refused:?}");
    }
    let fixed = json!({ "name": "kit", "command": ["node", "fixed.js"], "allow": { "command": [], "workspace": true } });
    owner.post("/api/v1/sources", fixed).await.problem(400, "invalid_request");
    assert_eq!(entries(owner, COMMANDS).await.len(), 1, "only the fixed one");
    assert_eq!(owner.get("/api/v1/sources").await.ok()["items"], json!([]));
    assert!(server.rules().await.iter().all(|rule| !rule["list"].is_string()), "nothing was written");
}

async fn two_servers_on_one_database_follow_each_change(kind: Kind) {
    let upstream = Upstream::start().await;
    let one = TestServer::start(kind).await;
    let other = one.restart().await;
    other.owner.post("/api/v1/sources", kit(&upstream)).await.problem(403, "host_not_allowed");
    one.owner.post(HOSTS, json!({ "entry": upstream.url })).await.ok();
    let listed = || async { entries(&other.owner, HOSTS).await };
    let mut seen = listed().await;
    while seen.is_empty() {
        seen = listed().await;
    }
    assert_eq!(seen, std::slice::from_ref(&upstream.url));
    let added = other.owner.post("/api/v1/sources", kit(&upstream)).await;
    assert_eq!(added.status, 201, "{added:?}");
    one.agent().await.invoke("kit.look", json!({ "text": "x" })).await.ok();
    let agent = other.agent().await;
    agent.invoke("kit.look", json!({ "text": "x" })).await.ok();
    one.owner.send(Method::DELETE, &at(HOSTS, &upstream.url), None).await.ok();
    while !listed().await.is_empty() {}
    let refused = agent.invoke("kit.look", json!({ "text": "x" })).await;
    assert_ne!(refused.status, 200, "{refused:?}");
    assert_eq!(upstream.called().len(), 2);
    one.verify().await;
}
