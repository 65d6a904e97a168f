//! Runs command lines for tests, in this process or as the binary, and servers, which are stopped when the test ends.

use countersign_cli::{Stream, World};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Cursor, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The exit code and output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let document: Value = serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        document["error"].clone()
    }
}

/// A user of the command line: a current folder, a server's address and a token.
#[derive(Clone)]
pub(crate) struct User {
    folder: PathBuf,
    url: String,
    token: Option<String>,
    variables: Vec<(String, String)>,
    /// The Unix user that the process runs as; `None` for the user who runs the tests.
    uid: Option<u32>,
    /// Whether every run starts the binary as a process.
    is_binary: bool,
}

impl User {
    pub(crate) fn new(folder: &Path, url: &str, token: Option<&str>) -> Self {
        let token = token.map(str::to_owned);
        Self { folder: folder.to_owned(), url: url.to_owned(), token, variables: Vec::new(), uid: None, is_binary: false }
    }

    /// Runs the binary instead of calling its code in this process.
    pub(crate) fn with_binary(&self) -> Self {
        Self { is_binary: true, ..self.clone() }
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The person whom this invitation is for, after they have logged in with it.
    pub(crate) fn invited(&self, invitation: &serde_json::Value) -> Self {
        let home = tempfile::tempdir_in(&self.folder).unwrap();
        let person = Self { folder: home.path().to_owned(), token: None, ..self.clone() };
        person.run_with_stdin(&["login", "--token-stdin"], invitation["invitation"].as_str().unwrap()).ok();
        let contexts = std::fs::read_to_string(home.path().join("config/contexts.toml")).unwrap();
        let token = contexts.split('"').find(|text| text.starts_with("cs_user_")).unwrap();
        self.with_token(token)
    }

    pub(crate) fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    pub(crate) fn with_variable(&self, name: &str, value: &str) -> Self {
        let mut user = self.clone();
        user.variables.push((name.to_owned(), value.to_owned()));
        user
    }

    /// The same user in another current folder.
    pub(crate) fn standing_in(&self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self.clone() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_stdin(arguments, "")
    }

    pub(crate) fn run_with_stdin(&self, arguments: &[&str], stdin: &str) -> Ran {
        // These commands start a jail, which the binary has to do itself; and only a process can run as another user.
        let starts_a_jail = arguments.first().is_some_and(|word| ["package", "doctor", "serve"].contains(word));
        if self.is_binary || self.uid.is_some() || starts_a_jail {
            return self.run_binary(arguments, stdin);
        }
        let (stdout, stderr) = (Written::default(), Written::default());
        let code = self.run_here(arguments, stdin, None, &stdout, &stderr);
        Ran { code, stdout: stdout.text(), stderr: stderr.text() }
    }

    fn run_binary(&self, arguments: &[&str], stdin: &str) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that does not read stdin may have closed it already.
        let _closed = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The screen of a run on a terminal of this width, at which the user types this text. No process and no real terminal is started.
    pub(crate) fn on_screen(&self, columns: u16, arguments: &[&str], typed: &str) -> Ran {
        let screen = Written::default();
        let code = self.run_here(arguments, typed, Some(columns), &screen, &screen);
        Ran { code, stdout: anstream::adapter::strip_str(&screen.text()).to_string(), stderr: String::new() }
    }

    fn run_here(&self, arguments: &[&str], stdin: &str, columns: Option<u16>, stdout: &Written, stderr: &Written) -> i32 {
        server::init_process();
        let stream = |to: &Written| Stream { to: Box::new(to.clone()), is_terminal: columns.is_some(), columns, has_colours: false };
        let world = World {
            variables: self.environment(),
            stdin: Box::new(Cursor::new(stdin.to_owned().into_bytes())),
            is_typed: columns.is_some(),
            stdout: stream(stdout),
            stderr: stream(stderr),
        };
        let arguments: Vec<_> = std::iter::once("countersign").chain(arguments.iter().copied()).map(OsString::from).collect();
        let folder = self.folder.clone();
        // The current folder belongs to the whole process, so only one run happens at a time. The run has its own thread, because the
        // caller may be inside an async runtime.
        let run = std::thread::spawn(move || {
            static STANDING: Mutex<()> = Mutex::new(());
            let _alone = STANDING.lock().unwrap_or_else(PoisonError::into_inner);
            std::env::set_current_dir(folder).unwrap();
            countersign_cli::run(arguments.into_iter(), world)
        });
        i32::from(run.join().unwrap())
    }

    /// All variables of a run.
    fn environment(&self) -> BTreeMap<String, String> {
        let own = [("PATH", std::env::var("PATH").unwrap_or_default()), ("HOME", self.folder.display().to_string())];
        let ours = [("COUNTERSIGN_URL", self.url.clone()), ("COUNTERSIGN_CONFIG_HOME", self.folder.join("config").display().to_string())];
        let token = self.token.iter().map(|token| ("COUNTERSIGN_TOKEN", token.clone()));
        let known = own.into_iter().chain(ours).chain(token).map(|(name, value)| (name.to_owned(), value));
        known.chain(self.variables.iter().cloned()).collect()
    }

    /// Starts an invocation that needs approval, and returns once it prints its id.
    pub(crate) fn start_waiting(&self, arguments: &[&str]) -> Waiting {
        let mut child = self.command(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        let mut id = None;
        while id.is_none() && stderr.read_line(&mut told).unwrap() > 0 {
            id = told.split_whitespace().find(|word| word.starts_with("inv_")).map(str::to_owned);
        }
        match id {
            Some(id) => Waiting { id, told, child, stderr },
            None => panic!("it ended without waiting, with {:?}: {told}", child.wait()),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test of a binary runs it")]
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let built = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let mut command = match self.uid {
            None => Command::new(built),
            Some(uid) => {
                let mut command = Command::new(reachable(built));
                command.uid(uid).gid(uid);
                command
            }
        };
        command.args(arguments).current_dir(&self.folder).env_clear().envs(self.environment());
        command
    }
}

/// A stream that keeps everything written to it.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The binary itself if every user can execute it; otherwise a copy that every user can execute. The copy is shared by all tests of this
/// build.
fn reachable(built: &Path) -> PathBuf {
    if built.ancestors().skip(1).all(|folder| std::fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0)) {
        return built.to_owned();
    }
    let found = std::fs::metadata(built).unwrap();
    let folder = std::env::temp_dir().join(format!("cli-tests-{}-{}", found.ino(), found.mtime()));
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

/// A running command that waits for an invocation.
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) told: String,
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Waiting {
    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    }

    pub(crate) fn end(mut self) -> Ran {
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let mut stderr = self.told;
        self.stderr.read_to_string(&mut stderr).unwrap();
        Ran { code: self.child.wait().unwrap().code().unwrap_or(-1), stdout, stderr }
    }
}

/// A server on a free port, with its own data folder.
pub(crate) struct Server {
    pub(crate) url: String,
    /// The owner's token, which the server shows only at its first start.
    pub(crate) owner_token: Option<String>,
    /// The server's process; `None` if it runs in this process.
    child: Option<Child>,
    inside: Option<Runtime>,
    folder: Option<TempDir>,
    uid: Option<u32>,
}

impl Server {
    /// Starts a server in this process. It logs nothing, starts no jail and cannot be killed.
    pub(crate) fn start() -> Self {
        server::init_process();
        let folder = tempfile::tempdir().unwrap();
        let flags =
            server::Flags { data: Some(folder.path().join("data")), listen: Some("127.0.0.1:0".to_owned()), ..server::Flags::default() };
        let config = server::Config::load(flags, std::iter::empty()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (tell, told) = mpsc::channel();
        runtime.spawn(async move {
            let started = |started: &server::Started| tell.send((started.url.clone(), started.owner_token.clone())).unwrap();
            server::serve(config, started).await.unwrap();
        });
        let (url, owner_token) = told.recv().expect("the server did not start");
        Self { url, owner_token, child: None, inside: Some(runtime), folder: Some(folder), uid: None }
    }

    /// Starts a server as a process.
    pub(crate) fn start_binary() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    /// Starts a server process with these variables. Its log can be read with `logged`.
    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Self {
        Self::serve(tempfile::tempdir().unwrap(), variables, None)
    }

    /// Like `start_with`, as another Unix user and in a folder that belongs to that user.
    pub(crate) fn start_as(uid: u32, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(uid), Some(uid)).unwrap();
        Self::serve(folder, variables, Some(uid))
    }

