//! Checks that the escape corpus is complete: every group is tried in the files listed here, and every attempt belongs to a group.
//! A name counts if it is the name of a function or stands alone between quotes. The files are read as plain text, line by line, without
//! comments.

use crate::workspace::{File, files_below, root};
use std::collections::{BTreeMap, BTreeSet};

/// The escape attempts that use one means.
struct Group {
    name: &'static str,
    /// The test files that must name it.
    tried_in: &'static [&'static str],
    /// Attempts that belong to the group but have names of their own.
    parts: &'static [&'static str],
}

const FILES: &str = "crates/sandbox/tests/it/corpus/files.rs";
const REST: &str = "crates/sandbox/tests/it/corpus/rest.rs";
const EFFECTS: &str = "crates/sandbox/tests/it/effects.rs";
const FAULTS: &str = "crates/sandbox/tests/it/faults.rs";
const ESCAPES: &str = "crates/sources/src/package/escape_tests.rs";
const ALIASES: &str = "crates/sources/src/package/alias_tests.rs";
const SWAPS: &str = "crates/sources/src/package/swap_tests.rs";
const PACKAGES: &str = "crates/cli/tests/it/package_escapes.rs";
const CRASH: &str = "crates/cli/tests/it/package_crash.rs";
const PROXY: &str = "crates/cli/tests/it/net_egress_proxy.rs";
const RESIDENT: &str = "crates/sandbox/tests/it/resident.rs";
const RELAY: &str = "crates/sources/src/relay_tests.rs";
const RELAYED: &str = "crates/cli/tests/it/relay.rs";

