//! The programs that an operator allows as MCP servers, and how each of them is started: found and hashed anew, with the variables and secrets
//! that its source declares, and with nothing of the host but what the operator shows it.

use super::connection::{Start, Startable};
use super::installed::resolve;
use super::interpreter::Located;
use super::registry::{self, IN_JAIL};
use crate::egress::{NamedIn, Network, WayOut};
use crate::limits::{
    MCP_MESSAGE_BYTES_MAX, MCP_PROGRAM_CPU_PERCENT, MCP_PROGRAM_FOLDER_MB_MAX, MCP_PROGRAM_GRACE_MS, MCP_PROGRAM_OPEN_FILES_MAX,
    MCP_PROGRAM_PROCESSES, MCP_PROGRAM_START_SECONDS_DEFAULT, MCP_PROGRAM_START_SECONDS_MAX, PACKAGE_MEMORY_MB_MAX,
};
use crate::program::{PLACES, Program, Programs, SCRATCH, is_variable};
use crate::relay::{self, Relay};
use crate::web::HostRule;
use crate::words::{refused, shown};
use countersign_core::action::Profile;
use countersign_core::egress::Egress;
use countersign_core::limits::{MCP_PROGRAM_OPEN_FILES_DEFAULT, PACKAGE_MEMORY_MB_DEFAULT, RELAY_PORTS_MAX};
use countersign_core::ports::Secrets;
use countersign_core::ports::secrets::SecretName;
use countersign_core::ports::sources::{Variable, VariableValue};
use countersign_core::resident::{Folder, Spec};
use countersign_core::source::Error;
use countersign_core::{Future, OrgId, Secret, SourceId, ports};
use ipnet::IpNet;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where a program sees the workspace of its org.
const WORKSPACE: &str = "/workspace";
/// Programs look for their settings in the home of their user, and some do not start without one.
const ENVIRONMENT: [(&str, &str); 4] = [("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("TZ", "UTC"), SCRATCH];
/// Paths that the jail provides itself.
const OWN: [&str; 6] = ["/stage", "/tmp", "/proc", "/dev", WORKSPACE, IN_JAIL];
/// Where a program sees the folder that it may write to. It is the home of its user, too.
const FOLDER: &str = "/data";
/// The fewest open files an interpreter starts with.
const OPEN_FILES_MIN: u64 = 64;
/// The least memory an interpreter starts in.
const MEMORY_MB_MIN: u64 = 16;

/// A program that an operator allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedProgram {
    /// The program and its arguments. A source names exactly these words.
    pub command: Vec<String>,
    /// Folders of the host that it sees, read-only, at the same path.
    #[serde(default)]
    pub readable: Vec<PathBuf>,
    /// The variables that a source may set.
    #[serde(default)]
    pub env: Vec<String>,
    /// The hosts that it may reach. None: it has no network.
    #[serde(default)]
    pub hosts: Vec<HostRule>,
    /// Whether it sees the workspace that spaces without members share, read-only.
    #[serde(default)]
    pub workspace: bool,
    #[serde(default = "default_memory_mb")]
    pub memory_mb: u64,
    /// How many files each of its processes may have open.
    #[serde(default = "default_open_files")]
    pub open_files: u64,
    /// The size of a folder that each of its sources has, which it may write to and which is kept. None: it keeps nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_mb: Option<u64>,
    /// How long it may take until it speaks MCP.
    #[serde(default = "default_start_seconds")]
    pub start_seconds: u64,
}

const fn default_memory_mb() -> u64 {
    PACKAGE_MEMORY_MB_DEFAULT
}

const fn default_open_files() -> u64 {
    MCP_PROGRAM_OPEN_FILES_DEFAULT
}

const fn default_start_seconds() -> u64 {
    MCP_PROGRAM_START_SECONDS_DEFAULT
}

impl AllowedProgram {
    /// What is wrong with it, as a sentence for the operator.
    pub fn mistake(&self) -> Option<String> {
        let Some(program) = self.command.first() else { return Some("`command` names no program".to_owned()) };
        if program.is_empty() || (program.contains('/') && !is_plain(Path::new(program))) {
            let places = PLACES.join(", ");
            return Some(format!("`{}` is neither the name of a program in {places} nor an absolute path", shown(program)));
        }
        if let Some(word) = self.command.iter().find(|word| word.contains('\0')) {
            return Some(format!("`{}` has a NUL", shown(word)));
        }
        if let Some(path) = self.readable.iter().find(|path| !is_plain(path) || OWN.iter().any(|own| path.starts_with(own))) {
            return Some(format!("`{}` in `readable` is not an absolute path of a folder that can be shown", path.display()));
        }
        if let Some(name) = self.env.iter().find(|name| !is_variable(name)) {
            return Some(format!("`{}` in `env` is not the name of a variable that a source may set", shown(name)));
        }
        if let Some(host) = self.hosts.iter().find(|host| !relay::is_for_hosts(host.port())) {
            return Some(format!("`{host}` in `hosts` has the port of the program's own resolver"));
        }
        if self.hosts.iter().map(HostRule::port).collect::<BTreeSet<_>>().len() > RELAY_PORTS_MAX {
            return Some(format!("`hosts` has more than {RELAY_PORTS_MAX} ports"));
        }
        if !(MEMORY_MB_MIN..=PACKAGE_MEMORY_MB_MAX).contains(&self.memory_mb) {
            return Some(format!("`memory_mb` must be {MEMORY_MB_MIN} to {PACKAGE_MEMORY_MB_MAX}"));
        }
        if !(OPEN_FILES_MIN..=MCP_PROGRAM_OPEN_FILES_MAX).contains(&self.open_files) {
            return Some(format!("`open_files` must be {OPEN_FILES_MIN} to {MCP_PROGRAM_OPEN_FILES_MAX}"));
        }
        if self.folder_mb.is_some_and(|megabytes| !(1..=MCP_PROGRAM_FOLDER_MB_MAX).contains(&megabytes)) {
            return Some(format!("`folder_mb` must be 1 to {MCP_PROGRAM_FOLDER_MB_MAX}"));
        }
        if let Some(path) = self.readable.iter().find(|path| self.folder_mb.is_some() && path.starts_with(FOLDER)) {
            return Some(format!("`{}` in `readable` cannot be shown beside `folder_mb`, whose folder is there", path.display()));
        }
        if !(1..=MCP_PROGRAM_START_SECONDS_MAX).contains(&self.start_seconds) {
            return Some(format!("`start_seconds` must be 1 to {MCP_PROGRAM_START_SECONDS_MAX}"));
        }
        match registry::asked(&self.command) {
            Ok(Some(asked)) if asked.exact().is_none() => {
                Some(format!("`{}` names no version: write the one that runs, as in `{}`", shown(program), asked.example()))
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Whether it is an absolute path without `.` and `..`, and not the root.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir) && path != Path::new("/") && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// What a program can reach beside the server that it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The hosts that it may send requests to. An empty list means no network.
    pub hosts: Vec<HostRule>,
    /// Whether it sees the workspace of its org.
    pub workspace: bool,
    /// Whether it has a folder that is kept.
    pub folder: bool,
}

/// Where on the host the folders are that programs need beside their own files.
#[derive(Clone, Debug, Default)]
pub struct ProgramFolders {
    /// The packages that are installed for programs.
    pub installed: PathBuf,
    /// The folders that programs may write to, below that of their org.
    pub kept: PathBuf,
}

/// Folders of an org that are removed at once.
const GONE_MAX: u32 = 1_000;

impl ProgramFolders {
    pub fn below(data: &Path) -> Self {
        // The jail knows no folder that the server is in, so a relative path would name none.
        let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        Self { installed: data.join("programs"), kept: data.join("kept") }
    }

    /// The folder of a source.
    pub fn of(&self, org: &OrgId, source: &SourceId) -> PathBuf {
        self.kept.join(org.as_str()).join(source.as_str())
    }

    /// Removes the folder of a source that is gone.
    pub fn remove(&self, org: &OrgId, source: &SourceId) -> std::io::Result<()> {
        // Under another name first: its program may still be writing, and a new source of this name must find nothing.
        for number in 0..GONE_MAX {
            let gone = self.kept.join(org.as_str()).join(format!(".gone-{number}"));
            match std::fs::rename(self.of(org, source), &gone) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                // That of another source is being removed.
                Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(error),
                Ok(()) => return std::fs::remove_dir_all(&gone),
            }
        }
        Err(std::io::ErrorKind::DirectoryNotEmpty.into())
    }
}

/// Every program that an operator allows.
#[derive(Clone)]
pub struct AllowedPrograms {
    /// Each with its network, if it has one.
    allowed: Arc<[(AllowedProgram, Option<Arc<Network>>)]>,
    programs: Programs,
    folders: Arc<ProgramFolders>,
}

/// The program of one source, and what it is given each time it is started.
pub struct Started {
    pub org: OrgId,
    pub source: SourceId,
    pub command: Vec<String>,
    pub env: Vec<Variable>,
    /// The workspace that spaces without members share, if the org has one.
    pub workspace: Option<PathBuf>,
    pub secrets: Arc<dyn Secrets>,
}

impl AllowedPrograms {
    /// Requires, if an https host is allowed, the system's certificates.
    pub fn new(allowed: Vec<AllowedProgram>, networks: &[IpNet], folders: ProgramFolders) -> Result<Self, crate::Error> {
        let named_in = NamedIn { hosts: "hosts` of `mcp_commands", networks: "source_allowed_networks" };
        let with_network = |program: AllowedProgram| {
            let network = (!program.hosts.is_empty()).then(|| Network::new(program.hosts.clone(), networks.to_vec(), named_in));
            Ok::<_, crate::Error>((program, network.transpose()?.map(Arc::new)))
        };
        let allowed = allowed.into_iter().map(with_network).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { allowed: allowed.into(), programs: Programs::default(), folders: Arc::new(folders) })
    }

    pub fn folders(&self) -> &ProgramFolders {
        &self.folders
    }

    /// Whether an operator allows this command with these variables.
    pub fn check(&self, command: &[String], env: &[Variable]) -> Result<(), Error> {
        self.find(command, env).map(|_| ())
    }

    /// What this command can reach for a source. What the source once kept is kept until it is removed, whatever its program is allowed now; and
    /// of a command that is no longer allowed it is not known what it could reach.
    pub fn reach(&self, org: &OrgId, source: &SourceId, command: &[String]) -> Reach {
        let found = self.allowed.iter().find(|(program, _)| program.command == command);
        let Some((program, _)) = found else { return Reach { folder: true, ..Reach::default() } };
        let folder = program.folder_mb.is_some() || self.folders.of(org, source).exists();
        Reach { hosts: program.hosts.clone(), workspace: program.workspace, folder }
    }

    fn find(&self, command: &[String], env: &[Variable]) -> Result<&(AllowedProgram, Option<Arc<Network>>), Error> {
        let not_allowed = |why: String| refused("command_not_allowed", why);
        let found = self.allowed.iter().find(|(program, _)| program.command == command);
        let found = found.ok_or_else(|| {
            let words = shown(&command.join(" "));
            not_allowed(format!("the command `{words}` is not allowed, word by word: an operator can list it in `mcp_commands`"))
        })?;
        match env.iter().find(|variable| !found.0.env.contains(&variable.name)) {
            None => Ok(found),
            Some(Variable { name, .. }) => {
                let name = shown(name);
                Err(not_allowed(format!(
                    "the command may not have the variable `{name}`: an operator can list it in its `env` of `mcp_commands`"
                )))
            }
        }
    }

    /// The program of a source.
    pub fn program(&self, started: Started) -> Arc<dyn Startable> {
        Arc::new(OneProgram { allowed: self.clone(), started, ran: Mutex::default() })
    }

    /// What a source is given to start its program, and the digest of what runs.
    async fn start(&self, started: &Started) -> Result<(Start, String), Error> {
        let Started { org, source, command, env, workspace, secrets } = started;
        let (allowed, network) = self.find(command, env)?;
        let (_, located, _) = resolve(command, &self.folders.installed, &self.programs).await?;
        let folder = allowed.folder_mb.map(|megabytes| self.folder(org, source, megabytes)).transpose()?;
        let mut environment = environment(org, source, env, &**secrets).await?;
        environment.set_unless_declared(env, "PATH", &located.path);
        if folder.is_some() {
            environment.set_unless_declared(env, "HOME", FOLDER);
        }
        let Located { program, name, args, shown, digest, .. } = located;
        // What lies in a folder that is shown is shown with it.
        let is_seen = |path: &Path| allowed.readable.iter().any(|readable| path.starts_with(readable));
        let mut read_only: Vec<_> = shown.into_iter().map(|shown| (shown.host, shown.jail)).collect();
        read_only.retain(|(host, jail)| host != jail || !is_seen(host));
        let is_found = |path: &Path| read_only.iter().any(|(host, jail)| host == jail && path.starts_with(host));
        let readable: Vec<_> = allowed.readable.iter().filter(|path| !is_found(path)).map(|path| (path.clone(), path.clone())).collect();
        read_only.extend(readable);
        if allowed.workspace {
            let missing = || refused("program_missing", "this org has no workspace on this server that the program could see");
            read_only.push((workspace.clone().ok_or_else(missing)?, WORKSPACE.into()));
        }
        let egress = network.as_ref().map(|network| Arc::new(WayOut::of_source(network, source)) as Arc<dyn Egress>);
        let open_files = u32::try_from(allowed.open_files).unwrap_or(u32::MAX);
        let bare = bare(org, program, allowed.memory_mb * 1024 * 1024);
        let mut spec = Spec { name: Some(name), args, read_only, folder, open_files, egress, ..bare };
        if let Some(network) = network {
            spec.network = Some(Arc::new(Relay::new(source, network.allowed())));
            spec.inputs = relay::files(&allowed.readable);
            spec.read_only.extend(relay::certificates(&allowed.readable));
        }
        Ok((environment.start(spec), digest))
    }

    fn folder(&self, org: &OrgId, source: &SourceId, megabytes: u64) -> Result<Folder, Error> {
        let host = self.folders.of(org, source);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&host);
        made.map_err(|error| {
            tracing::error!(%error, %source, "the folder of a program could not be made");
            refused("program_missing", format!("the folder of source `{source}` could not be made: {error}"))
        })?;
        Ok(Folder { host, bytes_max: megabytes << 20 })
    }

    fn patience(&self, started: &Started) -> Duration {
        let found = self.allowed.iter().find(|(program, _)| program.command == started.command);
        Duration::from_secs(found.map_or(MCP_PROGRAM_START_SECONDS_DEFAULT, |(program, _)| program.start_seconds))
    }
}

