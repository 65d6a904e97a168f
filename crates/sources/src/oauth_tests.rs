//! A whole login against a fake of a resource and its authorization server, and everything that can go wrong on the way.

use super::fake::{CANARY, Fake, Reply, reply};
use super::*;
use crate::limits::OAUTH_ANSWER_BYTES_MAX;
use countersign_core::ports::connections::{ConnectionKind, ConnectionName, ConnectionState};
use countersign_core::{ConnectionId, PrincipalId};
use kept::{Client, ClientAuth, Registered};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use testkit::SeededRandom;
use url::Url;

const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);
const OWN: &str = "http://127.0.0.1:7117";

pub(crate) fn connection(url: String) -> Connection {
    Connection {
        id: ConnectionId::new(NOW, [7; 10]),
        name: ConnectionName::parse("github").unwrap(),
        kind: ConnectionKind::Oauth,
        url,
        account: None,
        from: None,
        secret: None,
        issuer: None,
        scopes: None,
        spaces: None,
        version: 1,
        state: ConnectionState::NeedsLogin,
        why: None,
        made_by: PrincipalId::parse("user:usr_01k9z6m4x0abcdefghjkmnpqrs").unwrap(),
        made_at: NOW,
        login_by: None,
        login_at: None,
        last_used_at: None,
        removed_at: None,
    }
}

async fn begun(fake: &Fake, known: Option<&SecretValue>, own: &str) -> Result<Begun, Error> {
    begin(&fake.fetch(), &connection(fake.at("/mcp")), known, &Own::new(own), &SeededRandom::new(1)).await
}

fn query(url: &str) -> BTreeMap<String, String> {
    Url::parse(url).unwrap().query_pairs().into_owned().collect()
}

fn code(text: &str) -> Option<Secret<String>> {
    Some(Secret::new(text.to_owned()))
}

/// What a server that keeps to the rules sends back.
fn back(fake: &Fake) -> Returned {
    Returned { code: code("the-code"), iss: Some(fake.base.clone()), error: None }
}

pub(crate) async fn logged_in(fake: &Fake) -> Credential {
    let begun = begun(fake, None, OWN).await.unwrap();
    Credential::read(&end(&fake.fetch(), &begun.details, back(fake), NOW).await.unwrap().value).unwrap()
}

fn refusal<T>(result: Result<T, Error>) -> String {
    let error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.code(), "login_failed", "{error}");
    assert!(!error.to_string().contains(CANARY), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_login_goes_from_the_resource_to_its_tokens() {
    let fake = Fake::start().await;
    let begun = begun(&fake, None, OWN).await.unwrap();
    assert!(begun.url.starts_with(&fake.at("/authorize?tenant=1&")), "{}", begun.url);
    let asked = query(&begun.url);
    let said = |name: &str| asked.get(name).map(String::as_str);
    assert_eq!((said("response_type"), said("client_id"), said("scope")), (Some("code"), Some("client-1"), Some("read")));
    assert_eq!(said("redirect_uri"), Some("http://127.0.0.1:7117/oauth/callback"));
    assert_eq!((said("state"), said("code_challenge_method")), (Some(begun.state.expose().as_str()), Some("S256")));
    assert_eq!((said("resource"), said("prompt")), (Some(fake.at("/mcp").as_str()), None));
    assert_eq!(begun.state.expose().len(), 43);
    let registered: Value = serde_json::from_str(&fake.seen("POST /register")[0].body).unwrap();
    assert_eq!((&registered["token_endpoint_auth_method"], &registered["application_type"]), (&json!("none"), &json!("native")));

    let granted = end(&fake.fetch(), &begun.details, back(&fake), NOW).await.unwrap();
    assert_eq!(granted.issuer, fake.base);
    let exchange = fake.seen("POST /token")[0].clone();
    let form = exchange.form();
    let challenge = {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()))
    };
    assert_eq!(said("code_challenge"), Some(challenge.as_str()), "the verifier belongs to the challenge");
    assert_eq!(
        ["grant_type", "code", "client_id", "resource", "redirect_uri"].map(|name| form[name].as_str()),
        ["authorization_code", "the-code", "client-1", fake.at("/mcp").as_str(), "http://127.0.0.1:7117/oauth/callback"]
    );
    assert_eq!(exchange.authorization, None);
    let tokens = Credential::read(&granted.value).unwrap().tokens.unwrap();
    assert_eq!((tokens.access.expose(), tokens.scope.as_deref()), (&format!("{CANARY}-access-1"), Some("read")));
    assert!(tokens.is_fresh(NOW.plus_seconds(3_500)) && !tokens.is_fresh(NOW.plus_seconds(3_570)), "renewed a little before its end");
}

