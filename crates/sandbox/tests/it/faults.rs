//! Programs that hang, flood, fork, use too much memory or are killed. Each is stopped at its limit, and no process of it is left.

use crate::harness::{Setup, answer, attempt, setups};
use serde_json::{Value, json};

#[test]
fn time_overrun_is_ended_at_the_deadline() {
    for name in ["time_spin", "time_sleep", "time_ignore"] {
        each_until_its_deadline(name, |_, report| {
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
    // `each` asserts after every run that no process is alive. This attempt tries to leave one behind.
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
fn proc_bombs_leave_their_neighbours_alone() {
    // The bomb holds all the processes it can get while the other program starts, under the same server and, where the server is an
    // ordinary user, with the same uid.
    each("proc_bomb_held", &json!({ "processes": 40, "beside": "proc_neighbour" }), |setup, report| {
        assert_eq!(report["ended"], json!({ "how": "cancelled" }), "{setup:?} {report}");
        assert_eq!(report["lines"], json!(["full"]));
        let beside = &report["beside"];
        assert_eq!(
            (&beside["ended"], &beside["result"]),
            (&json!({ "how": "exited", "value": 0 }), &json!("made=32\n")),
            "{setup:?} {beside}"
        );
    });
}

#[test]
fn proc_signals_to_all_reach_nobody_outside() {
    // The server survives the signal and reports. So does a neighbour: it ends because it is cancelled, not before.
    each("proc_signals_to_all", &json!({}), |_, report| {
        assert_eq!(report["ended"], json!({ "how": "signalled", "value": 9 }), "{report}");
        assert_eq!(report["result"], "begun=ok\n");
    });
    each("proc_bomb_held", &json!({ "processes": 10, "beside": "proc_signals_to_all" }), |_, report| {
        assert_eq!(report["beside"]["ended"], json!({ "how": "signalled", "value": 9 }), "{report}");
        assert_eq!(report["ended"], json!({ "how": "cancelled" }), "{report}");
    });
}

#[test]
fn proc_signals_that_stop_move_no_deadline() {
    each_until_its_deadline("proc_signals_stopped", |_, report| {
        assert_eq!(report["ended"], json!({ "how": "timed_out" }), "{report}");
        assert_eq!(report["result"], "begun=ok\n");
    });
}

#[test]
fn mem_overrun_ends_at_the_bound() {
    for name in ["mem_private", "mem_children", "mem_heap", "mem_page_tables"] {
        each(name, &json!({ "memory_bytes": 64 << 20 }), |setup, report| {
            assert_eq!(report["ended"], json!({ "how": "out_of_memory" }), "{setup:?} {name}: {report}");
        });
    }
}

#[test]
fn mem_overrun_by_shared_memory_ends_at_the_bound_or_never_begins() {
    for name in ["mem_shared", "mem_dropped"] {
        each(name, &json!({ "memory_bytes": 64 << 20 }), |setup, report| {
            if is_counted(report) {
                assert_eq!(report["ended"], json!({ "how": "out_of_memory" }), "{setup:?} {name}: {report}");
            } else {
                assert_eq!(report["result"], "taken=0\nstopped=EPERM\n", "{setup:?} {name}: {report}");
            }
        });
    }
}

#[test]
fn mem_overrun_by_sockets_ends_at_the_bound() {
    each("mem_sockets", &json!({ "memory_bytes": 32 << 20 }), |setup, report| {
        assert_eq!(report["ended"], json!({ "how": "out_of_memory" }), "{setup:?}: {report}");
        let grown = if is_counted(report) { "grown=ok\n" } else { "grown=EPERM\n" };
        assert_eq!(report["result"], grown, "{setup:?}: {report}");
    });
}

#[test]
fn mem_overrun_by_one_process_is_bounded_even_if_nobody_looks() {
    each("mem_reserved", &json!({}), |setup, report| {
        let expected = if is_counted(report) { "ok" } else { "ENOMEM" };
        let expected = format!("address_space={expected}\ndata={expected}\nlike_an_interpreter=ok\n");
        assert_eq!(report["result"], expected, "{setup:?}: {report}");
    });
}

/// Whether a cgroup counts the memory of the run.
fn is_counted(report: &Value) -> bool {
    match report["facts"]["cgroup_backend"].as_str() {
        Some("v1" | "v2") => true,
        Some("none") => false,
        other => panic!("{other:?}: {report}"),
    }
}

#[test]
fn mem_overrun_counts_what_is_on_the_stage() {
    each("mem_stage", &json!({ "memory_bytes": 64 << 20, "stage_bytes": 1 << 30, "stage_files": 2000 }), |setup, report| {
        assert_eq!(report["ended"], json!({ "how": "out_of_memory" }), "{setup:?}: {report}");
    });
}

#[test]
fn mem_overrun_counts_what_was_put_aside() {
    // Less than the size of the scratch, so memory runs out first.
    each("mem_scratch", &json!({ "memory_bytes": 16 << 20 }), |setup, report| {
        assert_eq!(report["ended"], json!({ "how": "out_of_memory" }), "{setup:?}: {report}");
    });
}

#[test]
fn mem_overrun_by_pipes_ends_at_the_bound_or_at_what_a_user_may_have_of_them() {
    each("mem_pipes", &json!({ "memory_bytes": 32 << 20 }), |setup, report| {
        if is_counted(report) {
            assert_eq!(report["ended"], json!({ "how": "out_of_memory" }), "{setup:?}: {report}");
            return;
        }
        // No process holds this memory, so it cannot be measured from outside. The number of pipes and the kernel's own limit on pipes
        // bound it.
        let printed = report["result"].as_str().unwrap();
        let held: u64 = answer(printed, "held").unwrap().parse().unwrap();
        assert_eq!(answer(printed, "stopped"), Some("EMFILE"), "{setup:?}: {printed}");
        assert!(held <= bytes_of_pipes_max(), "{setup:?}: {printed}");
    });
}

/// The most bytes that the pipes of a user can hold: the kernel's limit at full size, and one or two pages for each pipe beyond it.
fn bytes_of_pipes_max() -> u64 {
    let pages: u64 = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap().trim().parse().unwrap();
    (pages + 2 * 256) * 4096 + (1 << 20)
}

#[test]
fn mem_overrun_by_what_is_read_is_let_go_of_again() {
    each("mem_page_cache", &json!({ "memory_bytes": 32 << 20 }), |setup, report| {
        assert_eq!(report["ended"], json!({ "how": "exited", "value": 0 }), "{setup:?}: {report}");
        assert_eq!(report["result"], "read_enough=true\n");
    });
}

#[test]
fn out_hostile_depth_of_folders_is_refused_and_the_server_stays_small() {
    each("out_abyss", &json!({ "stage_files": 20_000 }), |setup, report| {
        assert_eq!(report["result"], "deep=4000\n", "{setup:?}: {report}");
        let refused = report["stage"]["refused"].as_str().unwrap();
        assert!(refused.ends_with("lies deeper than 32 directories"), "{refused}");
        assert!(report["server_high_water_kb"].as_u64().unwrap() < 64 << 10, "{}", report["server_high_water_kb"]);
    });
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

/// Like `each`, for a program that runs until its deadline. On a busy machine the jail may not be ready by then; the program then gets more
/// time.
fn each_until_its_deadline(name: &str, check: impl Fn(Setup, &Value)) {
    for setup in setups() {
        let reports = [1_000, 5_000, 20_000].into_iter().map(|wall_ms| attempt(setup, name, &json!({ "wall_ms": wall_ms })));
        let mut last = Value::Null;
        for report in reports {
            last = report;
            if last["result"] == "begun=ok\n" {
                break;
            }
        }
        check(setup, &last);
    }
}
