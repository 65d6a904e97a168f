//! Residents: their owner talks to them while they run, they have limits, and they end with their owner.

use crate::harness::alive;
use crate::server::{SOON, groups_of, mark, sandbox, spec, wait_until};
use countersign_core::egress::{Egress, Refused, Request, Response};
use countersign_core::limits::RELAY_PORTS_MAX;
use sandbox::{Bind, Ended, Error, Network, Profile, Program, Resident, Sandbox, Spec, Stay, Stdout, Step, digest_of, egress};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// Defaults whose grace period no passing test uses up.
const STAY: Stay = Stay { cpu_percent: 200, line_bytes_max: 1 << 20, stderr_bytes_max: 4096, grace: SOON };

/// A program of the host, with the folders it needs visible to it.
fn program(path: &str, args: &[&str]) -> Spec {
    let path = Path::new(path).canonicalize().unwrap();
    let mut spec = spec("none");
    spec.program = Program { digest: digest_of(&path).unwrap(), path };
    spec.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    spec.read_only.push(Bind { host: "/usr/bin".into(), jail: "/usr/bin".into() });
    spec
}

/// A shell whose `$1` is the mark by which `alive` finds it.
fn shell(script: &str) -> Spec {
    let mut spec = program("/bin/sh", &["-c", script, "sh", &mark()]);
    spec.env = vec![("PATH".to_owned(), "/usr/bin".to_owned())];
    spec
}

async fn start(sandbox: &Sandbox, spec: Spec) -> Resident {
    sandbox.start(spec, STAY, ()).await.unwrap()
}

async fn line(stdout: &mut BufReader<Stdout>) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    line
}

async fn all_of(resident: &mut Resident) -> String {
    let mut printed = String::new();
    resident.stdout.read_to_string(&mut printed).await.unwrap();
    printed
}