#[tokio::test]
async fn who_we_are_depends_on_what_the_server_takes_and_on_who_issued_it() {
    let fake = Fake::start().await;
    let id = async |known: Option<&SecretValue>, own: &str| query(&begun(&fake, known, own).await.unwrap().url)["client_id"].clone();
    // A registration counts for its issuer and its callback, and is used again there.
    let ours = logged_in(&fake).await;
    assert_eq!(id(Some(&ours.write().unwrap()), OWN).await, "client-1");
    assert_eq!(id(Some(&ours.write().unwrap()), "http://127.0.0.1:9").await, "client-2");
    let Credential { given, client: Some(client), tokens } = ours else { panic!("it has a client") };
    let elsewhere = Credential { given, client: Some(Client { issuer: "https://other.test".into(), ..client }), tokens };
    assert_eq!(id(Some(&elsewhere.write().unwrap()), OWN).await, "client-3");
    // A document that describes us, where the server takes one and can reach it.
    fake.change_metadata(&json!({ "client_id_metadata_document_supported": true }));
    assert_eq!(id(None, "https://countersign.test/").await, "https://countersign.test/oauth/client.json");
    assert_eq!(id(None, OWN).await, "client-4");
    let own = Own::new("https://countersign.test");
    let document = client_document(&own);
    assert_eq!(document["client_id"], "https://countersign.test/oauth/client.json");
    assert_eq!(document["redirect_uris"], json!(["https://countersign.test/oauth/callback"]));
    // A client that was registered by hand, before all others.
    let given = Credential { given: Some(Given { id: "by-hand".into(), secret: code("s:e cret") }), ..Credential::default() };
    let given = given.write().unwrap();
    assert_eq!(id(Some(&given), "https://countersign.test").await, "by-hand");
    let login = begun(&fake, Some(&given), OWN).await.unwrap();
    end(&fake.fetch(), &login.details, back(&fake), NOW).await.unwrap();
    let sent = fake.seen("POST /token").last().unwrap().clone();
    assert_eq!(sent.authorization.as_deref(), Some("Basic YnktaGFuZDpzJTNBZStjcmV0"), "`by-hand:s%3Ae+cret`");
    assert_eq!(sent.form().get("client_id"), None);
    fake.change_metadata(&json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] }));
    let login = begun(&fake, Some(&given), OWN).await.unwrap();
    end(&fake.fetch(), &login.details, back(&fake), NOW).await.unwrap();
    assert_eq!(fake.seen("POST /token").last().unwrap().form()["client_secret"], "s:e cret");
    // Nobody to be.
    fake.change_metadata(&json!({ "registration_endpoint": null }));
    let told = refusal(begun(&fake, None, OWN).await);
    assert!(told.contains("register one there by hand") && told.contains("/oauth/callback"), "{told}");
    fake.change_metadata(&json!({}));
    fake.change("POST /register", reply(400, &json!({ "error": CANARY })));
    assert!(refusal(begun(&fake, None, OWN).await).contains("answered 400"));
}