struct OneProgram {
    allowed: AllowedPrograms,
    started: Started,
    /// The digest of what ran the last time.
    ran: Mutex<Option<String>>,
}

impl Startable for OneProgram {
    fn start(&self) -> Future<'_, Result<Start, Error>> {
        Box::pin(async {
            let (start, digest) = self.allowed.start(&self.started).await?;
            let before = self.ran.lock().replace(digest.clone());
            if before.is_some_and(|before| before != digest) {
                tracing::info!(source = %self.started.source, digest, "its interpreter, script or packages changed since its program last started");
            }
            Ok(start)
        })
    }

    fn prepare(&self) -> Future<'_, Result<(), Error>> {
        Box::pin(async {
            let Started { command, env, .. } = &self.started;
            self.allowed.find(command, env)?;
            registry::prepare(command, &self.allowed.folders.installed).await
        })
    }

    fn patience(&self) -> Duration {
        self.allowed.patience(&self.started)
    }

    fn versions(&self) -> Future<'_, Result<Vec<Option<i64>>, Error>> {
        let Started { org, source, env, secrets, .. } = &self.started;
        Box::pin(versions(org, source, env, &**secrets))
    }
}

/// A program with the limits that all MCP servers have, which sees nothing and is given nothing.
pub(super) fn bare(org: &OrgId, program: Program, memory_bytes: u64) -> Spec {
    Spec {
        owner: org.to_string(),
        profile: Profile::Default,
        program: program.path,
        program_digest: program.digest,
        name: None,
        args: Vec::new(),
        env: Vec::new(),
        read_only: Vec::new(),
        folder: None,
        inputs: Vec::new(),
        memory_bytes,
        processes: MCP_PROGRAM_PROCESSES,
        open_files: u32::try_from(MCP_PROGRAM_OPEN_FILES_DEFAULT).unwrap_or(u32::MAX),
        cpu_percent: MCP_PROGRAM_CPU_PERCENT,
        line_bytes_max: MCP_MESSAGE_BYTES_MAX,
        grace_ms: MCP_PROGRAM_GRACE_MS,
        egress: None,
        network: None,
    }
}

