//! The API's description is a promise: a change must be visible in the golden file.

use crate::harness::{Kind, TestServer};

const GOLDEN: &str = include_str!("../golden/openapi.json");

#[test]
fn the_description_is_the_committed_one() {
    let now = server::openapi_json();
    let hint = "look at the difference and, if it is meant, run `cargo run -- openapi > crates/server/tests/golden/openapi.json`";
    assert!(now == GOLDEN, "the API's description changed; {hint}");
}

#[test]
fn every_query_parameter_has_a_description() {
    let described: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
    let operations = described["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values());
    let parameters = operations.flat_map(|operation| operation["parameters"].as_array().into_iter().flatten());
    let without: Vec<_> = parameters.filter(|one| one["in"] == "query" && !one["description"].is_string()).collect();
    assert!(without.is_empty(), "{without:#?}");
}

#[tokio::test]
async fn it_is_served_and_health_needs_no_token() {
    let server = TestServer::start(Kind::Sqlite).await;
    let nobody = server.owner.with_token("");
    let served = nobody.get("/api/v1/openapi.json").await.ok();
    assert_eq!(served, serde_json::from_str::<serde_json::Value>(GOLDEN).unwrap());
    assert_eq!(served["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    assert_eq!(nobody.get("/healthz").await.status, 200);
    assert_eq!(nobody.get("/readyz").await.status, 200);
    assert_eq!(nobody.get("/metrics").await.status, 200);
}

/// Every served route is described, because only `routes!` adds routes; and every described route is served.
#[tokio::test]
async fn every_route_is_described() {
    // MCP describes itself.
    let source = include_str!("../../src/http.rs").replace(".merge(mcp::routes(", "");
    for way in [".route(", ".route_service(", ".nest(", ".nest_service(", ".merge(", ".fallback_service("] {
        assert!(!source.contains(way), "`{way}` adds a route that is not described: use `.routes(routes!(…))`");
    }
    let server = TestServer::start(Kind::Sqlite).await;
    let described: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
    let mut count = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let path = path.replace(['{', '}'], "");
            let method = method.to_uppercase().parse().unwrap();
            let answer = server.owner.with_token("").send(method, &path, None).await;
            assert!(![Some("unknown_route"), Some("method_not_allowed")].contains(&answer.body["code"].as_str()), "{path}: {answer:?}");
            // A route takes a token exactly if its description says so.
            let is_open = operation["security"] == serde_json::json!([{}]);
            assert_eq!(answer.status == 401, !is_open, "{path}: {answer:?}");
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
    for path in ["/answer/{link}", "/healthz", "/readyz", "/metrics", "/api/v1/openapi.json"] {
        assert!(described["paths"][path]["get"].is_object(), "{path}");
    }
}

#[tokio::test]
async fn the_address_and_the_type_of_a_problem_lead_somewhere() {
    let server = TestServer::start(Kind::Sqlite).await;
    let nobody = server.owner.with_token("");
    let page = async |path: &str| {
        let answer = nobody.http.get(format!("{}{path}", nobody.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert!(page("/").await.1.contains("/api/v1/openapi.json"));
    for code in api::Code::ALL {
        let (status, text) = page(&format!("/docs/errors/{}", code.as_str())).await;
        assert_eq!(status, 200, "{code:?}");
        assert!(text.contains(code.title()), "{code:?}");
    }
    nobody.get("/docs/errors/nonsense").await.problem(404, "not_found");
    // What an invocation failed with is told on one page, and what a page links to is there, too.
    let (_, inside) = page("/docs/errors/package_killed").await;
    assert!(inside.starts_with("# Invocation errors"), "{inside}");
    assert!(page("/docs/errors").await.1.starts_with("# Errors"));
    assert!(page("/docs/errors/README").await.1.contains("../concepts/idempotency.md"));
    assert!(page("/docs/concepts/idempotency.md").await.1.starts_with("# "));
    let opened = nobody.http.get(format!("{}/docs/concepts/idempotency", nobody.url)).header("accept", "text/html,*/*");
    let opened = opened.send().await.unwrap().text().await.unwrap();
    assert!(opened.starts_with("<!doctype html>") && opened.contains("<pre># "), "{opened}");
    nobody.get("/docs/concepts/nonsense").await.problem(404, "not_found");
    nobody.get("/docs/nonsense").await.problem(404, "not_found");
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut count = 0;
    for folder in ["", "concepts/", "decisions/", "errors/", "guides/"] {
        for entry in std::fs::read_dir(docs.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                let (status, text) = page(&format!("/docs/{folder}{name}")).await;
                assert!(status == 200 && text.starts_with("# "), "{folder}{name}: {status}");
                count += 1;
            }
        }
    }
    assert!(count > 90, "{count}");
}
