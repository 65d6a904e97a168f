//! Runs an attempt in a jail, through a process that plays the server: as root, or as an ordinary user that the process becomes.

#![expect(clippy::disallowed_methods, reason = "the tests start the process that plays the server")]

use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The uid of an ordinary user that no host uses.
pub(crate) const USER: u32 = 1_979_048_192;

/// The user the server runs as, and the profile of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Setup {
    RootDefault,
    RootHigh,
    UserDefault,
}

impl Setup {
    pub(crate) fn profile(self) -> &'static str {
        match self {
            Self::RootDefault | Self::UserDefault => "default",
            Self::RootHigh => "high_isolation",
        }
    }

    fn uid(self) -> Option<u32> {
        (self == Self::UserDefault && is_root()).then_some(USER)
    }
}

/// Every setup that is possible for the user who runs the tests. The impossible ones are refused, which `refusals` tests.
pub(crate) fn setups() -> Vec<Setup> {
    if is_root() { vec![Setup::RootDefault, Setup::RootHigh, Setup::UserDefault] } else { vec![Setup::UserDefault] }
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

pub(crate) fn helper() -> PathBuf {
    reachable(env!("CARGO_BIN_EXE_countersign-jail"))
}

pub(crate) fn attempts() -> PathBuf {
    reachable(env!("CARGO_BIN_EXE_escape-attempts"))
}

/// The path of the program, if every user can reach it; else of a copy that every user can reach, shared by all tests of this build.
fn reachable(built: &str) -> PathBuf {
    let built = Path::new(built);
    if built.ancestors().skip(1).all(|folder| std::fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0)) {
        return built.to_owned();
    }
    let found = std::fs::metadata(built).unwrap();
    let folder = std::env::temp_dir().join(format!("sandbox-tests-{}-{}", found.ino(), found.mtime()));
    let copy = folder.join(built.file_name().unwrap());
    if !copy.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        let half = folder.join(format!("half-{}", std::process::id()));
        std::fs::copy(built, &half).unwrap();
        std::fs::rename(&half, &copy).unwrap();
    }
    copy
}

/// A file of the server's user that no attempt may reach, and its state before the attempt.
pub(crate) struct Victim {
    folder: tempfile::TempDir,
    before: Seen,
}

#[derive(Debug, PartialEq)]
struct Seen {
    text: String,
    mode: u32,
    owner: u32,
    links: u64,
    times: (i64, i64, i64, i64),
}

impl Victim {
    pub(crate) fn new(setup: Setup) -> Self {
        let folder = tempfile::Builder::new().prefix("sandbox-victim-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("victim");
        std::fs::write(&path, "untouched").unwrap();
        if let Some(uid) = setup.uid() {
            std::os::unix::fs::chown(&path, Some(uid), Some(uid)).unwrap();
        }
        let before = look(&path);
        Self { folder, before }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("victim")
    }

    pub(crate) fn assert_untouched(&self) {
        assert_eq!(look(&self.path()), self.before);
    }
}

fn look(path: &Path) -> Seen {
    let found = std::fs::metadata(path).unwrap();
    Seen {
        text: std::fs::read_to_string(path).unwrap(),
        mode: found.mode(),
        owner: found.uid(),
        links: found.nlink(),
        times: (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()),
    }
}

/// A job with the defaults of the tests, changed by `more`.
pub(crate) fn job(setup: Setup, attempt: &str, victim: &Path, more: &Value) -> Value {
    let shown = ["/usr/lib", "/lib", "/lib64"].into_iter().filter(|path| Path::new(path).exists());
    let shown: Vec<_> = shown.map(|path| json!([path, path])).collect();
    let mut job = json!({
        "helper": helper(),
        "program": attempts(),
        "profile": setup.profile(),
        "uid": setup.uid(),
        "args": ["attempt", attempt, victim, "{server}", token()],
        "read_only": shown,
        "inputs": [["/package/execute.js", "what it is"]],
        "stage_bytes": 8 << 20,
        "stage_files": 100,
        // Far beyond what any attempt takes; only tests of the deadline set it lower.
        "wall_ms": 60_000,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        job[key] = value.clone();
    }
    job
}

/// A mark on the command line of every process of this test, and of no other process.
fn token() -> String {
    format!("token-of-{}", std::process::id())
}

/// Starts the process that plays the server, with a secret in its environment.
pub(crate) fn start(job: &Value) -> Child {
    let mut child = Command::new(attempts())
        .arg("drive")
        .env("COUNTERSIGN_SECRET", "the server's own")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(job.to_string().as_bytes()).unwrap();
    child
}

/// Runs a job to its end, and asserts that no process of it is alive afterwards.
pub(crate) fn run(job: &Value) -> Value {
    let output = start(job).wait_with_output().unwrap();
    assert_nothing_lives();
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}, {:?}", output.status))
}

/// Runs one attempt, and asserts afterwards that everything it must not reach on the host is unchanged.
pub(crate) fn attempt(setup: Setup, name: &str, more: &Value) -> Value {
    let victim = Victim::new(setup);
    let before = settings();
    let report = run(&job(setup, name, &victim.path(), more));
    victim.assert_untouched();
    assert_eq!(settings(), before);
    assert!(!Path::new("/usr/lib/countersign-was-here").exists());
    assert_eq!(queues_of_an_attempt(), Vec::<String>::new());
    report
}

/// The host's settings that an attempt tries to change: its names, and the programs the kernel starts after a crash or when a cgroup
/// becomes empty.
fn settings() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = ["hostname", "domainname", "core_pattern"].map(|name| Path::new("/proc/sys/kernel").join(name)).into();
    let groups = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    paths.extend(groups.chain([PathBuf::from("/sys/fs/cgroup")]).map(|folder| folder.join("release_agent")));
    paths.into_iter().filter_map(|path| std::fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

/// The host's shared memory, queues and semaphores under the key that all attempts use (`IPC_KEY` in `attempts/kernel.rs`).
fn queues_of_an_attempt() -> Vec<String> {
    let tables = ["shm", "msg", "sem"].map(|kind| std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1).map(str::to_owned));
    rows.filter(|row| row.split_whitespace().next() == Some("2000000007")).collect()
}

/// Runs the same attempt without a jail, in namespaces that are discarded.
pub(crate) fn control(name: &str) -> (String, Option<i32>) {
    let output = Command::new(attempts()).args(["control", name]).stdin(Stdio::null()).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

/// The value after `label=` in the output of an attempt.
pub(crate) fn answer<'a>(printed: &'a str, label: &str) -> Option<&'a str> {
    printed.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix('='))
}

/// Asserts that no process of this test is alive except the test itself.
pub(crate) fn assert_nothing_lives() {
    assert_eq!(alive(), Vec::<String>::new());
}

pub(crate) fn alive() -> Vec<String> {
    let token = token();
    let mut found = vec![];
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&token) {
            found.push(line);
        }
    }
    found
}
