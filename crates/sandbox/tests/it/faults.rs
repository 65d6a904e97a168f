//! Programs that hang, flood, multiply, swell or are killed: bounded every time, and nothing of them is left.

use crate::harness::{Setup, answer, attempt, setups};
use serde_json::{Value, json};

#[test]
fn time_overrun_is_ended_at_the_deadline() {
    for name in ["time_spin", "time_sleep", "time_ignore"] {
        each(name, &json!({ "wall_ms": 1000 }), |_, report| {
            assert_eq!(report["ended"], json!({ "how": "timed_out" }), "{name}");
            assert_eq!(report["result"], "begun=ok\n");
        });
    }
}

#[test]
fn watching_a_program_that_sleeps_costs_next_to_nothing() {
    each("time_sleep", &json!({ "wall_ms": 2000 }), |_, report| {
        assert!(report["cost"]["cpu_ms"].as_u64().unwrap() < 1000, "{}", report["cost"]);
    });
}

#[test]
fn what_a_program_leaves_running_dies_with_it() {
    // That nothing lives is asserted after every run; this one tries to outlive its own.
    each("proc_double_fork_survivor", &json!({}), |_, report| assert_eq!(report["result"], "left=ok\n"));
}

#[test]
fn proc_bombs_end_at_the_bound() {
    for name in ["proc_fork_bomb", "proc_thread_bomb", "proc_vfork_bomb"] {
        each(name, &json!({ "processes": 40 }), |_, report| {
            let printed = report["result"].as_str().unwrap();
            assert_eq!((answer(printed, "made"), answer(printed, "stopped")), (Some("39"), Some("EAGAIN")), "{name}");
        });
    }
}

#[test]
fn mem_overrun_ends_at_the_bound() {
    for name in ["mem_private", "mem_shared", "mem_children"] {
        each(name, &json!({ "memory_bytes": 64 << 20 }), |setup, report| {
            assert_eq!(report["ended"], json!({ "how": "out_of_memory" }), "{setup:?} {name}: {report}");
        });
    }
}

#[test]
fn out_hostile_floods_are_cut_and_the_server_stays_small() {
    for (name, stream) in [("out_flood", "result"), ("out_flood_stderr", "log")] {
        each(name, &json!({ "flood_bytes": 4 << 20 }), |_, report| {
            assert_eq!(report["ended"], json!({ "how": "flooded" }), "{name}");
            assert_eq!(report[format!("{stream}_truncated")], true);
            let kept = if stream == "result" { 1 << 20 } else { 64 << 10 };
            assert_eq!(report[stream].as_str().unwrap().len(), kept);
            assert!(report["server_high_water_kb"].as_u64().unwrap() < 64 << 10, "{}", report["server_high_water_kb"]);
        });
    }
}

#[test]
fn out_hostile_bytes_are_kept_in_the_result_and_neutralised_in_the_log() {
    each("out_bytes", &json!({}), |_, report| {
        assert_eq!(report["result"], "\u{fffd}\u{0}\u{fffd}");
        assert_eq!(report["log"], "\\u{1b}]0;taken\\u{7}\u{fffd}\\u{202e}\\u{d}\n");
    });
}

#[test]
fn a_program_may_close_its_streams_and_go_on() {
    each("out_closed", &json!({ "stdin": "x".repeat(1 << 20) }), |_, report| {
        assert_eq!(report["ended"], json!({ "how": "exited", "value": 0 }));
        assert_eq!(report["stage"]["entries"][0]["text"], "still here");
    });
}

#[test]
fn a_killed_program_is_told_apart() {
    each("killed", &json!({}), |_, report| assert_eq!(report["ended"], json!({ "how": "signalled", "value": 9 })));
}

fn each(name: &str, more: &Value, check: impl Fn(Setup, &Value)) {
    for setup in setups() {
        check(setup, &attempt(setup, name, more));
    }
}
