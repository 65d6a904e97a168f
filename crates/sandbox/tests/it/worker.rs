//! Workers: what they cannot reach, and when they are killed.

use crate::harness::attempts;
use sandbox::worker::{Limits, Lost, Workers};
use std::net::TcpListener;
use std::time::Duration;

fn limits() -> Limits {
    Limits {
        workers: 1,
        cpu: Duration::from_millis(100),
        wall: Duration::from_secs(20),
        address_space_bytes: 256 * 1024 * 1024,
        requests_per_worker: 1_000,
        answer_bytes_max: 1024 * 1024,
    }
}

fn workers(limits: Limits) -> Workers {
    Workers::new(&attempts(), limits).unwrap()
}

async fn ask(workers: &Workers, request: &str) -> Result<String, Lost> {
    workers.ask(request.as_bytes()).await.map(|answer| String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn a_worker_answers_line_by_line_and_reaches_nothing_else() {
    let workers = workers(limits());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = tempfile::NamedTempFile::new().unwrap();
    let path = there.path().display();
    for (attempt, expected) in [
        ("echo hello".to_owned(), "hello"),
        (format!("read {path}"), "EPERM"),
        (format!("write {path}"), "EPERM"),
        ("read /proc/self/environ".to_owned(), "EPERM"),
        ("list /".to_owned(), "EPERM"),
        (format!("connect {}", listener.local_addr().unwrap()), "EPERM"),
        ("datagram".to_owned(), "EPERM"),
        ("start /bin/true".to_owned(), "EPERM"),
        ("thread".to_owned(), "EPERM"),
        (format!("kill {}", std::process::id()), "EPERM"),
        ("echo and on".to_owned(), "and on"),
    ] {
        assert_eq!(ask(&workers, &attempt).await.unwrap(), expected, "{attempt}");
    }
}

#[tokio::test]
async fn a_worker_that_computes_too_long_is_killed_and_replaced() {
    let workers = workers(limits());
    ask(&workers, "echo warm").await.unwrap();
    let lost = ask(&workers, "spin").await.unwrap_err();
    let Lost::Slow { cpu } = lost else { panic!("{lost:?}") };
    assert!((100..200).contains(&cpu.as_millis()), "{cpu:?}");
    assert_eq!(ask(&workers, "echo again").await.unwrap(), "again");
}

#[tokio::test]
async fn a_worker_that_hangs_without_computing_is_killed_too() {
    let workers = workers(Limits { wall: Duration::from_millis(300), ..limits() });
    assert!(matches!(ask(&workers, "hang").await.unwrap_err(), Lost::Slow { .. }));
    assert_eq!(ask(&workers, "echo again").await.unwrap(), "again");
}

#[tokio::test]
async fn a_worker_that_needs_too_much_memory_dies_and_is_replaced() {
    let workers = workers(Limits { cpu: Duration::from_secs(10), ..limits() });
    assert_eq!(ask(&workers, "allocate 1000000").await.unwrap(), "1000000");
    assert!(matches!(ask(&workers, "allocate 300000000").await.unwrap_err(), Lost::Died));
    assert_eq!(ask(&workers, "echo again").await.unwrap(), "again");
}

#[tokio::test]
async fn a_worker_that_ends_or_says_too_much_costs_its_request_alone() {
    let workers = workers(limits());
    for request in ["exit", "answer 2000000"] {
        assert!(matches!(ask(&workers, request).await.unwrap_err(), Lost::Died), "{request}");
        assert_eq!(ask(&workers, "echo again").await.unwrap(), "again");
    }
}

#[tokio::test]
async fn a_worker_is_replaced_after_its_share_of_requests() {
    let workers = workers(Limits { requests_per_worker: 2, ..limits() });
    for at in 0..7 {
        assert_eq!(ask(&workers, &format!("echo {at}")).await.unwrap(), at.to_string());
    }
}

#[tokio::test]
async fn requests_wait_for_a_worker_and_none_is_lost() {
    let workers = std::sync::Arc::new(workers(Limits { workers: 2, ..limits() }));
    let asked: Vec<_> = (0..50)
        .map(|at| {
            let workers = workers.clone();
            tokio::spawn(async move { ask(&workers, &format!("echo {at}")).await.unwrap() })
        })
        .collect();
    for (at, answer) in asked.into_iter().enumerate() {
        assert_eq!(answer.await.unwrap(), at.to_string());
    }
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_any_more_leaves_no_worker_that_answers_the_next_one_with_it() {
    let workers = workers(limits());
    ask(&workers, "echo warm").await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(20), ask(&workers, "hang")).await;
    assert!(dropped.is_err());
    assert_eq!(ask(&workers, "echo mine").await.unwrap(), "mine");
}

#[tokio::test]
async fn without_a_helper_that_becomes_a_worker_there_is_none() {
    let workers = Workers::new(std::path::Path::new("/bin/true"), limits()).unwrap();
    assert!(matches!(ask(&workers, "echo hello").await.unwrap_err(), Lost::Unavailable(_)));
}