#[tokio::test]
async fn metadata_is_found_where_the_rfcs_put_it_and_counts_only_for_what_it_names() {
    let fake = Fake::start().await;
    // Without a challenge the well-known addresses are asked, and without them the resource is its own authorization server.
    fake.change("GET /mcp", reply(405, &json!({})));
    assert_eq!(query(&begun(&fake, None, OWN).await.unwrap().url)["resource"], fake.at("/mcp"));
    let described = json!({ "resource": fake.base, "authorization_servers": [fake.base], "scopes_supported": ["a", "b"] });
    fake.change("GET /.well-known/oauth-protected-resource", reply(200, &described));
    let asked = query(&begun(&fake, None, OWN).await.unwrap().url);
    assert_eq!((asked["resource"].as_str(), asked["scope"].as_str()), (fake.base.as_str(), "a b"));
    // An OpenID provider, with a path; it gives lasting tokens only if it is asked for them.
    let issuer = fake.at("/tenant");
    let mut metadata = fake.metadata();
    metadata["issuer"] = json!(issuer);
    metadata["scopes_supported"] = json!(["openid", "offline_access"]);
    fake.change(
        "GET /.well-known/oauth-protected-resource/mcp",
        reply(200, &json!({ "resource": fake.at("/mcp"), "authorization_servers": [issuer], "scopes_supported": ["a"] })),
    );
    fake.change("GET /tenant/.well-known/openid-configuration", reply(200, &metadata));
    let asked = query(&begun(&fake, None, OWN).await.unwrap().url);
    assert_eq!((asked["scope"].as_str(), asked["prompt"].as_str()), ("a offline_access", "consent"));
    let places = ["/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant"];
    assert!(places.iter().all(|place| fake.seen(&format!("GET {place}")).len() == 1), "both were tried before");

    for (line, body, told) in [
        ("GET /prm", json!({ "resource": "https://other.test/mcp", "authorization_servers": ["BASE"] }), "is another resource"),
        ("GET /prm", json!({ "resource": "BASE/mcp" }), "names no authorization server"),
        ("GET /prm", json!([CANARY]), "other than the JSON"),
        ("GET /.well-known/oauth-authorization-server", json!({ "issuer": CANARY }), "other than the JSON"),
    ] {
        let fake = Fake::start().await;
        let body = body.to_string().replace("BASE", &fake.base);
        fake.change(line, Reply { body, ..reply(200, &json!({})) });
        assert!(refusal(begun(&fake, None, OWN).await).contains(told), "{line}");
    }
    for (members, told) in [
        (json!({ "issuer": "https://other.test" }), "asked about another issuer"),
        (json!({ "code_challenge_methods_supported": null }), "PKCE"),
        (json!({ "code_challenge_methods_supported": ["plain"] }), "PKCE"),
        (json!({ "token_endpoint": "http://other.test/token" }), "not https"),
    ] {
        let fake = Fake::start().await;
        fake.change_metadata(&members);
        assert!(refusal(begun(&fake, None, OWN).await).contains(told), "{members}");
        assert!(fake.seen("POST /register").is_empty(), "{members}");
    }
}

#[tokio::test]
async fn a_resource_that_answers_only_messages_is_asked_with_one() {
    let fake = Fake::start().await;
    fake.change("GET /mcp", reply(404, &json!({})));
    let challenge = format!("www-authenticate: Bearer resource_metadata=\"{}\", scope=\"write\"\r\n", fake.at("/prm"));
    fake.change("POST /mcp", Reply { headers: challenge, ..reply(401, &json!({})) });
    assert_eq!(query(&begun(&fake, None, OWN).await.unwrap().url)["scope"], "write");
    let asked = fake.seen("POST /mcp");
    assert_eq!((asked.len(), asked[0].authorization.as_deref()), (1, None));
    assert_eq!(fake.seen("GET /prm").len(), 1);
}

#[tokio::test]
async fn what_comes_back_from_another_server_or_without_a_code_is_refused() {
    let fake = Fake::start().await;
    let login = begun(&fake, None, OWN).await.unwrap();
    for (returned, told) in [
        (Returned { iss: Some("https://evil.test".into()), ..back(&fake) }, "`https://evil.test` answered"),
        (Returned { iss: Some(format!("{}/", fake.base)), ..back(&fake) }, "answered"),
        (Returned { iss: None, ..back(&fake) }, "this answer does not"),
        (Returned { code: None, error: Some("access_denied".into()), ..back(&fake) }, "`access_denied`"),
        (Returned { code: None, ..back(&fake) }, "sent no code back"),
    ] {
        assert!(refusal(end(&fake.fetch(), &login.details, returned, NOW).await).contains(told), "{told}");
    }
    assert!(fake.seen("POST /token").is_empty(), "no code was sent anywhere");
    // A server that does not promise `iss` need not send it.
    fake.change_metadata(&json!({ "authorization_response_iss_parameter_supported": null }));
    let login = begun(&fake, None, OWN).await.unwrap();
    assert!(end(&fake.fetch(), &login.details, Returned { iss: None, ..back(&fake) }, NOW).await.is_ok());
}

