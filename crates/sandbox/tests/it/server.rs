//! What happens to a jail when the server does not wait for it.

use crate::harness::{Setup, Victim, alive, attempts, helper, job, setups, start};
use sandbox::{Bind, Ended, Error, Options, Probes, Profile, Program, Sandbox, Spec};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a test waits for something that should happen soon. Only a failing test takes that long.
pub(crate) const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_server_that_is_killed_takes_its_jails_along() {
    for (setup, resident) in setups().into_iter().flat_map(|setup| [(setup, false), (setup, true)]) {
        let victim = Victim::new(setup);
        let mut server = start(&job(setup, "time_ignore", &victim.path(), &json!({ "resident": resident })));
        // The token is on the program's command line and not on the server's.
        wait_until("the program runs", || !alive().is_empty());
        let pid = server.id();
        assert!(!jails_of(pid).is_empty());
        server.kill().unwrap();
        server.wait().unwrap();
        wait_until("everything is dead", || alive().is_empty() && jails_of(pid).is_empty());
        // The cgroups of the killed server are still there. The next server to start removes them, once the dead processes have left them.
        wait_until("its cgroups are swept", || {
            drop(Probes::now(&helper()));
            groups_of(Path::new("/sys/fs/cgroup"), pid, 0).is_empty()
        });
    }
}

#[test]
fn the_cgroups_of_a_server_that_died_in_another_pid_namespace_are_swept() {
    // An ordinary user has no namespace without a user namespace, and no cgroup to sweep.
    for setup in setups().into_iter().filter(|setup| *setup != Setup::UserDefault) {
        let victim = Victim::new(setup);
        let mut server = start(&job(setup, "time_ignore", &victim.path(), &json!({ "apart": true })));
        wait_until("the program runs", || !alive().is_empty());
        let groups = || groups_of(Path::new("/sys/fs/cgroup"), 1, 0);
        // Its groups are in use, so a server that starts meanwhile leaves them alone.
        drop(Probes::now(&helper()));
        assert!(groups().iter().any(|folder| folder.extension().is_some_and(|end| end == "0")), "{:?}", groups());
        server.kill().unwrap();
        server.wait().unwrap();
        wait_until("everything is dead", || alive().is_empty());
        wait_until("its cgroups are swept", || {
            drop(Probes::now(&helper()));
            groups().is_empty()
        });
    }
}

#[test]
fn a_run_that_nobody_awaits_any_more_is_ended() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (said, hears) = mpsc::channel();
        let sandbox = sandbox();
        let spec = spec("time_ignore");
        let running =
            tokio::spawn(async move { sandbox.run(spec, Some(Box::new(move |line| said.send(line.to_owned()).unwrap_or(())))).await });
        wait_until("the program runs", || !alive().is_empty());
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        wait_until("everything is dead", || alive().is_empty());
        drop(hears);
    });
}

#[test]
fn a_run_that_nobody_can_watch_any_more_is_ended_and_said_to_have_begun() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let on_log = Box::new(|line: &str| panic!("the watcher fails at `{line}`"));
        let error = sandbox().run(spec("proc_bomb_held"), Some(on_log)).await.unwrap_err();
        assert!(matches!(error, Error::Host { started: true, .. }), "{error}");
        assert!(!error.is_transient() && error.to_string().ends_with("the program was ended"), "{error}");
        wait_until("everything is dead", || alive().is_empty());
    });
}

#[test]
fn a_program_that_is_replaced_in_place_is_noticed_at_its_next_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().join("program");
    std::fs::copy(attempts(), &path).unwrap();
    let (sandbox, before) = (sandbox(), sandbox::digest_of(&path).unwrap());
    let run = |digest| {
        let spec = Spec { program: Program { path: path.clone(), digest }, ..spec("nothing") };
        sandbox.run_blocking(spec, None, None).map(|outcome| outcome.ended)
    };
    assert_eq!(run(before).unwrap(), Ended::Exited(0));
    // The same program with one byte more, as if it were upgraded in place: the same name and the same inode.
    std::fs::OpenOptions::new().append(true).open(&path).and_then(|mut file| std::io::Write::write_all(&mut file, b"x")).unwrap();
    let after = sandbox::digest_of(&path).unwrap();
    assert!(matches!(run(before), Err(Error::OtherProgram { .. })), "what was hashed before is not what would run");
    assert_eq!(run(after).unwrap(), Ended::Exited(0));
}

#[test]
fn a_sandbox_that_is_dropped_leaves_no_spare() {
    let sandbox = sandbox();
    for _ in 0..2 {
        let outcome = sandbox.run_blocking(spec("nothing"), None, None).unwrap();
        assert_eq!(outcome.ended, Ended::Exited(0));
        wait_until("a spare waits", || !jails_of(std::process::id()).is_empty());
    }
    drop(sandbox);
    // The processes that a spare had started end shortly after it.
    wait_until("they are gone", || jails_of(std::process::id()).is_empty());
}

#[test]
fn many_runs_at_once_do_not_disturb_each_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sandbox = sandbox();
        let runs = (0..8).map(|number| {
            let sandbox = sandbox.clone();
            let mut spec = spec("fs_kept");
            spec.stdin = format!("run {number}").into_bytes();
            tokio::spawn(async move { sandbox.run(spec, None).await })
        });
        for (number, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
            let outcome = run.await.unwrap().unwrap();
            assert_eq!(outcome.ended, Ended::Exited(0));
            let printed = String::from_utf8(outcome.result.kept).unwrap();
            assert!(printed.contains(&format!("stdin=run {number}\n")), "{printed}");
            assert_eq!(outcome.stage.read("folder/file.txt").unwrap(), b"what it wrote");
        }
    });
}

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(Probes::now(&helper()), &helper(), Options::default()).unwrap()
}

pub(crate) fn spec(attempt: &str) -> Spec {
    let program = Program { path: attempts(), digest: sandbox::digest_of(&attempts()).unwrap() };
    let mut spec = Spec::new(Profile::Default, program);
    spec.args = ["attempt", attempt, "/nowhere", "0", &mark()].map(str::to_owned).into();
    let paths = ["/usr/lib", "/lib", "/lib64"].into_iter().filter(|path| std::path::Path::new(path).exists());
    spec.read_only = paths.map(|path| Bind { host: path.into(), jail: path.into() }).collect();
    spec
}

pub(crate) fn mark() -> String {
    format!("token-of-{}", std::process::id())
}

/// The jails of this server, spares included.
fn jails_of(server: u32) -> Vec<String> {
    let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let lines = std::fs::read_dir("/proc").unwrap().flatten().map(line).map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.starts_with(&format!("countersign-jail\0{server}\0"))).collect()
}

/// The cgroups that this server made, in any hierarchy.
pub(crate) fn groups_of(folder: &Path, server: u32, depth: usize) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if depth < 8 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let ours = folder.ends_with("countersign") && entry.file_name().to_string_lossy().contains(&format!("-{server}-"));
            found.extend(ours.then(|| entry.path()));
            found.extend(groups_of(&entry.path(), server, depth + 1));
        }
    }
    found
}

pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::yield_now();
    }
}
