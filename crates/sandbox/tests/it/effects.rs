//! What an attempt leaves behind, or would like to: looked at in the outcome and on the host.

use crate::harness::{Setup, answer, attempt, setups};
use serde_json::{Value, json};

#[test]
fn a_stage_with_anything_odd_is_refused_whole() {
    for (name, sentence) in [
        ("fs_symlink_in_stage", "stage entry `link` is a symbolic link: only files and directories are taken"),
        ("fs_fifo_in_stage", "stage entry `fifo` is a fifo: only files and directories are taken"),
        ("fs_hardlink_inside", "stage entry `one` has 2 names: a file with a second name is not taken"),
        ("fs_setid_bits", "stage entry `sticky` carries a setuid, setgid or sticky bit"),
        ("fs_name_with_newline", "stage entry `a\\nb` has a name that is not taken: it has a control character or a backslash"),
        ("fs_name_of_bytes", "stage entry `a\u{fffd}b` has a name that is not taken: it is not UTF-8"),
        ("fs_unreadable", "stage entry `unreadable` cannot be read by its owner"),
    ] {
        each(name, &json!({}), |report| assert_eq!(report["stage"], json!({ "refused": sentence })));
    }
    each("fs_deep", &json!({}), |report| {
        assert!(report["stage"]["refused"].as_str().unwrap().ends_with("lies deeper than 32 directories"), "{report}");
    });
}

#[test]
fn what_was_written_is_read_back_exactly() {
    each("fs_kept", &json!({ "stdin": "what it was told" }), |report| {
        let expected = json!([
            { "path": "folder", "mode": 0o700, "text": null },
            { "path": "folder/file.txt", "mode": 0o600, "text": "what it wrote" },
        ]);
        assert_eq!(report["stage"]["entries"], expected);
        assert_eq!(answer(report["result"].as_str().unwrap(), "stdin"), Some("what it was told"));
        assert_eq!(report["log"], "first line\nsecond \\u{1b}[31mline\n");
        assert_eq!(report["lines"], json!(["first line", "second \\u{1b}[31mline"]));
    });
}

#[test]
fn names_are_never_merged() {
    each("fs_odd_names", &json!({}), |report| {
        let entries = report["stage"]["entries"].as_array().unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
        assert_eq!(names, ["-rf", "..a", "A", "CON", "a", "a ", "a.", "cafe\u{301}", "caf\u{e9}"]);
        assert!(entries.iter().all(|entry| entry["path"] == entry["text"]), "{report}");
    });
}

#[test]
fn the_stage_ends_where_its_bounds_are() {
    each("fs_many_files", &json!({}), |report| assert_eq!(report["stage"]["entries"].as_array().unwrap().len(), 100));
    each("fs_volume", &json!({}), |report| {
        assert!(report["stage"]["entries"].is_array(), "{report}");
        assert!(report["server_high_water_kb"].as_u64().unwrap() < 64 << 10, "{report}");
    });
}

#[test]
fn the_host_is_not_in_the_environment_the_arguments_or_the_descriptors() {
    each("leak_env_argv", &json!({}), |report| {
        let printed = report["result"].as_str().unwrap();
        assert_eq!((answer(printed, "env"), answer(printed, "environ")), (Some("[]"), Some("Some(\"\")")), "{printed}");
        assert!(!printed.contains("the server's own"), "{printed}");
    });
    let with_env = json!({ "env": [["LANG", "C"]] });
    each("leak_env_argv", &with_env, |report| assert!(report["result"].as_str().unwrap().contains("env=[(\"LANG\", \"C\")]"), "{report}"));
    each("leak_fds", &json!({}), |report| assert_eq!(report["result"], "open=0,1,2\n"));
    each("leak_fds", &json!({ "egress": true }), |report| assert_eq!(report["result"], "open=0,1,2,3\n"));
}

#[test]
fn a_program_is_nobody_inside_and_dumps_no_core() {
    each("proc_setuid_binary", &json!({}), |report| {
        assert_eq!(answer(report["result"].as_str().unwrap(), "uid"), Some("65534"));
    });
    each("core_dump_to_pipe", &json!({}), |report| {
        assert_eq!(report["ended"], json!({ "how": "signalled", "value": 6 }));
        assert_eq!(answer(report["result"].as_str().unwrap(), "limit"), Some("(1, 1)"));
        assert_eq!(report["stage"]["entries"], json!([]));
    });
}

#[test]
fn no_name_is_looked_up() {
    each("net_dns", &json!({}), |report| assert_eq!(report["result"], "lookup=failed\n"));
}

#[test]
fn an_outcome_says_how_it_was_isolated() {
    for setup in setups() {
        let report = attempt(setup, "nothing", &json!({}));
        let facts = &report["facts"];
        assert_eq!(facts["profile"], setup.profile(), "{report}");
        assert!(facts["landlock_abi"].as_i64().unwrap() >= 6, "{report}");
        assert_eq!(facts["seccomp_sha256"].as_str().unwrap().len(), 64);
        assert_eq!(facts["degraded"], json!([]));
        let namespaces = facts["namespaces"].as_array().unwrap().len();
        assert_eq!(namespaces, if setup == Setup::RootHigh { 8 } else { 6 });
        if setup == Setup::RootHigh {
            assert_ne!(facts["cgroup_backend"], "none");
        }
    }
}

fn each(name: &str, more: &Value, check: impl Fn(&Value)) {
    for setup in setups() {
        check(&attempt(setup, name, more));
    }
}
