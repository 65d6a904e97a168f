//! Tests `channel`: people are told of calls that wait; what was given up is listed and asked for once more.

use crate::countersign::{Server, User};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Somebody who is told, and answers with this status.
struct Receiver {
    url: String,
    status: Arc<AtomicU16>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let status = Arc::new(AtomicU16::new(204));
        let answers = Arc::clone(&status);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                read(&mut connection);
                let text = format!("HTTP/1.1 {} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", answers.load(Ordering::SeqCst));
                let _gone = connection.write_all(text.as_bytes());
            }
        });
        Self { url, status }
    }

    fn server(&self) -> Server {
        Server::start_with(&[("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", &self.url), ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32")])
    }
}

/// Reads one request, head and body.
fn read(connection: &mut TcpStream) {
    let mut request = Vec::new();
    let mut chunk = [0; 4_096];
    loop {
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or_default() {
                return;
            }
        }
        match connection.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
}

/// Waits until the last delivery is in this state.
fn until(owner: &User, state: &str) -> String {
    let began = Instant::now();
    loop {
        let listed = owner.run(&["channel", "deliveries", "pager", "--state", state, "-o", "name"]).ok().stdout;
        if let Some(id) = listed.lines().next() {
            return id.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", owner.run(&["channel", "deliveries"]));
    }
}

#[test]
fn a_channel_is_added_tested_told_and_removed() {
    let receiver = Receiver::start();
    let server = receiver.server();
    let (owner, url) = (server.owner(), format!("{}/hook", receiver.url));
    let empty = owner.run(&["channel", "list"]).ok();
    assert!(empty.stderr.contains("no channels: countersign channel add"), "{empty:?}");
    let add = ["channel", "add", "pager", "--webhook", &url, "--secret", "hook", "--tier", "R2", "--attendance", "interactive", "--json"];
    let missing = owner.run(&add).exits(3);
    assert!(missing.stderr.contains("there is no secret `hook`"), "{missing:?}");
    let missing = owner.run(&["channel", "add", "pager", "--webhook", &url, "--secret", "hook"]).exits(3);
    assert!(missing.stderr.contains("or keep it with `countersign secret set hook --stdin`"), "{missing:?}");
    let elsewhere = owner.run(&["channel", "add", "pager", "--webhook", "http://127.0.0.1:1/hook", "--secret", "hook"]).exits(8);
    assert!(elsewhere.stderr.contains("hint: an operator allows it with `countersign allow host add`"), "{elsewhere:?}");
    owner.run_with_stdin(&["secret", "set", "hook", "--stdin"], KEY).ok();
    let added = owner.run(&add).ok().json();
    assert_eq!((&added["name"], &added["kind"], &added["tiers"]), (&json!("pager"), &json!("webhook"), &json!(["R2"])));
    assert_eq!(owner.run(&["secret", "used-by", "hook", "-o", "name"]).ok().stdout, "pager\n");
    let shown = owner.run(&["channel", "show", "pager"]).ok().stdout;
    assert!(shown.contains(&url) && shown.contains("R2 interactive") && !shown.contains(KEY), "{shown}");
    let warned = added["warnings"][0].as_str().unwrap();
    assert!(warned.contains("begin with http://") && warned.contains("`public_url`"), "{warned}");
    assert!(shown.contains("warning") && shown.contains("public_url"), "{shown}");

    assert!(owner.run(&["channel", "test", "pager"]).ok().stdout.contains("yes"));
    receiver.status.store(502, Ordering::SeqCst);
    let refused = owner.run(&["channel", "test", "pager"]).exits(1);
    assert!(refused.stdout.contains("it answered 502"), "{refused:?}");

    // It wants no messages: the notice is a dead letter at once.
    receiver.status.store(410, Ordering::SeqCst);
    owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6);
    let letter = until(&owner, "dead");
    let listed = owner.run(&["channel", "deliveries", "--state", "dead"]).ok();
    assert!(listed.stdout.starts_with(&format!("{letter}\tpager\tinv_")), "{listed:?}");
    assert!(listed.stdout.contains("it answered 410") && listed.stdout.contains("pending"), "{listed:?}");
    let status = owner.run(&["status"]).ok();
    assert!(status.stdout.contains("dead letters\t1 of channel `pager`\n"), "{status:?}");
    assert!(status.stderr.contains("next: countersign channel deliveries --state dead"), "{status:?}");
    let doctor = owner.run(&["doctor", "--json"]).json();
    let found = doctor["items"].as_array().unwrap().iter().find(|item| item["subject"] == "channel").unwrap();
    let expected = (&json!("`pager` has 1 dead letter"), &json!("countersign channel deliveries pager --state dead"));
    assert_eq!((&found["found"], &found["fix"]), expected);
    assert_eq!(owner.run(&["channel", "show", "pager", "--json=dead"]).ok().json()["dead"], 1);
    receiver.status.store(204, Ordering::SeqCst);
    let retried = owner.run(&["channel", "retry", "pager", &letter]).ok();
    assert!(retried.stderr.contains("1 dead letter is delivered once more"), "{retried:?}");
    assert_eq!(until(&owner, "sent"), letter);
    owner.run(&["channel", "retry", "pager", &letter]).exits(3);
    owner.run(&["channel", "drop", "pager", &letter]).exits(2);
    owner.run(&["channel", "drop", "pager", &letter, "--yes"]).exits(3);
    let dropped = owner.run(&["channel", "drop", "pager", "--yes"]).ok();
    assert!(dropped.stderr.contains("0 dead letters are dropped"), "{dropped:?}");

    owner.run(&["channel", "remove", "pager"]).exits(2);
    let asked = owner.on_screen(80, &["channel", "remove", "pager"], "n\n").exits(1).stdout;
    assert!(asked.contains("Remove channel `pager`?"), "{asked}");
    let removed = owner.run(&["channel", "remove", "pager", "--yes", "--json"]).ok().json();
    assert_eq!(removed, json!({ "name": "pager", "removed": true }));
    let gone = owner.run(&["channel", "test", "pager"]).exits(3);
    assert!(gone.stderr.contains("list them with `countersign channel list`"), "{gone:?}");
    owner.run(&["channel", "show", added["id"].as_str().unwrap()]).ok();
    owner.run(&["receipt", "verify"]).ok();
}
