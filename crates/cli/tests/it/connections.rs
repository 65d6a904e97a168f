//! Tests `connection`: a credential is typed unseen, or read from stdin, a file or a secret, or comes from a login in a browser; and is found
//! nowhere afterwards.

use crate::countersign::{Server, User, files_with};
use crate::fake::Fake;
use crate::mcp_upstream::{Asked, usual};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;

const VALUE: &str = "canary-static-7731";
/// Every credential of these tests begins with it.
pub(crate) const CANARY: &str = "canary-";

/// A resource and its authorization server. It takes every token that begins like ours, lets everybody in, and sends them back at once. To
/// whoever it lets in, the resource is an MCP server.
pub(crate) struct Elsewhere {
    pub(crate) url: String,
}

impl Elsewhere {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let base = url.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                answer(connection, &base);
            }
        });
        Self { url }
    }

    fn server(&self) -> Server {
        Server::start_with(&[
            ("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", &self.url),
            ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32"),
            // The most that a server logs.
            ("COUNTERSIGN_LOG_LEVEL", "trace"),
        ])
    }

    pub(crate) fn resource(&self) -> String {
        format!("{}/mcp", self.url)
    }
}

/// Reads one request, head and body.
fn request(connection: &mut TcpStream) -> String {
    let (mut request, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        match connection.read(&mut chunk) {
            Ok(0) | Err(_) => return text,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
}

fn answer(mut connection: TcpStream, base: &str) {
    let request = request(&mut connection);
    let mut words = request.split([' ', '?']);
    let line = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let json = |value: Value| ("200 OK", String::new(), value.to_string());
    let (status, headers, body) = match line.as_str() {
        "GET /mcp" if request.contains(CANARY) => ("405 x", String::new(), String::new()),
        "POST /mcp" if request.contains(CANARY) => {
            let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
            let asked = Asked { head: head.to_owned(), body: serde_json::from_str(body).unwrap_or_default() };
            let _gone = connection.write_all(&usual(&asked).bytes);
            return;
        }
        "GET /mcp" | "POST /mcp" => ("401 x", format!("www-authenticate: Bearer resource_metadata=\"{base}/prm\"\r\n"), String::new()),
        "GET /prm" => json(json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base] })),
        "GET /.well-known/oauth-authorization-server" => json(json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
        })),
        "POST /register" => json(json!({ "client_id": "registered" })),
        "GET /authorize" => {
            let query = request.split(['?', ' ']).nth(2).unwrap_or_default();
            let state = query.split('&').find_map(|pair| pair.strip_prefix("state=")).unwrap_or_default();
            let back = query.split('&').find_map(|pair| pair.strip_prefix("redirect_uri=")).unwrap_or_default();
            let back = back.replace("%3A", ":").replace("%2F", "/");
            ("302 x", format!("location: {back}?code={CANARY}code&state={state}\r\n"), String::new())
        }
        "POST /token" => json(
            json!({ "access_token": format!("{CANARY}access"), "refresh_token": format!("{CANARY}refresh"), "token_type": "Bearer", "expires_in": 600 }),
        ),
        _ => ("404 x", String::new(), String::new()),
    };
    let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    let _gone = connection.write_all(text.as_bytes());
}