#[tokio::test]
async fn answers_that_are_huge_slow_or_lead_away_end_the_login() {
    let fake = Fake::start().await;
    let login = begun(&fake, None, OWN).await.unwrap();
    let finish = async |reply: Reply| {
        fake.change("POST /token", reply);
        end(&fake.fetch().impatient(), &login.details, back(&fake), NOW).await.map(|_| ())
    };
    let empty = || reply(200, &json!({}));
    let huge = Reply { body: CANARY.repeat(OAUTH_ANSWER_BYTES_MAX / CANARY.len() + 1), ..empty() };
    assert!(refusal(finish(huge).await).contains("more than 65536 bytes"));
    assert!(refusal(finish(Reply { is_silent: true, ..empty() }).await).contains("did not answer within 300 ms"));
    // A request with a credential goes where it was sent to.
    let away = |location: &str| Reply { headers: format!("location: {location}\r\n"), ..reply(307, &json!({})) };
    assert!(refusal(finish(away(&fake.at("/elsewhere"))).await).contains("answered 307"));
    assert!(fake.seen("POST /elsewhere").is_empty());
    for (body, told) in [
        (json!({ "access_token": CANARY, "token_type": "mac" }), "not a bearer token"),
        (json!({ "access_token": format!("{CANARY}\r\nx: y"), "token_type": "Bearer" }), "does not fit into a header"),
        (json!({ "access_token": "", "token_type": "Bearer" }), "does not fit into a header"),
        (json!({ "token_type": CANARY }), "other than the JSON"),
    ] {
        assert!(refusal(finish(reply(200, &body)).await).contains(told), "{told}");
    }
    assert!(refusal(finish(reply(400, &json!({ "error": "invalid_grant" }))).await).contains("`invalid_grant`"));
    assert!(refusal(finish(reply(400, &json!({ "error": format!("{CANARY} {CANARY}") }))).await).contains("answered 400"));
    // Without one, a redirect is followed to allowed places only.
    for (location, expected) in [("http://127.0.0.9/", "address_not_allowed"), ("http://evil.test/", "host_not_allowed")] {
        fake.change("GET /prm", Reply { headers: format!("location: {location}\r\n"), ..reply(302, &json!({})) });
        assert_eq!(begun(&fake, None, OWN).await.map(|_| ()).unwrap_err().code(), expected);
    }
}

#[tokio::test]
async fn tokens_are_renewed_until_the_server_says_that_the_login_has_ended() {
    let fake = Fake::start().await;
    let renewed = renew(&fake.fetch(), logged_in(&fake).await, NOW).await.unwrap().unwrap();
    let form = fake.seen("POST /token")[1].form();
    assert_eq!(
        ["grant_type", "refresh_token", "resource", "client_id"].map(|name| form[name].as_str()),
        ["refresh_token", &format!("{CANARY}-refresh-1"), fake.at("/mcp").as_str(), "client-1"]
    );
    assert_eq!(renewed.tokens.as_ref().unwrap().refresh.as_ref().unwrap().expose(), &format!("{CANARY}-refresh-2"));
    // What was issued elsewhere is sent nowhere.
    let asked = fake.seen("POST /token").len();
    let other = |credential: Credential| {
        let Credential { given, client: Some(client), tokens } = credential else { panic!("it has a client") };
        let client = Client { issuer: "https://other.test".into(), ..client };
        assert_eq!((client.auth, client.how), (ClientAuth::None, Registered::Dynamically));
        Credential { given, client: Some(client), tokens }
    };
    assert!(renew(&fake.fetch(), other(logged_in(&fake).await), NOW).await.unwrap().is_none());
    assert_eq!(fake.seen("POST /token").len(), asked + 1, "the login alone");
    // A server that does not rotate them means the one before.
    fake.change("POST /token", reply(200, &json!({ "access_token": "a", "token_type": "Bearer" })));
    let renewed = renew(&fake.fetch(), renewed, NOW).await.unwrap().unwrap();
    let tokens = renewed.tokens.as_ref().unwrap();
    assert_eq!((tokens.refresh.as_ref().unwrap().expose(), tokens.expires_at), (&format!("{CANARY}-refresh-2"), None));
    for (status, error, is_over) in [(400, "invalid_grant", true), (401, "invalid_client", true), (400, "invalid_request", false)] {
        let credential = Credential::read(&renewed.write().unwrap()).unwrap();
        fake.change("POST /token", reply(status, &json!({ "error": error })));
        match renew(&fake.fetch(), credential, NOW).await {
            Ok(renewed) => assert!(is_over && renewed.is_none(), "{error}"),
            Err(told) => assert!(!is_over && told.to_string().contains(error), "{told}"),
        }
    }
    let credential = Credential::read(&renewed.write().unwrap()).unwrap();
    fake.change("POST /token", reply(503, &json!({ "error": CANARY })));
    assert!(refusal(renew(&fake.fetch(), credential, NOW).await).contains("answered 503"));
}

#[tokio::test]
async fn the_refresh_token_is_revoked_where_it_came_from() {
    let fake = Fake::start().await;
    let value = logged_in(&fake).await.write().unwrap();
    revoke(&fake.fetch(), &value).await.unwrap();
    let form = fake.seen("POST /revoke")[0].form();
    assert_eq!((form["token"].as_str(), form["client_id"].as_str()), (format!("{CANARY}-refresh-1").as_str(), "client-1"));
    fake.change("POST /revoke", reply(503, &json!({})));
    assert!(refusal(revoke(&fake.fetch(), &value).await).contains("did not revoke"));
    revoke(&fake.fetch(), &Credential::default().write().unwrap()).await.unwrap();
}
