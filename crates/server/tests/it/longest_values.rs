//! The longest value of every field costs the processor little, and whatever costs it more is done where nobody else waits. It is counted in
//! processor time, which a busy machine does not change.

use crate::harness::{Client, Kind, TestServer, on_both_engines};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::time::Duration;

on_both_engines!(the_longest_value_of_every_field_costs_little, a_name_that_does_not_exist_costs_little_however_long_it_is,);

const GOLDEN: &str = include_str!("../golden/openapi.json");

/// Bytes of the longest text in a body, and in an address: what the door lets through.
const IN_BODY: usize = 900_000;
const IN_ADDRESS: usize = 20_000;

/// What one request may cost the threads that serve, and all threads together, in a build without optimisation, with the client that sends it. What
/// this test is about cost from 5 to 40 seconds.
const SERVING_MAX: Duration = Duration::from_millis(500);
const ALL_MAX: Duration = Duration::from_millis(2_500);

/// Processor time of this process: of the threads that serve, and of all.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    serving: Duration,
    all: Duration,
}

impl Cpu {
    pub(crate) fn now() -> Self {
        let (mut serving, mut all) = (Duration::ZERO, Duration::ZERO);
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let folder = task.unwrap().path();
            // A thread may end meanwhile.
            let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            let nanos = read("schedstat").split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default();
            all += Duration::from_nanos(nanos);
            if read("comm").trim() != durable::heavy::THREAD_NAME {
                serving += Duration::from_nanos(nanos);
            }
        }
        Self { serving, all }
    }

    pub(crate) fn since(self) -> Self {
        let now = Self::now();
        Self { serving: now.serving.saturating_sub(self.serving), all: now.all.saturating_sub(self.all) }
    }

    pub(crate) fn must_be_little(self, requests: u32, what: &str) {
        let (serving, all) = (self.serving / requests, self.all / requests);
        assert!(serving <= SERVING_MAX && all <= ALL_MAX, "{what}: {serving:?} of the threads that serve, {all:?} of all");
    }
}

/// A request with the longest value in one field.
#[derive(Clone)]
struct Long {
    what: String,
    method: Method,
    path: String,
    header: Option<String>,
    body: Option<Value>,
    is_form: bool,
}

impl Long {
    async fn send(&self, client: &Client) -> u16 {
        let mut request = client.http.request(self.method.clone(), format!("{}{}", client.url, self.path)).bearer_auth(&client.token);
        if let Some(header) = &self.header {
            request = request.header(header, "x".repeat(IN_ADDRESS));
        }
        request = match &self.body {
            Some(body) if self.is_form => {
                let fields = body.as_object().unwrap().iter().map(|(name, value)| (name, value.as_str().unwrap_or_default()));
                let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
                request.header("content-type", "application/x-www-form-urlencoded").body(form)
            }
            Some(body) => request.json(body),
            None => request,
        };
        request.send().await.unwrap().status().as_u16()
    }
}

async fn the_longest_value_of_every_field_costs_little(kind: Kind) {
    let server = TestServer::start(kind).await;
    let requests = requests();
    assert!(requests.len() > 400, "{}", requests.len());
    for long in &requests {
        let before = Cpu::now();
        let status = long.send(&server.owner).await;
        assert!(status != 500, "{}", long.what);
        before.since().must_be_little(1, &long.what);
    }
    for eight in requests.chunks(8) {
        let before = Cpu::now();
        let all = join_all(eight.iter().map(|long| long.send(&server.owner)));
        let (_, beside) = tokio::join!(all, server.owner.get("/healthz"));
        assert_eq!(beside.status, 200);
        before.since().must_be_little(8, &eight[0].what);
    }
    assert_eq!(server.owner.get("/readyz").await.status, 200);
}

