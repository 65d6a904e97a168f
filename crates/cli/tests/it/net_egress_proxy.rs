//! Group 41 of the escape corpus, `net_egress_proxy`: code in the jail asks the egress proxy for requests that are not allowed. Each
//! attempt is refused, counted and logged, and no target sees a connection. Each row also has a control: a request of the same kind that is
//! allowed. DNS names that resolve differently the second time are tested in `crates/sources/src/web/exchange_tests.rs`.

use crate::countersign::{Server, User};
use crate::network::{ASK, CODE, egress_of, write_asking};
use crate::outside::Outside;
use serde_json::{Value, json};

/// One attempt: the request, what its refusal says, and the control that is allowed.
struct Row {
    attempt: &'static str,
    line: String,
    says: &'static str,
    control: String,
}

fn get(url: &str) -> String {
    json!({ "method": "GET", "url": url }).to_string()
}

fn get_with(url: &str, header: (&str, &str)) -> String {
    json!({ "method": "GET", "url": url, "headers": [[header.0, header.1]] }).to_string()
}

fn rows(home: &Outside, other: &Outside) -> Vec<Row> {
    let (p, q) = (home.port, other.port);
    let fine = home.url("/fine");
    let row = |attempt, line, says, control: &str| Row { attempt, line, says, control: get(control) };
    let named = format!("http://localhost:{p}/fine");
    let mut rows = vec![
        row(
            "an allowed name and address that is not public",
            get(&format!("http://127.0.0.2:{p}/")),
            "an address that is not public",
            &fine,
        ),
        row("redirect to cloud metadata", get(&home.url("/moved/0")), "an address that is not public", &home.url("/moved/2")),
        row("redirect to another port", get(&home.url("/moved/1")), "is not in `hosts`", &home.url("/moved/2")),
        row("cloud metadata itself", get("http://169.254.169.254/latest/meta-data/"), "an address that is not public", &fine),
        row("mapped IPv6, dotted", get(&format!("http://[::ffff:127.0.0.1]:{p}/")), "another spelling", &fine),
        row("mapped IPv6, in its own spelling", get(&format!("http://[::ffff:7f00:1]:{p}/")), "is not in `hosts`", &fine),
        row("decimal address", get(&format!("http://2130706433:{p}/")), "another spelling", &fine),
        row("octal address", get(&format!("http://0177.0.0.1:{p}/")), "another spelling", &fine),
        row("hexadecimal address", get(&format!("http://0x7f000001:{p}/")), "another spelling", &fine),
        row("short address", get(&format!("http://127.1:{p}/")), "another spelling", &fine),
        row("userinfo", get(&format!("http://user@127.0.0.1:{p}/")), "a user or a password", &fine),
        row("a host that is userinfo", get(&format!("http://127.0.0.1:{p}@127.0.0.1:{q}/")), "a user or a password", &fine),
        row("trailing dot", get(&format!("http://localhost.:{p}/")), "leave the dot after the host out", &named),
        row("line break in the url", get(&format!("{fine}\r\nHost: evil.test")), "not plain ASCII", &fine),
        row("line break in the method", json!({ "method": "GET / HTTP/1.1\r\nx:", "url": fine }).to_string(), "not a method", &fine),
        row("CONNECT", json!({ "method": "CONNECT", "url": format!("127.0.0.1:{q}") }).to_string(), "a tunnel is not a request", &fine),
        row("another port", get(&format!("http://127.0.0.1:{q}/")), "is not in `hosts`", &fine),
        row("another port behind capitals", get(&format!("HTTP://LOCALHOST:{q}/")), "is not in `hosts`", &format!("HTTP://LocalHost:{p}/")),
        row("small letters for a method", json!({ "method": "get", "url": fine }).to_string(), "not a method", &fine),
        row("homograph", get(&format!("http://l\u{43e}calhost:{p}/")), "not plain ASCII", &named),
        row("homograph as it is looked up", get(&format!("http://xn--lcalhost-nbh:{p}/")), "is not in `hosts`", &named),
        row("a declared host the operator has not allowed whole", get("http://sub.localhost.test/"), "is not in `hosts`", &named),
        row("a method that changes something", json!({ "method": "POST", "url": fine }).to_string(), "only GET and HEAD", &fine),
        row("a method nobody knows", json!({ "method": "PURGE", "url": fine }).to_string(), "does not go out", &fine),
        row("a body where none belongs", json!({ "method": "GET", "url": fine, "body": "aGk=" }).to_string(), "carries no body", &fine),
        row("a line that is no request", "GET / HTTP/1.1".to_owned(), "not a request", &fine),
    ];
    for (attempt, scheme) in [("file:", "file:///etc/passwd"), ("ftp:", "ftp://127.0.0.1/"), ("ws:", "ws://127.0.0.1/")] {
        rows.push(row(attempt, get(scheme), "must begin with `https://` or `http://`", &fine));
    }
    rows.push(row("https: where http: is allowed", get(&format!("https://127.0.0.1:{p}/")), "is not in `hosts`", &fine));
    for (attempt, header, says) in [
        ("Host that is another's", ("Host", "evil.test"), "a header that is not the program's to set"),
        ("line break in a header", ("x-a", "b\r\nHost: evil.test"), "not a header's value"),
        ("transfer-encoding", ("Transfer-Encoding", "chunked"), "a header that is not the program's to set"),
        ("a proxy's header", ("proxy-connection", "x"), "it belongs to the connection"),
        ("another path in a header", ("X-Original-URL", "/evil"), "another target"),
        ("another host in a header", ("X-Forwarded-Host", "evil.test"), "another target"),
        ("another method in a header", ("X-HTTP-Method-Override", "DELETE"), "makes another method"),
    ] {
        rows.push(Row { attempt, line: get_with(&fine, header), says, control: get_with(&fine, ("x-a", "b")) });
    }
    rows
}