    /// Starts a server process on the folder `data` inside this folder.
    pub(crate) fn start_in(folder: TempDir) -> Self {
        Self::serve(folder, &[], None)
    }

    fn serve(folder: TempDir, variables: &[(&str, &str)], uid: Option<u32>) -> Self {
        let arguments = ["serve", "--data", "data", "--listen", "127.0.0.1:0"];
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut child = User { uid, ..User::new(folder.path(), "http://127.0.0.1:1", None) }
            .command(&arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (mut url, mut owner_token) = (None, None);
        for line in lines.by_ref() {
            match line.split_once(": ") {
                Some(("url", found)) => url = Some(found.to_owned()),
                Some(("owner token", _)) => panic!("a secret on a stdout that is no terminal: {line}"),
                Some(("owner token file", found)) => {
                    owner_token = Some(std::fs::read_to_string(folder.path().join(found)).unwrap().trim().to_owned());
                }
                _ => {}
            }
            if line.starts_with("data: ") {
                break;
            }
        }
        Self {
            url: url.unwrap_or_else(|| panic!("the server did not say where it is")),
            owner_token,
            child: Some(child),
            inside: None,
            folder: Some(folder),
            uid,
        }
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.folder().join("log")).unwrap()
    }

    /// Sends SIGTERM, which asks the server to stop.
    pub(crate) fn terminate(&self) {
        let id = self.child.as_ref().unwrap().id();
        let pid = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// The command lines of all processes below the server.
    pub(crate) fn descendants(&self) -> Vec<String> {
        let line = |process: u32| std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        below(self.id()).into_iter().map(|process| String::from_utf8_lossy(&line(process)).replace('\0', " ")).collect()
    }

    /// The id of the server's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// The number of file descriptors that the server has open.
    pub(crate) fn open_descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Waits for the server to end, and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.as_mut().unwrap().wait().unwrap().code()
    }

