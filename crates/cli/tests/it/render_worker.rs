//! The binary as a render worker, as its own server starts it.

use crate::crash::new_command;
use serde_json::json;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

#[test]
fn the_binary_becomes_a_render_worker_under_that_name() {
    let mut command = new_command(env!("CARGO_BIN_EXE_countersign"));
    // The bytes of its address space and its seconds of processor time, as a pool of workers gives them.
    command.arg0("countersign-worker").args(["268435456", "10"]).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut worker = command.spawn().unwrap();
    let mut requests = worker.stdin.take().unwrap();
    let template = "{% for x in inputs.tags %}{{ x | upper }} {% endfor %}";
    writeln!(requests, "{}", json!({ "form": "text", "source": template, "context": { "inputs": { "tags": ["a", "b"] } } })).unwrap();
    drop(requests);
    let ended = worker.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), "ready\n{\"done\":\"A B \"}\n");
    assert!(ended.status.success(), "{:?}", ended.status);
}