/// The whole environment of a program.
pub(super) struct Environment {
    variables: Vec<(String, Secret<String>)>,
    secrets: Vec<Secret<String>>,
    versions: Vec<Option<i64>>,
}

impl Environment {
    /// Sets a variable that its source does not set itself.
    fn set_unless_declared(&mut self, declared: &[Variable], name: &str, value: &str) {
        if declared.iter().all(|variable| variable.name != name) {
            self.variables.retain(|(other, _)| other != name);
            self.variables.push((name.to_owned(), Secret::new(value.to_owned())));
        }
    }

    pub(super) fn start(self, spec: Spec) -> Start {
        Start { spec: Spec { env: self.variables, ..spec }, secrets: self.secrets, versions: self.versions }
    }
}

/// The environment of a program now, with the variables that its source declares and the secrets among them.
pub(super) async fn environment(org: &OrgId, source: &SourceId, env: &[Variable], secrets: &dyn Secrets) -> Result<Environment, Error> {
    // Read before the values. A value that is replaced in between has the program started once more than needed, and never once less.
    let versions = versions(org, source, env, secrets).await?;
    let mut variables = Vec::from(ENVIRONMENT.map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned()))));
    let mut values = Vec::new();
    for Variable { name, value } in env {
        let value = match value {
            VariableValue::Value(value) => Secret::new(value.clone()),
            VariableValue::Secret(secret) => {
                let value = secret_of(secrets, org, source, secret).await?;
                values.push(value.clone());
                value
            }
        };
        variables.retain(|(other, _)| other != name);
        variables.push((name.clone(), value));
    }
    Ok(Environment { variables, secrets: values, versions })
}