/// Opens a page as a browser does: one redirect is followed.
pub(crate) fn open(url: &str) -> String {
    let get = |url: &str| {
        let rest = url.trim_start_matches("http://");
        let (host, path) = rest.split_once('/').unwrap();
        let mut connection = TcpStream::connect(host).unwrap();
        connection.write_all(format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    let first = get(url);
    match first.lines().find_map(|line| line.strip_prefix("location: ")) {
        Some(location) => get(location),
        None => first,
    }
}

fn add(owner: &User, name: &str, url: &str) {
    owner.run_with_stdin(&["connection", "add", name, url, "--bearer", "--stdin"], VALUE).ok();
}

#[test]
fn a_connection_is_added_listed_tested_and_removed() {
    let elsewhere = Elsewhere::start();
    let server = elsewhere.server();
    let (owner, url) = (server.owner(), elsewhere.resource());
    let empty = owner.run(&["connection", "list"]).ok();
    assert!(empty.stderr.contains("no connections: countersign connection add"), "{empty:?}");
    let made =
        owner.run_with_stdin(&["connection", "add", "github", &url, "--bearer", "--stdin", "--space", "main", "--json"], VALUE).ok().json();
    assert_eq!((&made["name"], &made["kind"], &made["state"]), (&json!("github"), &json!("bearer"), &json!("ready")));
    assert_eq!(made["spaces"].as_array().map(Vec::len), Some(1));
    owner.run_with_stdin(&["secret", "set", "key", "--stdin"], VALUE).ok();
    owner.run(&["connection", "add", "search", &url, "--header", "X-Api-Key", "--secret", "key"]).ok();
    assert_eq!(owner.run(&["secret", "used-by", "key", "-o", "name"]).ok().stdout, "search\n");
    std::fs::write(owner.folder().join("password.txt"), format!("{VALUE}\n")).unwrap();
    owner.run(&["connection", "add", "wiki", &url, "--basic", "robin", "--file", "password.txt"]).ok();
    let refused = owner.run(&["connection", "login", "wiki"]).exits(8);
    assert!(refused.stderr.contains("hint: see what it is with `countersign connection show wiki`"), "{refused:?}");
    std::fs::remove_file(owner.folder().join("password.txt")).unwrap();
    assert_eq!(owner.run(&["connection", "list", "-o", "name"]).ok().stdout, "github\nsearch\nwiki\n");
    let tested = owner.run(&["connection", "test", "github"]).ok();
    assert!(tested.stdout.contains("405") && tested.stdout.contains("the credential was taken"), "{tested:?}");
    // Base64 hides what this resource looks for.
    let refused = owner.run(&["connection", "test", "wiki"]).exits(1);
    assert!(refused.stdout.contains("401") && refused.stdout.contains("the credential was refused"), "{refused:?}");
    // An address where nothing is says nothing about the credential, and neither does one that lets everybody in.
    for (path, told) in [("/nowhere", "it answered 404: that says nothing about the credential"), ("/prm", "nobody checks the credential")]
    {
        let name = path.trim_start_matches('/');
        add(&owner, name, &format!("{}{path}", elsewhere.url));
        let tested = owner.run(&["connection", "test", name]).exits(1);
        assert!(tested.stdout.contains(told), "{tested:?}");
        owner.run(&["connection", "remove", name, "--yes"]).ok();
    }

    owner.run(&["connection", "remove", "github"]).exits(2);
    let asked = owner.on_screen(80, &["connection", "remove", "github"], "n\n").exits(1).stdout;
    assert!(asked.contains("Remove connection `github`? Its credential cannot be restored. [y/N] "), "{asked}");
    let removed = owner.run(&["connection", "remove", "github", "--yes", "--json"]).ok().json();
    assert_eq!(removed, json!({ "name": "github", "removed": true }));
    let gone = owner.run(&["connection", "test", "github"]).exits(3);
    assert!(gone.stderr.contains("list them with `countersign connection list`"), "{gone:?}");
    let kept = owner.run(&["connection", "show", made["id"].as_str().unwrap(), "--json"]).ok().json();
    assert_eq!(kept["state"], "revoked");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_person_logs_in_in_a_browser_while_the_command_waits() {
    let elsewhere = Elsewhere::start();
    let server = elsewhere.server();
    let owner = server.owner();
    let arguments = ["connection", "add", "linear", &elsewhere.resource(), "--oauth", "--scope", "read", "--json"];
    let mut child = owner.command(&arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let url = stderr.find_map(|line| line.ok().filter(|line| line.starts_with("http://"))).unwrap();
    assert!(url.starts_with(&format!("{}/authorize?", elsewhere.url)) && url.contains("scope=read"), "{url}");
    let page = open(&url);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("is ready") && !page.contains(CANARY), "{page}");
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert!(child.wait().unwrap().success());
    let shown: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&shown["state"], &shown["issuer"], &shown["version"]), (&json!("ready"), &json!(elsewhere.url), &json!(2)));
    owner.run(&["connection", "test", "linear"]).ok();
    // Without waiting, the address is what is printed; and what was opened once does not count again.
    let started = owner.run(&["connection", "login", "linear", "--no-wait"]).ok();
    assert!(started.stdout.starts_with("http://"), "{started:?}");
    assert!(open(started.stdout.trim()).contains("is ready"));
    assert!(open(started.stdout.trim()).contains("not open"));
    assert_eq!(owner.run(&["connection", "show", "linear", "--json"]).ok().json()["version"], 3);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_login_that_cannot_be_started_says_what_was_made_and_what_to_do() {
    let nobody = crate::fake::nobody();
    let server =
        Server::start_with(&[("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", &nobody), ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32")]);
    let owner = server.owner();
    let nowhere = format!("{nobody}/mcp");
    let failed = owner.run(&["connection", "add", "linear", &nowhere, "--oauth"]).exits(1);
    for told in ["connection `linear` was made", "countersign connection login linear", "countersign connection remove linear"] {
        assert!(failed.stderr.contains(told), "{told}: {failed:?}");
    }
    assert_eq!(owner.run(&["connection", "show", "linear", "--json"]).ok().json()["state"], "needs_login");
    // What was not made is not said to be.
    let taken = owner.run(&["connection", "add", "linear", &nowhere, "--oauth"]).exits(7);
    assert!(!taken.stderr.contains("was made"), "{taken:?}");
}

#[test]
fn an_address_where_nobody_listens_is_said_to_be_the_cause() {
    let nobody = crate::fake::nobody();
    let server =
        Server::start_with(&[("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", &nobody), ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32")]);
    let owner = server.owner();
    add(&owner, "github", &format!("{nobody}/mcp"));
    let tested = owner.run(&["connection", "test", "github"]).exits(1);
    assert!(tested.stderr.contains("the address of connection `github` gave no answer"), "{tested:?}");
    assert!(!tested.stderr.contains("login") && !tested.stderr.contains("source `connection`"), "{tested:?}");
}

#[test]
fn a_mail_server_is_a_connection_with_an_address_that_mail_comes_from() {
    let relay = format!("{}?tls=none", crate::fake::nobody().replace("http://", "smtp://"));
    let server = Server::start_with(&[("COUNTERSIGN_EMAIL_ALLOWED_SERVERS", &format!("{relay},smtps://mail.example.com"))]);
    let owner = server.owner();
    owner.run(&["connection", "add", "relay", &relay, "--smtp"]).exits(2);
    // A relay asks for no login, so nobody is asked for a password.
    owner.run(&["connection", "add", "relay", &relay, "--smtp", "--from", "team@example.com"]).ok();
    let shown = owner.run(&["connection", "show", "relay"]).ok();
    assert!(shown.stdout.contains("smtp") && shown.stdout.contains("team@example.com"), "{shown:?}");
    let add = "connection add mail smtps://mail.example.com --smtp --from team@example.com --username team --stdin --json";
    let made = owner.run_with_stdin(&add.split(' ').collect::<Vec<_>>(), VALUE).ok().json();
    assert_eq!((&made["kind"], &made["account"], &made["from"]), (&json!("smtp"), &json!("team"), &json!("team@example.com")));
    let refused = owner.run(&["connection", "add", "x", "smtps://elsewhere.example.com", "--smtp", "--from", "team@example.com"]).exits(5);
    assert!(refused.stderr.contains("`email.allowed_servers`"), "{refused:?}");
    let away = owner.run(&["connection", "test", "relay"]).exits(1);
    assert!(
        away.stderr.contains("the mail server of connection `relay` cannot be used") && !away.stderr.contains("source `email`"),
        "{away:?}"
    );
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_connection_that_lacks_scopes_for_some_calls_says_so() {
    let at = "2026-11-15T00:00:00.000000Z";
    let (why, mended_by) = ("some calls need the scopes `write` too", "an admin or owner, who logs in");
    let linear = json!({
        "id": "con_1", "name": "linear", "kind": "oauth", "url": "https://mcp.example.com", "account": null, "secret": null, "issuer": null,
        "scopes": ["read", "write"], "spaces": null, "version": 2, "state": "ready", "why": why, "mended_by": mended_by,
        "made_by": "user:usr_1", "made_at": at, "login_by": null, "login_at": null, "last_used_at": null, "removed_at": null,
    });
    let fake = Fake::start(move |_, path| match path.split('?').next() {
        Some("/api/v1/connections") => (200, json!({ "items": [linear], "next": null }).to_string()),
        Some("/api/v1/connections/linear") => (200, linear.to_string()),
        _ => (200, json!({ "items": [], "next": null }).to_string()),
    });
    let user = User::new(&std::env::temp_dir(), &fake.url, Some("token"));
    let listed = user.on_screen(120, &["connection", "list"], "").ok().stdout;
    assert!(listed.contains("ready, lacks scopes"), "{listed}");
    let shown = user.run(&["connection", "show", "linear"]).ok();
    for told in ["state\tready\n", &format!("why\t{why}\n"), &format!("mended by\t{mended_by}\n")] {
        assert!(shown.stdout.contains(told), "{told}: {shown:?}");
    }
}

#[test]
fn a_credential_is_typed_without_being_shown_and_never_given_on_the_command_line() {
    let elsewhere = Elsewhere::start();
    let server = elsewhere.server();
    let (owner, url) = (server.owner(), elsewhere.resource());
    let typed = format!("{VALUE}\n");
    let seen = owner.at_terminal(&["connection", "add", "github", &url, "--bearer"], &[("value of `github`: ", typed.as_str())]).exits(0);
    assert!(!seen.screen.contains(VALUE), "{seen:?}");
    for arguments in [
        vec!["connection", "add", "other", &url, VALUE, "--bearer"],
        vec!["connection", "add", "other", &url, VALUE, "--oauth", "--client-id", "x"],
    ] {
        let refused = owner.run(&arguments).exits(2);
        assert!(refused.stderr.contains("a value is never given on the command line"), "{refused:?}");
        assert!(!format!("{refused:?}").contains(VALUE), "{refused:?}");
    }
    for arguments in [
        vec!["connection", "add", "other", &url],
        vec!["connection", "add", "other", &url, "--bearer", "--oauth"],
        vec!["connection", "add", "other", &url, "--bearer", "--scope", "read"],
        vec!["connection", "add", "other", &url, "--oauth", "--secret", "key"],
        vec!["connection", "add", "other", &url, "--bearer"],
    ] {
        owner.run(&arguments).exits(2);
    }
    let shown = owner.run(&["connection", "add", "other", &url, "--bearer", "--dry-run"]).ok();
    assert!(shown.stdout.starts_with("POST /api/v1/connections") && shown.stdout.contains("(not shown)"), "{shown:?}");
    assert_eq!(owner.run(&["connection", "list", "-o", "name"]).ok().stdout, "github\n");
    let member = owner.invited(&owner.run(&["user", "create", "mia", "--role", "member", "--json"]).ok().json()["invitation"]);
    assert_eq!(member.run(&["connection", "list", "-o", "name"]).ok().stdout, "github\n");
    member.run_with_stdin(&["connection", "add", "mine", &url, "--bearer", "--stdin"], VALUE).exits(5);
    member.run(&["connection", "test", "github"]).exits(5);
}

#[test]
fn a_credential_is_in_no_file_of_the_server_no_backup_and_no_export() {
    let elsewhere = Elsewhere::start();
    let server = elsewhere.server();
    let (owner, url) = (server.owner(), elsewhere.resource());
    add(&owner, "github", &url);
    owner.run_with_stdin(&["connection", "add", "github", &url, "--bearer", "--stdin"], VALUE).exits(7);
    owner.run_with_stdin(&["connection", "add", "evil", "https://evil.test", "--bearer", "--stdin"], VALUE).exits(5);
    owner.run(&["connection", "test", "github"]).ok();
    owner.run_with_stdin(&["secret", "set", "key", "--stdin"], VALUE).ok();
    owner.run(&["connection", "add", "search", &url, "--header", "X-Api-Key", "--secret", "key"]).ok();
    owner.run(&["connection", "test", "search"]).ok();
    let started = owner.run(&["connection", "add", "linear", &url, "--oauth", "--no-wait"]).ok();
    assert!(open(started.stdout.trim()).contains("is ready"));
    owner.run(&["connection", "test", "linear"]).ok();
    owner.run(&["backup", "all.backup", "--data", "data"]).ok();
    owner.run(&["receipt", "export", "log.jsonl"]).ok();
    assert_eq!(files_with(owner.folder(), CANARY), Vec::<PathBuf>::new());
    let text = |name: &str| std::fs::read_to_string(owner.folder().join(name)).unwrap();
    assert!(text("all.backup").contains(r#""table":"connections""#));
    assert!(!server.logged().is_empty() && !server.logged().contains(CANARY));
}
