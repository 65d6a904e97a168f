//! The programs that an operator allows as MCP servers, and how each of them is started: found and hashed anew, with the variables and secrets
//! that its source declares, and with nothing of the host but what the operator shows it.

use super::connection::{Start, Startable};
use crate::egress::{NamedIn, Network, WayOut};
use crate::program::{PLACES, Program, Programs, SCRATCH, is_variable, libraries};
use crate::relay::{self, Relay};
use crate::web::HostRule;
use crate::words::{refused, shown};
use countersign_core::action::Profile;
use countersign_core::egress::Egress;
use countersign_core::limits::{
    MCP_MESSAGE_BYTES_MAX, MCP_PROGRAM_CPU_PERCENT, MCP_PROGRAM_GRACE_MS, MCP_PROGRAM_PROCESSES, PACKAGE_MEMORY_MB_DEFAULT,
    PACKAGE_MEMORY_MB_MAX, RELAY_PORTS_MAX,
};
use countersign_core::ports::Secrets;
use countersign_core::ports::secrets::SecretName;
use countersign_core::ports::sources::{Variable, VariableValue};
use countersign_core::resident::Spec;
use countersign_core::source::Error;
use countersign_core::{Future, OrgId, Secret, SourceId, ports};
use ipnet::IpNet;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Where a program sees the workspace of its org.
const WORKSPACE: &str = "/workspace";
/// Programs look for their settings in the home of their user, and some do not start without one.
const ENVIRONMENT: [(&str, &str); 4] = [("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("TZ", "UTC"), SCRATCH];
/// Paths that the jail provides itself.
const OWN: [&str; 5] = ["/stage", "/tmp", "/proc", "/dev", WORKSPACE];
/// The least memory an interpreter starts in.
const MEMORY_MB_MIN: u64 = 16;

/// A program that an operator allows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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
}

const fn default_memory_mb() -> u64 {
    PACKAGE_MEMORY_MB_DEFAULT
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
        None
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
}

/// Every program that an operator allows.
#[derive(Clone)]
pub struct AllowedPrograms {
    /// Each with its network, if it has one.
    allowed: Arc<[(AllowedProgram, Option<Arc<Network>>)]>,
    programs: Programs,
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
    pub fn new(allowed: Vec<AllowedProgram>, networks: &[IpNet]) -> Result<Self, crate::Error> {
        let named_in = NamedIn { hosts: "hosts` of `mcp_commands", networks: "source_allowed_networks" };
        let with_network = |program: AllowedProgram| {
            let network = (!program.hosts.is_empty()).then(|| Network::new(program.hosts.clone(), networks.to_vec(), named_in));
            Ok::<_, crate::Error>((program, network.transpose()?.map(Arc::new)))
        };
        let allowed = allowed.into_iter().map(with_network).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { allowed: allowed.into(), programs: Programs::default() })
    }

    /// Whether an operator allows this command with these variables.
    pub fn check(&self, command: &[String], env: &[Variable]) -> Result<(), Error> {
        self.find(command, env).map(|_| ())
    }

    /// What this command can reach.
    pub fn reach(&self, command: &[String]) -> Reach {
        let found = self.allowed.iter().find(|(program, _)| program.command == command);
        found.map(|(program, _)| Reach { hosts: program.hosts.clone(), workspace: program.workspace }).unwrap_or_default()
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
        Arc::new(OneProgram { allowed: self.clone(), started })
    }

    async fn start(&self, started: &Started) -> Result<Start, Error> {
        let Started { org, source, command, env, workspace, secrets } = started;
        let (allowed, network) = self.find(command, env)?;
        let (name, args) = command.split_first().ok_or_else(|| refused("command_not_allowed", "the command names no program"))?;
        let program = self.programs.find(name).await.ok_or_else(|| {
            let places = PLACES.join(", ");
            refused("program_missing", format!("there is no program `{}` in {places}: an operator installs it", shown(name)))
        })?;
        let environment = environment(org, source, env, &**secrets).await?;
        let mut read_only = libraries(&program.path);
        read_only.extend(allowed.readable.iter().map(|path| (path.clone(), path.clone())));
        if allowed.workspace {
            let missing = || refused("program_missing", "this org has no workspace on this server that the program could see");
            read_only.push((workspace.clone().ok_or_else(missing)?, WORKSPACE.into()));
        }
        let egress = network.as_ref().map(|network| Arc::new(WayOut::of_source(network, source)) as Arc<dyn Egress>);
        let mut spec = Spec { args: args.to_vec(), read_only, egress, ..bare(org, program, allowed.memory_mb * 1024 * 1024) };
        if let Some(network) = network {
            spec.network = Some(Arc::new(Relay::new(source, network.allowed())));
            spec.inputs = relay::files(&allowed.readable);
            spec.read_only.extend(relay::certificates(&allowed.readable));
        }
        Ok(environment.start(spec))
    }
}