/// The version of each secret in an environment, in the order of the variables.
pub(super) async fn versions(org: &OrgId, source: &SourceId, env: &[Variable], secrets: &dyn Secrets) -> Result<Vec<Option<i64>>, Error> {
    let mut versions = Vec::new();
    for variable in env {
        let VariableValue::Secret(name) = &variable.value else { continue };
        versions.push(match SecretName::parse(name) {
            Some(name) => secrets.secret_version(org, &name).await.map_err(|error| not_read(&error, source))?,
            None => None,
        });
    }
    Ok(versions)
}

async fn secret_of(secrets: &dyn Secrets, org: &OrgId, source: &SourceId, name: &str) -> Result<Secret<String>, Error> {
    let missing = || refused("secret_missing", format!("source `{source}` needs the secret `{}`, and there is none", shown(name)));
    let parsed = SecretName::parse(name).ok_or_else(missing)?;
    let found = secrets.resolve_secret(org, &parsed).await.map_err(|error| not_read(&error, source))?;
    found.map(|value| Secret::new(value.expose().to_owned())).ok_or_else(missing)
}

fn not_read(error: &ports::Error, source: &SourceId) -> Error {
    tracing::error!(%error, %source, "a secret could not be read");
    Error::NoTurn { source_id: source.to_string(), message: "the store is not available".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Timestamp;
    use countersign_core::ports::secrets::SecretValue;

    fn allowed(command: &[&str]) -> AllowedProgram {
        AllowedProgram {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            readable: vec!["/opt/kit".into()],
            env: vec!["LEVEL".to_owned(), "TOKEN".to_owned(), "HOME".to_owned()],
            hosts: Vec::new(),
            workspace: true,
            memory_mb: 64,
            open_files: 512,
            folder_mb: None,
            start_seconds: 7,
        }
    }

    struct One;

    impl Secrets for One {
        fn resolve_secret<'a>(&'a self, _: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<SecretValue>, ports::Error>> {
            let value = (name.as_str() == "key").then(|| SecretValue::new(Secret::new("t0p".to_owned()))).flatten();
            Box::pin(std::future::ready(Ok(value)))
        }

        fn secret_version<'a>(&'a self, _: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<i64>, ports::Error>> {
            Box::pin(std::future::ready(Ok((name.as_str() == "key").then_some(7))))
        }
    }

    fn started(command: &[&str], env: &[(&str, VariableValue)]) -> Started {
        let at = Timestamp::from_micros(0);
        Started {
            org: OrgId::new(at, [1; 10]),
            source: SourceId::parse("kit").unwrap(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            env: env.iter().map(|(name, value)| Variable { name: (*name).to_owned(), value: value.clone() }).collect(),
            workspace: Some("/data/workspace".into()),
            secrets: Arc::new(One),
        }
    }

    #[test]
    fn what_an_operator_cannot_mean_is_a_mistake() {
        assert_eq!(allowed(&["node", "/opt/kit/index.js"]).mistake(), None);
        assert_eq!(allowed(&["/opt/kit/bin/serve"]).mistake(), None);
        let changed = |change: fn(&mut AllowedProgram)| {
            let mut program = allowed(&["node"]);
            change(&mut program);
            program
        };
        for (program, words) in [
            (allowed(&[]), "names no program"),
            (allowed(&[""]), "neither the name"),
            (allowed(&["bin/serve"]), "neither the name"),
            (allowed(&["/opt/../bin/serve"]), "neither the name"),
            (allowed(&["node", "a\0b"]), "has a NUL"),
            (changed(|program| program.readable = vec!["opt".into()]), "in `readable`"),
            (changed(|program| program.readable = vec!["/".into()]), "in `readable`"),
            (changed(|program| program.readable = vec!["/opt/../etc".into()]), "in `readable`"),
            (changed(|program| program.readable = vec!["/proc/1".into()]), "in `readable`"),
            (changed(|program| program.env = vec!["A=B".to_owned()]), "in `env`"),
            (changed(|program| program.env = vec!["LD_PRELOAD".to_owned()]), "in `env`"),
            (changed(|program| program.env = vec!["COUNTERSIGN_EGRESS_FD".to_owned()]), "in `env`"),
            (changed(|program| program.open_files = 65_537), "`open_files` must be"),
            (changed(|program| program.folder_mb = Some(0)), "`folder_mb` must be"),
            (changed(|program| (program.folder_mb, program.readable) = (Some(1), vec!["/data/x".into()])), "beside `folder_mb`"),
            (changed(|program| program.start_seconds = 0), "`start_seconds` must be"),
            (allowed(&["npx", "-y", "server"]), "names no version"),
            (allowed(&["npx", "-y", "server@latest"]), "names no version"),
            (allowed(&["uvx", "server>=1"]), "names no version"),
            (allowed(&["npx", "-y", "./server"]), "is not the name of a package"),
            (allowed(&["npx", "--node-options=x", "server@1.0.0"]), "is not known here"),
            (changed(|program| program.memory_mb = 1), "`memory_mb` must be"),
            (changed(|program| program.memory_mb = PACKAGE_MEMORY_MB_MAX + 1), "`memory_mb` must be"),
        ] {
            let mistake = program.mistake().unwrap_or_default();
            assert!(mistake.contains(words), "{program:?}: {mistake}");
        }
    }

    #[test]
    fn a_command_is_allowed_word_by_word_with_its_variables() {
        let programs = AllowedPrograms::new(vec![allowed(&["node", "index.js"])], &[], ProgramFolders::default()).unwrap();
        let check = |command: &[&str], name: &str| {
            let Started { command, env, .. } = started(command, &[(name, VariableValue::Value(String::new()))]);
            programs.check(&command, &env).map_err(|error| error.code())
        };
        assert_eq!(check(&["node", "index.js"], "LEVEL"), Ok(()));
        let reach = |command: &[&str]| {
            let Started { org, source, command, .. } = started(command, &[]);
            programs.reach(&org, &source, &command)
        };
        let unknown = Reach { folder: true, ..Reach::default() };
        assert_eq!((reach(&["node", "index.js"]).workspace, reach(&["node"])), (true, unknown));
        for (command, name) in [
            (&["node"][..], "LEVEL"),
            (&["node", "index.js", "--more"], "LEVEL"),
            (&["node index.js"], "LEVEL"),
            (&["node", "index.js"], "PATH"),
            (&["node", "index.js"], "level"),
        ] {
            assert_eq!(check(command, name), Err("command_not_allowed"), "{command:?} {name}");
        }
    }

    #[test]
    fn a_source_that_has_kept_something_reaches_it_whatever_its_program_is_allowed_now() {
        let data = tempfile::tempdir().unwrap();
        let folders = ProgramFolders::below(data.path());
        let programs = AllowedPrograms::new(vec![allowed(&["node", "index.js"])], &[], folders.clone()).unwrap();
        let Started { org, source, command, .. } = started(&["node", "index.js"], &[]);
        assert!(!programs.reach(&org, &source, &command).folder);
        std::fs::create_dir_all(folders.of(&org, &source)).unwrap();
        assert!(programs.reach(&org, &source, &command).folder);
    }

    #[tokio::test]
    async fn a_program_gets_what_its_source_declares_and_the_operator_shows_and_no_more() {
        // The program of this test is the only one that is surely there.
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let own = own.to_str().unwrap();
        let programs = AllowedPrograms::new(vec![allowed(&[own, "--serve"])], &[], ProgramFolders::default()).unwrap();
        let set = [("TOKEN", VariableValue::Secret("key".to_owned())), ("HOME", VariableValue::Value("/workspace".to_owned()))];
        let program = programs.program(started(&[own, "--serve"], &set));
        let Start { spec, secrets, versions } = program.start().await.unwrap();
        assert_eq!((secrets.len(), secrets[0].expose().as_str(), versions.as_slice()), (1, "t0p", &[Some(7)][..]), "values are not secret");
        assert_eq!(program.versions().await, Ok(versions));
        assert!(!format!("{spec:?}").contains("t0p"), "{spec:?}");
        assert_eq!((spec.program.to_str(), spec.args.as_slice()), (Some(own), &["--serve".to_owned()][..]));
        let env: Vec<_> = spec.env.iter().map(|(name, value)| (name.as_str(), value.expose().as_str())).collect();
        assert_eq!(env[..5], [("LANG", "C.UTF-8"), ("TZ", "UTC"), SCRATCH, ("TOKEN", "t0p"), ("HOME", "/workspace")]);
        assert!(env[5].0 == "PATH" && env[5].1.ends_with("/usr/local/bin:/usr/bin:/bin"), "{env:?}");
        let shown = |host: &str, jail: &str| spec.read_only.contains(&(host.into(), jail.into()));
        assert!(shown("/opt/kit", "/opt/kit") && shown("/data/workspace", "/workspace"), "{:?}", spec.read_only);
        assert_eq!((spec.memory_bytes, spec.open_files, spec.folder, spec.egress.is_none()), (64 << 20, 512, None, true));
        assert_eq!(program.patience(), Duration::from_secs(7));
        let gone = [("TOKEN", VariableValue::Secret("gone".to_owned()))];
        for (started, code) in [
            (started(&[own, "--serve"], &gone), "secret_missing"),
            (started(&[own], &[]), "command_not_allowed"),
            (Started { workspace: None, ..started(&[own, "--serve"], &[]) }, "program_missing"),
        ] {
            assert_eq!(programs.program(started).start().await.map(|_| ()).map_err(|error| error.code()), Err(code));
        }
    }
}