/// One request for each field of each operation that takes a text, with the longest one in it and something short in all others that must be there.
fn requests() -> Vec<Long> {
    let described: Value = serde_json::from_str(GOLDEN).unwrap();
    let mut all = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        // These stay open, and take the same texts as the lists of events.
        if path.starts_with("/api/v1/stream") {
            continue;
        }
        for (name, operation) in methods.as_object().unwrap() {
            let method: Method = name.to_uppercase().parse().unwrap();
            let plain = path.replace(['{', '}'], "");
            let parameters: Vec<_> = operation["parameters"].as_array().into_iter().flatten().collect();
            let content = operation["requestBody"]["content"].as_object().into_iter().flatten();
            let bodies: Vec<_> = content.map(|(of, content)| (of.contains("form"), &content["schema"])).collect();
            let short = bodies.first().map(|(_, schema)| sample(&described, schema));
            let is_form = bodies.first().is_some_and(|(is_form, _)| *is_form);
            let long = "x".repeat(IN_ADDRESS);
            for parameter in parameters {
                let field = parameter["name"].as_str().unwrap();
                let (path, header) = match parameter["in"].as_str().unwrap() {
                    "path" => (path.replace(&format!("{{{field}}}"), &long).replace(['{', '}'], ""), None),
                    "query" => (format!("{plain}?{field}={long}"), None),
                    _ => (plain.clone(), Some(field.to_owned())),
                };
                let what = format!("{method} {plain}: {field}");
                all.push(Long { what, method: method.clone(), path, header, body: short.clone(), is_form });
            }
            for (is_form, schema) in bodies {
                let mut places = Vec::new();
                texts(&described, schema, String::new(), 0, &mut places);
                for place in places {
                    let mut body = sample(&described, schema);
                    put(&mut body, &place, json!("x".repeat(IN_BODY)));
                    let what = format!("{method} {plain}: {place} of the body");
                    all.push(Long { what, method: method.clone(), path: plain.clone(), header: None, body: Some(body), is_form });
                }
            }
        }
    }
    all
}

/// What a schema refers to.
fn resolved<'a>(described: &'a Value, schema: &'a Value) -> &'a Value {
    let named = schema["$ref"].as_str().or_else(|| {
        let options = ["oneOf", "anyOf", "allOf"].into_iter().find_map(|way| schema[way].as_array());
        options.into_iter().flatten().find_map(|option| option["$ref"].as_str())
    });
    named.map_or(schema, |named| described.pointer(named.trim_start_matches('#')).unwrap())
}

fn is(schema: &Value, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind))
}

/// The places of all texts: those with a name, and one inside of every value that may be anything.
fn texts(described: &Value, schema: &Value, at: String, depth: usize, places: &mut Vec<String>) {
    let schema = resolved(described, schema);
    if depth > 6 {
        return;
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        texts(described, member, format!("{at}/{name}"), depth + 1, places);
    }
    if schema["items"].is_object() {
        texts(described, &schema["items"], format!("{at}/0"), depth + 1, places);
    }
    if schema["additionalProperties"].is_object() {
        texts(described, &schema["additionalProperties"], format!("{at}/name"), depth + 1, places);
    }
    let is_anything = schema
        .as_object()
        .is_some_and(|schema| !["type", "properties", "oneOf", "anyOf", "allOf"].iter().any(|key| schema.contains_key(*key)));
    if is(schema, "string") || is_anything {
        places.push(at);
    }
}

/// A small value that fits.
fn sample(described: &Value, schema: &Value) -> Value {
    let schema = resolved(described, schema);
    if let Some(first) = schema["enum"].as_array().and_then(|options| options.first()) {
        return first.clone();
    }
    if schema["properties"].is_object() || is(schema, "object") {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        return Value::Object(required.map(|name| (name.to_owned(), sample(described, &schema["properties"][name]))).collect());
    }
    if is(schema, "string") {
        json!("x")
    } else if is(schema, "array") {
        json!([])
    } else if is(schema, "boolean") {
        json!(false)
    } else if is(schema, "integer") || is(schema, "number") {
        json!(1)
    } else {
        json!({})
    }
}

/// Sets a value at a place, and makes what is missing on the way.
fn put(body: &mut Value, place: &str, value: Value) {
    let mut at = body;
    for step in place.split('/').skip(1) {
        at = if step == "0" {
            if !at.is_array() {
                *at = json!([{}]);
            }
            let items = at.as_array_mut().unwrap();
            if items.is_empty() {
                items.push(json!({}));
            }
            &mut items[0]
        } else {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
        };
    }
    *at = value;
}

