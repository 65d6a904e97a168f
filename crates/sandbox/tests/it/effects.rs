//! The traces an attempt leaves, or tries to leave, checked in the outcome and on the host.

use crate::harness::{Setup, Victim, answer, attempt, job, run, setups};
use sandbox::SCRATCH_FILES_MAX;
use serde_json::{Value, json};
use std::io::ErrorKind::WouldBlock;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

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
        assert_eq!(names, ["-rf", "..a", "A", "CON", "a", "a ", "a.", "cafe\u{301}", "caf\u{e9}", "nul"]);
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
fn what_is_put_aside_is_no_part_of_the_stage_and_is_gone_with_the_run() {
    // These limits are for the stage; the scratch has limits of its own, which must not change with them.
    let more = json!({ "stage_bytes": 1 << 20, "stage_files": 10 });
    each("fs_scratch", &more, |report| {
        assert_eq!(answer(report["result"].as_str().unwrap(), "found"), Some("0"), "{report}");
        assert_eq!(report["stage"]["entries"], json!([]), "{report}");
    });
    each("fs_scratch_volume", &more, |report| {
        assert_eq!(answer(report["result"].as_str().unwrap(), "left"), Some(SCRATCH_FILES_MAX.to_string().as_str()), "{report}");
        assert_eq!(report["stage"]["entries"], json!([]), "{report}");
        assert!(report["server_high_water_kb"].as_u64().unwrap() < 64 << 10, "{report}");
    });
    // A second run finds no file of the first one on its scratch.
    each("fs_scratch", &json!({ "again": true }), |report| {
        assert_eq!(answer(report["again"]["result"].as_str().unwrap(), "found"), Some("0"), "{report}");
        assert_eq!(answer(report["again"]["result"].as_str().unwrap(), "write"), Some("ok"), "{report}");
    });
}

#[test]
fn fs_metadata_outside_stays_as_it_is_also_where_it_belongs_to_whoever_runs() {
    for setup in setups() {
        let victim = Victim::new(setup);
        let folder = victim.path().parent().unwrap().to_owned();
        let mut whole = job(setup, "fs_metadata_shown", &victim.path(), &json!({}));
        whole["read_only"].as_array_mut().unwrap().push(json!([folder, "/shown"]));
        let part = job(setup, "fs_metadata_shown", &victim.path(), &json!({ "views": [[folder, "/shown", ["victim"]]] }));
        for asked in [whole, part] {
            let report = run(&asked);
            let printed = report["result"].as_str().unwrap_or_else(|| panic!("{setup:?}: {report}"));
            let answers: Vec<_> = printed.lines().filter(|line| !line.ends_with("=EROFS")).collect();
            assert_eq!((printed.lines().count(), answers), (16, vec![]), "{setup:?}: {printed}");
            victim.assert_untouched();
        }
    }
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
fn leak_mountinfo_tells_nothing_of_where_the_shown_folders_lie() {
    for setup in setups() {
        let victim = Victim::new(setup);
        let folder = victim.path().parent().unwrap().to_owned();
        let mut whole = job(setup, "leak_mountinfo", &victim.path(), &json!({}));
        whole["read_only"].as_array_mut().unwrap().push(json!([folder, "/shown"]));
        let part = job(setup, "leak_mountinfo", &victim.path(), &json!({ "views": [[folder, "/shown", ["victim"]]] }));
        for asked in [whole, part] {
            let report = run(&asked);
            let printed = report["result"].as_str().unwrap_or_else(|| panic!("{setup:?}: {report}"));
            assert_eq!(answer(printed, "shown"), Some("true"), "{setup:?}: {printed}");
            assert!(!printed.contains(folder.file_name().unwrap().to_str().unwrap()), "{setup:?}: {printed}");
        }
    }
}

#[test]
fn kernel_watches_of_a_run_are_bounded_by_the_run() {
    each("kernel_watches", &json!({}), |report| {
        assert_eq!(report["result"], "queues=8\nno_more_queues=EMFILE\nwatches=1024\n", "{report}");
    });
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
fn net_dns_asks_nobody() {
    let (tcp, udp) = neighbours_by_port();
    let more = json!({ "env": [["LISTENER", tcp.local_addr().unwrap().port().to_string()]] });
    each("net_dns", &more, |report| {
        let expected = "lookup=failed\n/run/nscd/socket=EPERM\n/var/run/nscd/socket=EPERM\ntcp=EPERM\nudp=EPERM\n";
        assert_eq!(report["result"], expected);
    });
    assert_eq!((tcp.accept().unwrap_err().kind(), udp.recv(&mut [0; 16]).unwrap_err().kind()), (WouldBlock, WouldBlock));
    // Proves that a connection to these listeners would have been noticed.
    let own = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
    assert_eq!(tcp.accept().unwrap().1, own.local_addr().unwrap());
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    own.send_to(b"seen", udp.local_addr().unwrap()).unwrap();
    assert_eq!(udp.recv_from(&mut [0; 16]).unwrap(), (4, own.local_addr().unwrap()));
}

/// A TCP and a UDP listener on the host with the same port number, both non-blocking.
fn neighbours_by_port() -> (TcpListener, UdpSocket) {
    let mut others = vec![];
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            tcp.set_nonblocking(true).unwrap();
            udp.set_nonblocking(true).unwrap();
            return (tcp, udp);
        }
        // Kept open, so that the next try gets another port.
        others.push(tcp);
    }
}

#[test]
fn net_unix_reaches_nobody_who_listens_outside() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let at = |name: &str| folder.path().join(name);
    let hidden = format!("countersign-test-{}", std::process::id());
    let name = std::os::unix::net::SocketAddr::from_abstract_name(&hidden).unwrap();
    let streams = [UnixListener::bind(at("stream")).unwrap(), UnixListener::bind_addr(&name).unwrap()];
    let datagrams = UnixDatagram::bind(at("datagram")).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    for name in ["stream", "datagram"] {
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    for listener in &streams {
        listener.set_nonblocking(true).unwrap();
    }
    // The sockets lie in a folder that the program can see, so only the refusal of socket calls protects them.
    let mut shown: Vec<_> =
        ["/usr/lib", "/lib", "/lib64"].into_iter().filter(|path| Path::new(path).exists()).map(|path| json!([path, path])).collect();
    shown.push(json!([folder.path(), "/shown"]));
    let more = json!({ "env": [["LISTENER", hidden]], "read_only": shown });
    each("net_unix", &more, |report| {
        let printed = report["result"].as_str().unwrap();
        for label in ["pathname", "pathname_datagram", "abstract", "pair_connect", "pair_sends_out", "raw_pair_sends_out"] {
            assert_eq!(answer(printed, label), Some("EPERM"), "{label}: {printed}");
        }
        assert_eq!(answer(printed, "stream_pair_sends_out"), Some("EISCONN"), "{printed}");
        for listener in &streams {
            assert_eq!(listener.accept().unwrap_err().kind(), WouldBlock);
        }
        assert_eq!(datagrams.recv(&mut [0; 16]).unwrap_err().kind(), WouldBlock);
    });
    // Proves that a connection to these listeners would have been noticed.
    let _own = (UnixStream::connect(at("stream")).unwrap(), UnixStream::connect_addr(&name).unwrap());
    assert!(streams.iter().all(|listener| listener.accept().is_ok()));
    UnixDatagram::unbound().unwrap().send_to(b"seen", at("datagram")).unwrap();
    assert_eq!(datagrams.recv(&mut [0; 16]).unwrap(), 4);
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
