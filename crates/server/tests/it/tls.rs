//! TLS and proxies, on a server as an operator starts it: what is encrypted, what is renewed while it runs, and whose word counts for where
//! a request came from.

use reqwest::tls::TlsInfo;
use reqwest::{Certificate, Version};
use serde_json::Value;
use server::{Config, Flags};
use std::path::Path;
use std::time::Duration;
use testkit::certificates::{FIRST, ROOT, SECOND, replace};
use tokio::sync::oneshot;

/// Starts a server with these variables, and returns its address.
async fn start(folder: &Path, variables: &[(&str, &str)]) -> String {
    server::init_process();
    let flags = Flags { data: Some(folder.join("data")), listen: Some("127.0.0.1:0".to_owned()), ..Flags::default() };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config = Config::load(flags, variables).unwrap();
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move { server::serve(config, |started| tell.send(started.url.clone()).unwrap()).await.unwrap() });
    told.await.expect("the server did not start")
}

async fn start_tls(folder: &Path) -> String {
    let (cert, key) = FIRST.write(folder);
    start(folder, &[("COUNTERSIGN_TLS_CERT", cert.to_str().unwrap()), ("COUNTERSIGN_TLS_KEY", key.to_str().unwrap())]).await
}

/// A client that trusts the root of the tests alone, and opens a new connection for every request.
fn client() -> reqwest::ClientBuilder {
    let root = Certificate::from_pem(ROOT.as_bytes()).unwrap();
    reqwest::Client::builder().tls_certs_only([root]).tls_info(true).pool_max_idle_per_host(0)
}

/// The certificate that the server shows now.
async fn shown(url: &str) -> Vec<u8> {
    let response = client().build().unwrap().get(format!("{url}/healthz")).send().await.unwrap();
    response.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate).unwrap().to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_is_served_in_both_versions_of_http_and_everything_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let url = start_tls(folder.path()).await;
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    assert_eq!(std::fs::read_to_string(folder.path().join("data/server.url")).unwrap().trim(), url);
    let get = |client: reqwest::Client| client.get(format!("{url}/oauth/client.json")).send();
    let newer = get(client().build().unwrap()).await.unwrap();
    assert_eq!(newer.version(), Version::HTTP_2);
    let document: Value = newer.json().await.unwrap();
    assert_eq!(document["client_id"], format!("{url}/oauth/client.json"));
    let older = get(client().http1_only().build().unwrap()).await.unwrap();
    assert_eq!((older.version(), older.status().as_u16()), (Version::HTTP_11, 200));
    // Whoever does not know the root is not talked into anything, and plain HTTP gets no answer.
    assert!(get(reqwest::Client::builder().tls_certs_only([]).build().unwrap()).await.unwrap_err().is_connect());
    let plain = url.replace("https:", "http:");
    assert!(client().build().unwrap().get(format!("{plain}/healthz")).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_is_shown_to_new_connections() {
    let folder = tempfile::tempdir().unwrap();
    let url = start_tls(folder.path()).await;
    let first = shown(&url).await;
    replace(folder.path(), "key.pem", "not a key");
    assert_eq!(shown(&url).await, first);
    SECOND.write(folder.path());
    let renewed = async {
        while shown(&url).await == first {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), renewed).await.expect("the new certificate is never shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_is_believed_only_where_it_is_trusted() {
    let told = |url: String| async move {
        let request = reqwest::Client::builder().tls_certs_only([]).build().unwrap().get(format!("{url}/oauth/client.json"));
        let request = request.header("x-forwarded-proto", "https").header("x-forwarded-host", "cs.example");
        let document: Value = request.send().await.unwrap().json().await.unwrap();
        document["client_id"].as_str().unwrap().to_owned()
    };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let stranger = start(folders[0].path(), &[("COUNTERSIGN_TRUSTED_PROXIES", "10.0.0.0/8")]).await;
    assert_eq!(told(stranger.clone()).await, format!("{stranger}/oauth/client.json"));
    let trusted = [("COUNTERSIGN_TRUSTED_PROXIES", "10.0.0.0/8, 127.0.0.1/32")];
    assert_eq!(told(start(folders[1].path(), &trusted).await).await, "https://cs.example/oauth/client.json");
    // What the operator says counts before what a proxy tells.
    let named = [trusted[0], ("COUNTERSIGN_PUBLIC_URL", "https://named.example")];
    assert_eq!(told(start(folders[2].path(), &named).await).await, "https://named.example/oauth/client.json");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mcp_door_works_behind_a_trusted_proxy_and_for_no_page_of_others() {
    server::init_process();
    let http = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
    let asked = async |url: &str, headers: &[(&'static str, &'static str)]| {
        let request = http.post(format!("{url}/mcp")).header("host", "cs.example").json(&serde_json::json!({}));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.unwrap();
        let challenge = response.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), challenge.unwrap_or_default())
    };
    let passed_on = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "cs.example")];
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let trusting = start(folders[0].path(), &[("COUNTERSIGN_TRUSTED_PROXIES", "127.0.0.1/32")]).await;
    // It comes as far as its token, and is told where it finds out about that, at the address it knows.
    let metadata = "https://cs.example/.well-known/oauth-protected-resource/mcp";
    assert_eq!(asked(&trusting, &passed_on).await, (401, format!("Bearer resource_metadata=\"{metadata}\"")));
    let told: Value = http
        .get(format!("{trusting}/.well-known/oauth-protected-resource/mcp"))
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", "cs.example")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!((&told["resource"], told.get("authorization_servers")), (&Value::from("https://cs.example/mcp"), None), "{told}");
    // Whoever comes past the proxy, and whatever page a browser is on, gets no further.
    assert_eq!(asked(&trusting, &[]).await.0, 403);
    let browser = [passed_on[0], passed_on[1], passed_on[2], ("origin", "https://cs.example")];
    assert_eq!(asked(&trusting, &browser).await.0, 403);
    let distrusting = start(folders[1].path(), &[("COUNTERSIGN_TRUSTED_PROXIES", "10.0.0.0/8")]).await;
    assert_eq!(asked(&distrusting, &passed_on).await.0, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_does_not_start_with_files_that_do_not_fit() {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let (cert, _) = FIRST.write(folder.path());
    let key = replace(folder.path(), "key.pem", SECOND.key);
    let flags = || Flags {
        data: Some(folder.path().join("data")),
        listen: Some("127.0.0.1:0".to_owned()),
        tls_cert: Some(cert.clone()),
        tls_key: Some(key.clone()),
        ..Flags::default()
    };
    let refused = server::serve(Config::load(flags(), std::iter::empty()).unwrap(), |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains("is not the key of the certificate"), "{refused}");
    let alone = Config::load(Flags { tls_key: None, ..flags() }, std::iter::empty()).unwrap_err();
    assert_eq!(alone.to_string(), "`tls_cert` is not valid: it needs `tls_key` beside it");
    let plain = [("COUNTERSIGN_PUBLIC_URL".to_owned(), "http://cs.example".to_owned())];
    let plain = Config::load(flags(), plain.into_iter()).unwrap_err();
    assert!(plain.to_string().contains("begin it with https://"), "{plain}");
}