async fn a_name_that_does_not_exist_costs_little_however_long_it_is(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let step = |action: &str, params: Value| json!({ "step_id": "one", "action": action, "config": params });
    let definition = |steps: Value, triggers: Value, schema: Value| json!({ "definition": { "name": "n", "plan": steps, "triggers": triggers, "inputs": { "schema": schema } } });
    let nothing = || json!({ "type": "object" });
    let cron = |zone: &str| json!([{ "type": "schedule", "config": { "cron": "0 9 * * *", "timezone": zone } }]);
    let inputs: Map<String, Value> = (0..60).map(|at| (format!("{at}{}", "a".repeat(400)), json!({}))).collect();
    let inputs = json!({ "type": "object", "properties": inputs, "additionalProperties": false });
    let mapping: Map<String, Value> = (0..60).map(|at| (format!("{}{at}", "a".repeat(3_000)), json!("$.data"))).collect();
    let mapped = json!([{ "type": "event", "config": { "event_type": "drive.added", "input_mapping": mapping } }]);
    let session = format!("/api/v1/sessions/{}/actions/invoke", agent.session);
    let validate = "/api/v1/automations/validate".to_owned();
    let long = "fake.".to_owned() + &"w".repeat(200_000);
    let requests = [
        (session.clone(), json!({ "action": "fake.".to_owned() + &"w".repeat(15_000), "params": {} })),
        (session, json!({ "action": long, "params": {} })),
        (validate.clone(), definition(json!([step("fake.read", json!({}))]), cron(&"Europe/Pari".repeat(500)), nothing())),
        (validate.clone(), definition(json!([step("fake.read", json!({}))]), mapped, inputs)),
        (validate.clone(), definition(json!([step(&long, json!({}))]), json!([]), nothing())),
        (
            validate,
            definition(
                json!([step("fake.read", json!({ "text": format!("{{{{ inputs.{} }}}}", "a".repeat(7_000)) }))]),
                json!([]),
                nothing(),
            ),
        ),
    ];
    for (path, body) in requests {
        for client in [&agent.client, &server.owner] {
            let before = Cpu::now();
            let answer = client.post(&path, body.clone()).await;
            assert!(answer.status < 500, "{answer:?}");
            before.since().must_be_little(1, &path);
        }
    }
}

/// Nothing that decides about the calls has changed since they were held, so nothing has to be opened to know that they are not void. That is seen
/// by taking away what would be opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_large_pending_calls_opens_none_of_them() {
    let server = TestServer::start(Kind::Sqlite).await;
    server.source.redefine("write", |action| action.params_schema = json!({ "type": "object" }));
    let agent = server.agent().await;
    let text = "a word of many. ".repeat(30_000);
    for _ in 0..8 {
        agent.pending("fake.write", json!({ "text": text })).await;
    }
    let list = "/api/v1/invocations?status=pending";
    let rule = async |action: &str, mode: &str| {
        server.owner.send(Method::PUT, &format!("/api/v1/modes/{action}"), Some(json!({ "mode": mode }))).await.ok();
    };
    let voids = async || -> Vec<Value> {
        let page = server.owner.get(list).await.ok();
        page["items"].as_array().unwrap().iter().map(|item| item["void"]["code"].clone()).collect()
    };
    // A rule changes: each is opened, and what is found out is remembered.
    rule("fake.read", "require_approval").await;
    assert_eq!(voids().await, vec![Value::Null; 8]);
    agent.pending("fake.write", json!({ "text": text })).await;
    server.home.tamper("UPDATE invocations SET sealed_params = NULL");
    let before = Cpu::now();
    assert_eq!(voids().await, vec![Value::Null; 9]);
    before.since().must_be_little(1, list);
    // Another change would have them opened once more.
    rule("fake.read", "allow").await;
    assert_eq!(server.owner.get(list).await.status, 500);
}