/// All groups in the order of their numbers, which start at 1.
#[rustfmt::skip]
const CORPUS: [Group; 56] = [
    Group { name: "fs_dotdot_in_param", tried_in: &[ESCAPES, PACKAGES], parts: &[] },
    Group { name: "fs_absolute_param", tried_in: &[ESCAPES, PACKAGES], parts: &[] },
    Group { name: "fs_proc_self_root", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_proc_fd_dotdot", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_proc_of_server", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_symlink_in_stage", tried_in: &[FILES, EFFECTS], parts: &[] },
    Group { name: "fs_symlink_swap_during_commit", tried_in: &[SWAPS], parts: &[] },
    Group { name: "fs_directory_swap_race", tried_in: &[SWAPS], parts: &[] },
    Group { name: "fs_hardlink_from_outside", tried_in: &[FILES], parts: &["fs_hardlink_inside"] },
    Group { name: "fs_rename_across", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_metadata_outside", tried_in: &[FILES, EFFECTS], parts: &["fs_metadata_shown"] },
    Group { name: "fs_existence_oracle", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_truncate_outside", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_tmpfile_linkat", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_open_by_handle", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_mknod", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_fifo_in_stage", tried_in: &[FILES, EFFECTS], parts: &[] },
    Group { name: "fs_setid_bits", tried_in: &[FILES, EFFECTS], parts: &[] },
    Group { name: "fs_odd_names", tried_in: &[FILES, EFFECTS], parts: &["fs_name_with_newline", "fs_name_of_bytes"] },
    Group { name: "fs_volume", tried_in: &[FILES, EFFECTS], parts: &["fs_many_files", "fs_deep", "fs_scratch_volume"] },
    Group { name: "fs_write_own_package", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_forbidden_by_alias", tried_in: &[ALIASES], parts: &[] },
    Group { name: "fs_overlay_whiteout", tried_in: &[FILES], parts: &[] },
    Group { name: "fs_artifact_names", tried_in: &[ESCAPES, PACKAGES], parts: &[] },
    Group { name: "proc_inspect_server", tried_in: &[REST], parts: &[] },
    Group { name: "proc_signals", tried_in: &[REST, FAULTS], parts: &["proc_signals_to_all", "proc_signals_stopped"] },
    Group { name: "proc_double_fork_survivor", tried_in: &[REST, FAULTS], parts: &[] },
    Group { name: "proc_bombs", tried_in: &[FAULTS], parts: &["proc_fork_bomb", "proc_thread_bomb", "proc_vfork_bomb", "proc_bomb_held", "proc_neighbour"] },
    Group { name: "proc_exec_from_stage", tried_in: &[REST], parts: &[] },
    Group { name: "proc_memfd_exec", tried_in: &[REST], parts: &[] },
    Group { name: "proc_setuid_binary", tried_in: &[REST, EFFECTS], parts: &[] },
    Group { name: "proc_nested_userns", tried_in: &[REST], parts: &[] },
    Group { name: "proc_setns", tried_in: &[REST], parts: &[] },
    Group { name: "proc_foreign_abi", tried_in: &[REST], parts: &[] },
    Group { name: "proc_seccomp_listener", tried_in: &[REST], parts: &[] },
    Group { name: "proc_kernel_surfaces", tried_in: &[REST], parts: &[] },
    Group { name: "net_inet", tried_in: &[REST], parts: &[] },
    Group { name: "net_families", tried_in: &[REST], parts: &[] },
    Group { name: "net_dns", tried_in: &[EFFECTS], parts: &[] },
    Group { name: "net_unix", tried_in: &[REST, EFFECTS], parts: &[] },
    Group { name: "net_egress_proxy", tried_in: &[PROXY], parts: &["net_egress_fd"] },
    Group { name: "leak_env_argv", tried_in: &[EFFECTS], parts: &[] },
    Group { name: "leak_fds", tried_in: &[EFFECTS], parts: &[] },
    Group { name: "out_hostile", tried_in: &[FAULTS, PACKAGES], parts: &["out_flood", "out_flood_stderr", "out_bytes", "out_closed", "out_abyss"] },
    Group { name: "time_overrun", tried_in: &[FAULTS], parts: &["time_spin", "time_sleep", "time_ignore"] },
    Group { name: "mem_overrun", tried_in: &[FAULTS], parts: &["mem_private", "mem_shared", "mem_dropped", "mem_page_tables", "mem_sockets", "mem_reserved", "mem_children", "mem_heap", "mem_stage", "mem_scratch", "mem_pipes", "mem_page_cache"] },
    Group { name: "ipc_sysv_mq", tried_in: &[REST], parts: &[] },
    Group { name: "tty_injection", tried_in: &[REST], parts: &[] },
    Group { name: "core_dump_to_pipe", tried_in: &[EFFECTS], parts: &[] },
    Group { name: "dev_nodes", tried_in: &[REST], parts: &[] },
    Group { name: "kernel_writes", tried_in: &[REST], parts: &[] },
    Group { name: "clock", tried_in: &[REST], parts: &[] },
    Group { name: "commit_crash", tried_in: &[CRASH], parts: &[] },
    Group { name: "leak_mountinfo", tried_in: &[REST, EFFECTS], parts: &[] },
    Group { name: "kernel_watches", tried_in: &[EFFECTS], parts: &[] },
    Group { name: "net_relay", tried_in: &[RESIDENT, RELAY, RELAYED], parts: &[] },
];

/// Attempts that try no escape, but show that the other promises hold.
const OTHERS: &[&str] = &["nothing", "killed", "mounts", "fs_kept", "fs_unreadable", "fs_seen", "fs_scratch", "fs_metadata_own"];

/// The beginnings of the names of groups and attempts.
const KINDS: &[&str] = &["fs_", "proc_", "net_", "leak_", "out_", "time_", "mem_", "ipc_", "tty_", "core_", "dev_", "kernel_", "commit_"];

#[test]
fn every_group_of_the_corpus_is_tried_where_the_table_says() {
    let files = read_all();
    let broken: Vec<_> = CORPUS.iter().enumerate().flat_map(|(at, group)| untried(at + 1, group, &files)).collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn every_attempt_and_every_test_named_like_one_belongs_to_a_group() {
    let broken = strangers(&read_all());
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn what_the_tables_of_the_jail_try_can_be_tried() {
    let files = read_all();
    let listed: BTreeSet<_> = files.iter().filter(|(path, _)| !is_of_tests(path)).flat_map(|(_, text)| attempts(text)).collect();
    for group in &CORPUS {
        let own = (group.tried_in.contains(&FILES) || group.tried_in.contains(&REST)).then_some(group.name);
        for name in group.parts.iter().copied().chain(own) {
            assert!(listed.contains(name), "`{name}` is no attempt: {listed:?}");
        }
    }
}

#[test]
fn every_group_stands_once_in_the_table_and_in_the_document() {
    let names: BTreeSet<_> = CORPUS.iter().map(|group| group.name).collect();
    assert_eq!(names.len(), CORPUS.len());
    let document = std::fs::read_to_string(root().join("docs/concepts/sandbox.md")).unwrap();
    for (at, group) in CORPUS.iter().enumerate() {
        let row = format!("| {} | `{}` |", at + 1, group.name);
        assert!(document.contains(&row), "`docs/concepts/sandbox.md` has no row `{row}`");
    }
}

fn read_all() -> BTreeMap<String, String> {
    let folders = ["crates/sandbox/tests/it", "crates/sandbox/attempts", "crates/sources/src", "crates/cli/tests/it"];
    let files = folders.iter().flat_map(|folder| files_below(folder));
    let sources = |path: &str| path.starts_with("crates/sources/src/package/") || path == RELAY;
    files.filter(|file| !file.path.starts_with("crates/sources/") || sources(&file.path)).map(|File { path, text }| (path, text)).collect()
}

/// The parts of a group that the listed files do not try.
fn untried(number: usize, group: &Group, files: &BTreeMap<String, String>) -> Vec<String> {
    let mut broken = vec![];
    for path in group.tried_in {
        if !files.get(*path).is_some_and(|text| names(text).any(|name| belongs_to(name, group.name))) {
            broken.push(format!("{number} `{}` is not tried in `{path}`", group.name));
        }
    }
    if group.tried_in.is_empty() {
        broken.push(format!("{number} `{}` is tried nowhere", group.name));
    }
    for part in group.parts {
        let is_tried = files.iter().any(|(path, text)| is_of_tests(path) && quoted(text).any(|word| word == *part));
        if !is_tried {
            broken.push(format!("{number} `{}`: no test runs the attempt `{part}`", group.name));
        }
    }
    broken
}

/// Attempts that belong to no group.
fn strangers(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut broken = vec![];
    let run: BTreeSet<_> = files.iter().filter(|(path, _)| is_of_tests(path)).flat_map(|(_, text)| names(text)).collect();
    for (path, text) in files {
        let known =
            |name: &str| OTHERS.contains(&name) || CORPUS.iter().any(|group| belongs_to(name, group.name) || group.parts.contains(&name));
        let tried: BTreeSet<_> = if is_of_tests(path) { tests(text).collect() } else { attempts(text).collect() };
        let strangers = tried.iter().filter(|name| !known(name));
        broken.extend(strangers.map(|name| format!("{path}: `{name}` is in no group of the corpus")));
        if !is_of_tests(path) {
            broken.extend(tried.difference(&run).map(|name| format!("{path}: no test runs `{name}`")));
        }
    }
    broken
}

fn is_of_tests(path: &str) -> bool {
    !path.starts_with("crates/sandbox/attempts/")
}

/// The name of a test may say more than the name of its group.
fn belongs_to(name: &str, group: &str) -> bool {
    name.match_indices(group).any(|(at, _)| {
        let ends = |character: Option<char>| character.is_none_or(|character| character == '_');
        ends(name[..at].chars().next_back()) && ends(name[at + group.len()..].chars().next())
    })
}

/// Quoted words, and names of functions.
fn names(text: &str) -> impl Iterator<Item = &str> {
    quoted(text).chain(functions(text))
}

/// The texts between two quotes of one line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    code(text).flat_map(|line| line.split('"').skip(1).step_by(2))
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    let after = code(text).filter_map(|line| line.split_once("fn ").map(|(_, rest)| rest));
    after.filter_map(|rest| rest.split(|character: char| !character.is_alphanumeric() && character != '_').next())
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Functions that are named like an attempt.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    functions(text).filter(|name| KINDS.iter().any(|kind| name.starts_with(kind)))
}

/// The attempts that the attempt program offers: the quoted words of its lists.
fn attempts(text: &str) -> impl Iterator<Item = &str> {
    let list = text.split_once("const ALL: &[(&str, Attempt)]").and_then(|(_, rest)| rest.split_once("];"));
    quoted(list.map_or("", |(list, _)| list))
}

#[test]
fn what_is_not_tried_and_what_is_in_no_group_is_noticed() {
    let group = Group { name: "fs_mknod", tried_in: &[FILES], parts: &["fs_part"] };
    for (text, expected) in [
        ("const A: &str = \"fs_mknod\"; const B: &str = \"fs_part\";", vec![]),
        ("fn fs_mknod_is_refused() { \"fs_part\" }", vec![]),
        ("// fs_mknod\nfn fs_mknodes() { \"fs_part\" }", vec!["16 `fs_mknod` is not tried in `crates/sandbox/tests/it/corpus/files.rs`"]),
        ("fn fs_mknod() {}", vec!["16 `fs_mknod`: no test runs the attempt `fs_part`"]),
    ] {
        let files = BTreeMap::from([(FILES.to_owned(), text.to_owned())]);
        assert_eq!(untried(16, &group, &files), expected, "{text}");
    }
    let list =
        "pub(crate) const ALL: &[(&str, Attempt)] = &[\n    (\"fs_new\", new),\n    (\"fs_mknod\", mknod),\n];\nfn new() { \"fs_other\" }";
    let attempts = "crates/sandbox/attempts/files.rs";
    let files = BTreeMap::from([(attempts.to_owned(), list.to_owned()), (FILES.to_owned(), "fn net_novel() { \"fs_mknod\" }".to_owned())]);
    let expected = [
        format!("{attempts}: `fs_new` is in no group of the corpus"),
        format!("{attempts}: no test runs `fs_new`"),
        format!("{FILES}: `net_novel` is in no group of the corpus"),
    ];
    assert_eq!(strangers(&files), expected);
}