/// The peak memory of this process.
fn high_water_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_answer_line_by_line_in_every_profile_until_their_stdin_ends() {
    let sandbox = sandbox();
    for profile in Profile::ALL.into_iter().filter(|profile| sandbox.offers(*profile).is_ok()) {
        let cat = || Spec { profile, ..program("/usr/bin/cat", &[]) };
        let (one, two) = (start(&sandbox, cat()).await, start(&sandbox, cat()).await);
        assert_eq!((one.facts.profile, one.facts.proc), (profile, true));
        let mut both = [(one.stdin, BufReader::new(one.stdout), one.child, "a"), (two.stdin, BufReader::new(two.stdout), two.child, "b")];
        for round in 0..3 {
            for (stdin, stdout, _, name) in &mut both {
                let said = format!("{name} {round}\n");
                stdin.write_all(said.as_bytes()).await.unwrap();
                assert_eq!(line(stdout).await, said);
            }
        }
        for (stdin, mut stdout, child, _) in both {
            drop(stdin);
            assert_eq!(line(&mut stdout).await, "");
            assert_eq!(child.ended().await.unwrap(), Ended::Exited(0));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_lines_waits_for_its_reader_and_ends_with_it() {
    let mut resident = start(&sandbox(), shell("echo $1; exec yes $1")).await;
    let before = high_water_kb();
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..1 << 10 {
        resident.stdout.read_exact(&mut buffer).await.unwrap();
    }
    let grown = high_water_kb() - before;
    assert!(grown < 16 << 10, "64 MiB went through, and {grown} KiB stayed");
    drop(resident);
    wait_until("everything is dead", || alive().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_does_not_end_is_the_end_of_the_program() {
    let mut resident = start(&sandbox(), spec("out_flood")).await;
    let error = resident.stdout.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    drop(resident.stdin);
    drop(resident.stdout);
    assert_eq!(resident.child.ended().await.unwrap(), Ended::Flooded);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_flood_of_stderr_the_last_lines_are_kept_and_the_rest_is_counted() {
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo \"line $i\" >&2; done; echo done; read answer; echo \"$answer\"";
    let mut resident = start(&sandbox(), shell(script)).await;
    resident.stdin.write_all(b"still here\n").await.unwrap();
    assert_eq!(all_of(&mut resident).await, "done\nstill here\n");
    assert_eq!(resident.child.ended().await.unwrap(), Ended::Exited(0));
    let tail = resident.child.stderr();
    assert_eq!(tail.lines.back().unwrap(), "line 20000");
    assert_eq!(tail.dropped + tail.lines.len() as u64, 20_000);
    assert!(tail.lines.iter().map(String::len).sum::<usize>() <= STAY.stderr_bytes_max);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_asked_to_end_before_it_is_killed() {
    let polite = start(&sandbox(), shell("trap 'echo bye; exit 7' TERM; echo ready; read answer")).await;
    let mut stdout = BufReader::new(polite.stdout);
    assert_eq!(line(&mut stdout).await, "ready\n");
    polite.child.end();
    assert_eq!(line(&mut stdout).await, "bye\n");
    assert_eq!(polite.child.ended().await.unwrap(), Ended::Exited(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ignores_sigterm_is_killed_after_its_grace_with_everything_it_started() {
    let sandbox = sandbox();
    let script = "trap '' TERM HUP; sh -c 'while :; do sleep 1; done' \"$1\" & echo ready; wait; while :; do sleep 1; done";
    let stubborn = sandbox.start(shell(script), Stay { grace: Duration::from_millis(100), ..STAY }, ()).await.unwrap();
    let mut stdout = BufReader::new(stubborn.stdout);
    assert_eq!(line(&mut stdout).await, "ready\n");
    stubborn.child.end();
    assert_eq!(stubborn.child.ended().await.unwrap(), Ended::Cancelled);
    assert!(alive().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_started_dies_with_it_and_with_its_owner() {
    let sandbox = sandbox();
    let start_another = "sh -c 'while :; do sleep 1; done' \"$1\" > /dev/null & echo ready;";
    let ends = start(&sandbox, shell(&format!("{start_another} read answer"))).await;
    let mut stdout = BufReader::new(ends.stdout);
    assert_eq!(line(&mut stdout).await, "ready\n");
    drop(ends.stdin);
    ends.child.ended().await.unwrap();
    assert!(alive().is_empty());

    // `place` is dropped only when every process is dead.
    let (place, gone) = std::sync::mpsc::channel::<()>();
    let stays = sandbox.start(shell(&format!("trap 'exit 0' TERM; {start_another} wait; wait")), STAY, place).await.unwrap();
    let mut stdout = BufReader::new(stays.stdout);
    assert_eq!(line(&mut stdout).await, "ready\n");
    assert!(!alive().is_empty());
    drop(stays.child);
    assert!(gone.recv_timeout(SOON).is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected));
    assert!(alive().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_processes_are_bounded() {
    let sandbox = sandbox();
    let mut hungry = spec("mem_private");
    hungry.limits.memory_bytes = 64 << 20;
    assert_eq!(start(&sandbox, hungry).await.child.ended().await.unwrap(), Ended::OutOfMemory);
    let mut many = spec("proc_fork_bomb");
    many.limits.processes = 16;
    let mut resident = start(&sandbox, many).await;
    assert!(all_of(&mut resident).await.contains("EAGAIN"));
}

/// Checks the throttling only where a cgroup limits the processor; an ordinary user has none.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_spins_has_to_wait_and_is_not_killed_for_it() {
    let stay = Stay { cpu_percent: 10, ..STAY };
    let resident = sandbox().start(spec("time_spin"), stay, ()).await.unwrap();
    let groups = groups_of(Path::new("/sys/fs/cgroup"), std::process::id(), 0);
    let bounded = |folder: &&std::path::PathBuf| {
        let quota = std::fs::read_to_string(folder.join("cpu.cfs_quota_us")).or_else(|_| std::fs::read_to_string(folder.join("cpu.max")));
        quota.is_ok_and(|quota| quota.trim() == "10000" || quota.trim() == "10000 100000")
    };
    if let Some(group) = groups.iter().find(bounded) {
        wait_until("it was made to wait", || {
            let stat = std::fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
            stat.lines().any(|line| line.strip_prefix("nr_throttled ").is_some_and(|count| count != "0"))
        });
    }
    assert!(!alive().is_empty());
    resident.child.end();
    assert_eq!(resident.child.ended().await.unwrap(), Ended::Signalled(libc::SIGTERM));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_the_environment_it_was_given_no_network_and_nothing_of_the_host() {
    let sandbox = sandbox();
    let mut env = program("/usr/bin/env", &[]);
    env.env = vec![("GIVEN".to_owned(), "this".to_owned())];
    assert_eq!(all_of(&mut start(&sandbox, env).await).await, "GIVEN=this\n");

    let answers = all_of(&mut start(&sandbox, spec("net_inet")).await).await;
    assert!(answers.lines().count() == 7 && answers.lines().all(|line| line.ends_with("=EPERM")), "{answers}");

    let data = tempfile::tempdir().unwrap();
    let secret = data.path().join("master.key");
    std::fs::write(&secret, "secret").unwrap();
    let mut reads = start(&sandbox, program("/usr/bin/cat", &[secret.to_str().unwrap(), "/etc/passwd"])).await;
    assert_eq!(all_of(&mut reads).await, "");
    assert_eq!(reads.child.ended().await.unwrap(), Ended::Exited(1));
    assert!(reads.child.stderr().lines.iter().all(|line| line.ends_with("No such file or directory")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_begin_is_an_error_of_its_start() {
    let sandbox = sandbox();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().join("no-program");
    std::fs::write(&path, "not a program").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut text = spec("nothing");
    text.program = Program { digest: digest_of(&path).unwrap(), path };
    assert!(matches!(sandbox.start(text, STAY, ()).await, Err(Error::Unavailable { step: Step::Exec, .. })));
    let mut other = spec("nothing");
    other.program.digest = [0; 32];
    assert!(matches!(sandbox.start(other, STAY, ()).await, Err(Error::OtherProgram { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_nobody_awaits_any_more_leaves_nothing() {
    let sandbox = sandbox();
    for patience_ms in [0, 1, 5] {
        let (place, gone) = std::sync::mpsc::channel::<()>();
        let starting = sandbox.start(spec("time_ignore"), Stay { grace: Duration::from_millis(1), ..STAY }, place);
        drop(tokio::time::timeout(Duration::from_millis(patience_ms), starting).await);
        assert!(gone.recv_timeout(SOON).is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected));
        assert!(alive().is_empty());
    }
}

/// Answers with the URL of the request.
#[derive(Debug)]
struct Echo;

impl Egress for Echo {
    fn request(&self, request: Request) -> countersign_core::Future<'_, Result<Response, Refused>> {
        Box::pin(async move { Ok(Response { status: 200, headers: vec![("asked".to_owned(), request.url)], body: vec![] }) })
    }

    fn refused(&self, _: &Refused) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_may_ask_others_asks_as_often_as_it_lives() {
    let asks =
        "while read url; do echo \"{\\\"method\\\":\\\"GET\\\",\\\"url\\\":\\\"$url\\\"}\" >&3; read answer <&3; echo \"$answer\"; done";
    let (proxy, theirs) = egress::pair().unwrap();
    let serving = tokio::spawn(async move { proxy.serve(&Echo, usize::MAX).await });
    let resident = start(&sandbox(), Spec { egress: Some(theirs), ..shell(asks) }).await;
    let (mut stdin, mut stdout) = (resident.stdin, BufReader::new(resident.stdout));
    for number in 0..3 {
        stdin.write_all(format!("https://example.com/{number}\n").as_bytes()).await.unwrap();
        let answer = line(&mut stdout).await;
        assert!(answer.contains(&format!("\"asked\",\"https://example.com/{number}\"")), "{answer}");
    }
    drop(stdin);
    assert_eq!(resident.child.ended().await.unwrap(), Ended::Exited(0));
    // `serve` returns, because nobody holds the program's end any more.
    serving.await.unwrap().unwrap();
}

/// What a program prints until it ends.
async fn printed(sandbox: &Sandbox, spec: Spec) -> String {
    let mut resident = start(sandbox, spec).await;
    let printed = all_of(&mut resident).await;
    assert_eq!(resident.child.ended().await.unwrap(), Ended::Exited(0), "{:?}", resident.child.stderr());
    printed
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_writes_to_its_folder_is_there_for_the_next_one_and_can_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("given"), "given").unwrap();
    let sandbox = sandbox();
    let in_folder = |script: &str| Spec { folder: Some(folder.path().to_owned()), ..shell(script) };
    let script = "pwd; mkdir -p a/b; echo kept > a/b/x; mv a/b/x a/y; ln -s /etc/passwd out; ln a/y again; cat given; echo; \
        cp /usr/bin/true run; chmod 755 run; ./run || echo no exec; mknod device c 1 3 || echo no device; \
        chmod u+s run || echo no setuid; cat out || echo no way out; cat ../etc/passwd || echo no way up";
    let expected = "/data\ngiven\nno exec\nno device\nno setuid\nno way out\nno way up\n";
    assert_eq!(printed(&sandbox, in_folder(script)).await, expected);
    // Where the server is root, each run has another uid, and the next one has it all the same.
    let other = start(&sandbox, shell("read answer")).await;
    assert_eq!(printed(&sandbox, in_folder("cat a/y; echo more >> a/y; rm -r a/b given again; cat a/y")).await, "kept\nkept\nmore\n");
    drop(other);
    assert_eq!(std::fs::read_to_string(folder.path().join("a/y")).unwrap(), "kept\nmore\n");
    assert_eq!(std::fs::read_link(folder.path().join("out")).unwrap(), Path::new("/etc/passwd"));
    // Without it there is no such folder, and no program sees that of another.
    assert_eq!(printed(&sandbox, shell("ls /data || echo none")).await, "none\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_a_folder_is_larger_than_it_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec =
        Spec { folder: Some(folder.path().to_owned()), ..shell("trap '' XFSZ; head -c 3000000 /dev/urandom > x || echo too large") };
    spec.limits.file_bytes = 1 << 20;
    assert_eq!(printed(&sandbox(), spec).await, "too large\n");
    assert_eq!(std::fs::metadata(folder.path().join("x")).unwrap().len(), 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_has_as_many_files_open_as_it_was_allowed() {
    let opens = |open_files| {
        let code = "files = []\ntry:\n    while len(files) < 2000: files.append(open('/dev/null'))\nexcept OSError as error: print(error.errno)\nprint(len(files))";
        let mut spec = program("/usr/bin/python3", &["-I", "-c", code]);
        spec.limits.open_files = open_files;
        spec
    };
    assert_eq!(printed(&sandbox(), opens(4096)).await, "2000\n");
    let few = printed(&sandbox(), opens(256)).await;
    assert!(few.starts_with("24\n"), "{few}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_started_under_the_name_that_it_is_given() {
    let named = Spec {
        name: Some("/opt/venv/bin/python".to_owned()),
        ..program("/usr/bin/python3", &["-I", "-c", "import sys; print(sys.orig_argv[0])"])
    };
    assert_eq!(printed(&sandbox(), named).await, "/opt/venv/bin/python\n");
}

/// A spec whose program sees a network with these ports.
fn seeing(spec: Spec, ports: &[u16]) -> Spec {
    Spec { network: Some(Network { ports: ports.into() }), ..spec }
}

/// Waits for a datagram, or for a packet that a raw socket hears.
async fn heard(socket: &UdpSocket) -> Vec<u8> {
    let socket = tokio::net::UdpSocket::from_std(socket.try_clone().unwrap()).unwrap();
    let mut packet = vec![0; 256];
    let length = socket.recv(&mut packet).await.unwrap();
    packet.truncate(length);
    packet
}

#[tokio::test(flavor = "multi_thread")]
async fn net_relay_gets_every_connection_and_hears_what_has_no_place() {
    let script = "exec 3<>/dev/tcp/93.184.216.34/8080; echo asked >&3; read answer <&3; echo \"$answer\"; \
        (exec 4<>/dev/tcp/127.0.0.7/9999) 2>/dev/null || echo nobody; echo lost >/dev/udp/9.9.9.9/53; echo sent; read answer";
    let mut asks = seeing(program("/bin/bash", &["-c", script, "bash", &mark()]), &[8080, 8081]);
    asks.env = vec![("PATH".to_owned(), "/usr/bin".to_owned())];
    let resident = start(&sandbox(), asks).await;
    let sockets = resident.network.unwrap();
    assert_eq!(sockets.connections.len(), 2);
    let listener = tokio::net::TcpListener::from_std(sockets.connections[0].try_clone().unwrap()).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.local_addr().unwrap(), "93.184.216.34:8080".parse::<SocketAddr>().unwrap());
    let (mut stdout, mut stream) = (BufReader::new(resident.stdout), BufReader::new(stream));
    let mut asked = String::new();
    stream.read_line(&mut asked).await.unwrap();
    stream.write_all(b"answered\n").await.unwrap();
    let printed = [line(&mut stdout).await, line(&mut stdout).await, line(&mut stdout).await];
    assert_eq!((asked.as_str(), printed.each_ref().map(String::as_str)), ("asked\n", ["answered\n", "nobody\n", "sent\n"]));
    let [resets, unreachable] = &sockets.refusals;
    let (reset, unreachable) = (heard(resets).await, heard(unreachable).await);
    assert_eq!((&reset[12..16], &reset[20..22]), (&[127, 0, 0, 7][..], &9999_u16.to_be_bytes()[..]));
    assert_eq!((&unreachable[44..48], &unreachable[50..52]), (&[9, 9, 9, 9][..], &53_u16.to_be_bytes()[..]));
    assert!(resets.recv(&mut [0; 1]).is_err(), "something else was heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn net_relay_has_plain_sockets_of_ipv4_and_no_other() {
    let sandbox = sandbox();
    for (attempt, expected) in [
        ("net_inet", "tcp=ok tcp6=EAFNOSUPPORT udp=ok raw=EPERM ping=EPROTONOSUPPORT mptcp=EPROTONOSUPPORT sctp=EPROTONOSUPPORT"),
        (
            "net_families",
            "packet=EAFNOSUPPORT netlink=EAFNOSUPPORT vsock=EAFNOSUPPORT alg=EAFNOSUPPORT bluetooth=EAFNOSUPPORT xdp=EAFNOSUPPORT \
             tipc=EAFNOSUPPORT",
        ),
    ] {
        let answers = all_of(&mut start(&sandbox, seeing(spec(attempt), &[])).await).await;
        assert_eq!(answers.split_whitespace().collect::<Vec<_>>().join(" "), expected);
    }
    let answers = all_of(&mut start(&sandbox, seeing(spec("net_unix"), &[])).await).await;
    let allowed = ["pair=ok", "rights_of_its_own=ok"];
    assert!(answers.lines().all(|answer| allowed.contains(&answer) || !answer.ends_with("=ok")), "{answers}");
    for (refused, profile) in [(RELAY_PORTS_MAX + 1, Profile::Default), (1, Profile::HighIsolation)] {
        let ports: Vec<u16> = (0..refused).map(|number| 8000 + u16::try_from(number).unwrap()).collect();
        let spec = seeing(Spec { profile, ..spec("nothing") }, &ports);
        let error = sandbox.start(spec, STAY, ()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. } | Error::Unavailable { step: Step::Orders, .. }), "{error}");
    }
}