    /// Starts a new server on the same data, after the first one has ended.
    pub(crate) fn start_again(mut self) -> Self {
        Self::start_in(self.folder.take().unwrap())
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    /// Whether the server says that it can confine code under this profile.
    pub(crate) fn can_confine(&self, profile: &str) -> bool {
        let status = self.owner().run(&["status", "--json"]).ok().json();
        status["code_profiles"].as_array().is_some_and(|profiles| profiles.iter().any(|known| known == profile))
    }

    /// The server's first owner.
    pub(crate) fn owner(&self) -> User {
        let token = std::fs::read_to_string(self.data().join("owner.token")).unwrap();
        User { uid: self.uid, ..User::new(self.folder(), &self.url, Some(token.trim())) }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.data().join("workspace")
    }
}

/// The ids of all processes below one.
pub(crate) fn below(process: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The parent's id is the second word after the process name, which is in parentheses and may contain anything.
    let parent = |process: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
    };
    let parents: BTreeMap<u32, u32> = processes.filter_map(|process| Some((process, parent(process)?))).collect();
    let is_below = |child: u32| {
        let above = std::iter::successors(parents.get(&child).copied(), |process| parents.get(process).copied());
        above.take(parents.len()).any(|above| above == process)
    };
    parents.keys().copied().filter(|process| is_below(*process)).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended = child.kill().and_then(|()| child.wait());
        }
        if let Some(runtime) = self.inside.take() {
            runtime.shutdown_background();
        }
    }
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Those of them that hold a text. There must be more than a few to search.
pub(crate) fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut all = files(folder);
    assert!(all.len() > 5, "{all:?}");
    all.retain(|file| std::fs::read(file).unwrap().windows(text.len()).any(|window| window == text.as_bytes()));
    all
}
