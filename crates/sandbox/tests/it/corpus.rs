//! The escape corpus: the answer each attempt gets in both profiles and as both kinds of user, and the answer it gets without a jail. Group
//! 41, `net_egress_proxy`, needs a server that judges requests; it is in `crates/cli/tests/it/net_egress_proxy.rs`.

use crate::harness::{Setup, answer, attempt, control, is_root, setups};
use Without::{Is, Nothing, Other};
use serde_json::json;

/// The answer the same attempt gets outside a jail, which proves that the jail is what stopped it.
#[derive(Debug)]
enum Without {
    Is(&'static str),
    /// Another answer than in the jail; which one depends on the host.
    Other,
    /// Not checked: it is not tried, or on some hosts the answer is the same.
    Nothing,
}

struct Row {
    attempt: &'static str,
    /// The label, the answer in `default`, the answer in `high_isolation`, and the answer without a jail.
    answers: &'static [(&'static str, &'static str, &'static str, Without)],
}

#[test]
fn attempts_on_files_are_answered_as_promised() {
    check_all(files::ROWS);
}

#[test]
fn attempts_on_processes_the_kernel_and_the_network_are_answered_as_promised() {
    check_all(rest::ROWS);
}

#[test]
fn without_a_jail_the_same_attempts_do_harm() {
    if !is_root() {
        // Only root may make the namespaces that contain a control, so for anybody else the control must refuse to begin.
        let (printed, code) = control("fs_truncate_outside");
        assert_eq!(code, Some(99), "{printed}");
        return;
    }
    for row in files::ROWS.iter().chain(rest::ROWS) {
        if row.answers.iter().all(|(.., without)| matches!(without, Nothing)) {
            continue;
        }
        let (printed, code) = control(row.attempt);
        assert_eq!(code, Some(0), "{}: {printed}", row.attempt);
        assert!(printed.starts_with("contained\n"), "{}: {printed}", row.attempt);
        for (label, jailed, _, without) in row.answers {
            let found = answer(&printed, label).unwrap_or_else(|| panic!("{} said nothing about {label}: {printed}", row.attempt));
            match without {
                Is(expected) => assert_eq!(found, *expected, "{} {label} without a jail", row.attempt),
                Other => assert_ne!(found, *jailed, "{} {label} without a jail", row.attempt),
                Nothing => {}
            }
        }
    }
}

#[test]
fn an_uncontained_control_does_not_begin() {
    let (printed, code) = control("without-containment");
    assert_eq!(code, Some(99), "{printed}");
    assert!(printed.starts_with("refused=it shares the `mnt` namespace of process 1"), "{printed}");
    assert!(!printed.contains("contained"), "{printed}");
}

fn check_all(rows: &[Row]) {
    for setup in setups() {
        for row in rows {
            check(setup, row);
        }
    }
}

fn check(setup: Setup, row: &Row) {
    let report = attempt(setup, row.attempt, &json!({ "egress": row.attempt == "net_egress_fd" }));
    let printed = report["result"].as_str().unwrap_or_else(|| panic!("{setup:?} {}: {report}", row.attempt));
    assert_eq!(report["ended"], json!({ "how": "exited", "value": 0 }), "{setup:?} {}: {report}", row.attempt);
    for (label, default, high, _) in row.answers {
        let expected = if setup == Setup::RootHigh { high } else { default };
        assert_eq!(answer(printed, label), Some(*expected), "{setup:?} {} {label}: {printed}", row.attempt);
    }
}

mod files;
mod rest;