#[test]
fn net_egress_proxy_refuses_each_attempt_and_lets_its_control_through() {
    let home = Outside::start("127.0.0.1", |port| {
        ["http://169.254.169.254/latest/meta-data/".to_owned(), "http://127.0.0.1:1/".to_owned(), format!("http://localhost:{port}/fine")]
            .into()
    });
    // The targets of the attempts: another port on the same address, and the same port on another address.
    let (other, inside) = (Outside::start("127.0.0.1", |_| Vec::new()), Outside::start_at("127.0.0.2", home.port));
    let p = home.port;
    let hosts = [home.url(""), format!("http://localhost:{p}"), format!("http://127.0.0.2:{p}"), "http://169.254.169.254".to_owned()];
    let allowed = hosts.join(",");
    let server = Server::start_with(&[
        CODE,
        ("COUNTERSIGN_PACKAGE_ALLOWED_HOSTS", &allowed),
        ("COUNTERSIGN_PACKAGE_ALLOWED_NETWORKS", "127.0.0.1/32,169.254.0.0/16"),
    ]);
    let owner = server.owner();
    let rows = rows(&home, &other);
    let lines: Vec<_> = rows.iter().flat_map(|row| [&row.line, &row.control]).collect();
    write_asking(owner.folder(), "ask", "R1", ASK, &lines, &json!({ "hosts": hosts }));
    let answers = answers_of(&owner, "kit.ask");
    assert_eq!(answers.len(), lines.len());
    for (row, answered) in rows.iter().zip(answers.chunks(2)) {
        let refused = answered[0]["refused"].as_str().unwrap_or_else(|| panic!("{}: {answered:?}", row.attempt));
        assert!(refused.contains(row.says), "{}: {refused}", row.attempt);
        assert_eq!(answered[1]["status"], 200, "{}: its control was not let through: {answered:?}", row.attempt);
    }
    // No other target saw a connection. The allowed server received only the controls and every step of a redirect.
    assert_eq!((other.seen(), inside.seen()), (vec![], vec![]));
    let redirects = rows.iter().flat_map(|row| [&row.line, &row.control]).filter(|line| line.contains("/moved/")).count();
    let made = rows.len() + redirects;
    assert_eq!(home.seen().len(), made);
    assert!(home.seen().iter().all(|request| request.starts_with("GET /") && !request.contains("evil")), "{:?}", home.seen());
    // Each request is counted in the receipt, and logged without its path.
    let egress = egress_of(&owner);
    let sum = |name: &str| egress.iter().map(|asked| asked[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("made"), sum("refused")), (made as u64, rows.len() as u64), "{egress:?}");
    assert!(egress.iter().all(|asked| hosts.iter().any(|host| asked["host"] == **host) || asked["host"] == "other"), "{egress:?}");
    let logged = server.logged();
    let count = |what: &str| logged.lines().filter(|line| line.contains("\"egress\"") && line.contains(what)).count();
    assert_eq!((count("\"answered\""), count("\"refused\"")), (made, rows.len()), "{logged}");
    for secret in ["/fine", "meta-data", "/moved/", "passwd"] {
        assert!(!logged.lines().any(|line| line.contains("\"egress\"") && line.contains(secret)), "the log has `{secret}`");
    }
}

#[test]
fn net_egress_proxy_asks_where_a_name_leads_before_it_connects() {
    for (networks, passes) in [("", false), ("127.0.0.0/8", true)] {
        let home = Outside::start("127.0.0.1", |_| Vec::new());
        let host = format!("http://localhost:{}", home.port);
        let variables = [CODE, ("COUNTERSIGN_PACKAGE_ALLOWED_HOSTS", &host), ("COUNTERSIGN_PACKAGE_ALLOWED_NETWORKS", networks)];
        let server = Server::start_with(&variables);
        let owner = server.owner();
        write_asking(owner.folder(), "ask", "R1", ASK, &[&get(&format!("{host}/"))], &json!({ "hosts": [host] }));
        let answer = answers_of(&owner, "kit.ask").remove(0);
        assert_eq!(answer["status"] == 200, passes, "{answer}");
        assert_eq!(answer["refused"].as_str().is_some_and(|why| why.contains("`package_allowed_networks`")), !passes, "{answer}");
        assert_eq!(home.seen().len(), usize::from(passes));
        let (made, refused) = if passes { (1, 0) } else { (0, 1) };
        assert_eq!(egress_of(&owner), [json!({ "host": host, "made": made, "refused": refused })]);
    }
}

fn answers_of(owner: &User, action: &str) -> Vec<Value> {
    owner.run(&["package", "install", "kit"]).ok();
    let done = owner.run(&["action", "invoke", action, "--json"]).ok().json();
    done["result"]["answers"].as_array().unwrap_or_else(|| panic!("{done:#}")).clone()
}