struct OneProgram {
    allowed: AllowedPrograms,
    started: Started,
}

impl Startable for OneProgram {
    fn start(&self) -> Future<'_, Result<Start, Error>> {
        Box::pin(self.allowed.start(&self.started))
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
        args: Vec::new(),
        env: Vec::new(),
        read_only: Vec::new(),
        inputs: Vec::new(),
        memory_bytes,
        processes: MCP_PROGRAM_PROCESSES,
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
            (changed(|program| program.memory_mb = 1), "`memory_mb` must be"),
            (changed(|program| program.memory_mb = PACKAGE_MEMORY_MB_MAX + 1), "`memory_mb` must be"),
        ] {
            let mistake = program.mistake().unwrap_or_default();
            assert!(mistake.contains(words), "{program:?}: {mistake}");
        }
    }

    #[test]
    fn a_command_is_allowed_word_by_word_with_its_variables() {
        let programs = AllowedPrograms::new(vec![allowed(&["node", "index.js"])], &[]).unwrap();
        let check = |command: &[&str], name: &str| {
            let Started { command, env, .. } = started(command, &[(name, VariableValue::Value(String::new()))]);
            programs.check(&command, &env).map_err(|error| error.code())
        };
        assert_eq!(check(&["node", "index.js"], "LEVEL"), Ok(()));
        let reach = |command: &[&str]| programs.reach(&started(command, &[]).command);
        assert_eq!((reach(&["node", "index.js"]).workspace, reach(&["node"])), (true, Reach::default()));
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

    #[tokio::test]
    async fn a_program_gets_what_its_source_declares_and_the_operator_shows_and_no_more() {
        // The program of this test is the only one that is surely there.
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let own = own.to_str().unwrap();
        let programs = AllowedPrograms::new(vec![allowed(&[own, "--serve"])], &[]).unwrap();
        let set = [("TOKEN", VariableValue::Secret("key".to_owned())), ("HOME", VariableValue::Value("/workspace".to_owned()))];
        let program = programs.program(started(&[own, "--serve"], &set));
        let Start { spec, secrets, versions } = program.start().await.unwrap();
        assert_eq!((secrets.len(), secrets[0].expose().as_str(), versions.as_slice()), (1, "t0p", &[Some(7)][..]), "values are not secret");
        assert_eq!(program.versions().await, Ok(versions));
        assert!(!format!("{spec:?}").contains("t0p"), "{spec:?}");
        assert_eq!((spec.program.to_str(), spec.args.as_slice()), (Some(own), &["--serve".to_owned()][..]));
        let env: Vec<_> = spec.env.iter().map(|(name, value)| (name.as_str(), value.expose().as_str())).collect();
        assert_eq!(env, [("LANG", "C.UTF-8"), ("TZ", "UTC"), SCRATCH, ("TOKEN", "t0p"), ("HOME", "/workspace")]);
        let shown = |host: &str, jail: &str| spec.read_only.contains(&(host.into(), jail.into()));
        assert!(shown("/opt/kit", "/opt/kit") && shown("/data/workspace", "/workspace"), "{:?}", spec.read_only);
        assert_eq!((spec.memory_bytes, spec.egress.is_none()), (64 << 20, true));
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
