//! Implements the port `core::jail` with the sandbox: converts specs and outcomes, and limits how many programs run at once. For a program
//! with network access, it connects the sandbox's proxy to the `Egress` that judges each request.

mod late;
mod resident;
mod turns;

pub use late::LateJail;

use crate::limits::{EGRESS_REQUESTS_MAX, PACKAGE_RESULT_BYTES_MAX};
use countersign_core::action::Profile;
use countersign_core::jail::{Confined, Confinement, Ended, Error, Jail, StagedFile, Turn};
use sandbox::egress::{self, Proxy};
use sandbox::stage::Kind;
use sandbox::{Bind, Input, Limits, OnLog, Options, Outcome, Probes, Program, Sandbox, Spec, StageSpec, View};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use turns::Turns;

/// This executable itself, under whatever name it was started.
pub const HELPER: &str = "/proc/self/exe";
/// Tells a program which file descriptor its network access is.
const EGRESS_VARIABLE: &str = "COUNTERSIGN_EGRESS_FD";

/// Where package code and commands run.
pub struct SandboxJail {
    sandbox: Result<Sandbox, String>,
    turns: Turns,
    profiles: Option<Vec<Profile>>,
}

impl SandboxJail {
    /// Probes what the host offers. If something is missing, the error comes when a program is to run.
    pub fn open(allow_degraded: bool) -> Self {
        let helper = Path::new(HELPER);
        let options = Options { allow_degraded, ..Options::default() };
        let host = Probes::now(helper);
        let profiles = Some(profiles_of(&host, allow_degraded));
        let sandbox = Sandbox::new(host, helper, options).map_err(|error| error.to_string());
        Self { sandbox, turns: Turns::new(), profiles }
    }

    /// A jail that refuses every program, for a server that runs no package code.
    pub fn closed() -> Self {
        let why = "this server runs no code: set `allow_plugin_code_execution = true` to let it".to_owned();
        Self { sandbox: Err(why), turns: Turns::new(), profiles: None }
    }

    /// The profiles that can be had; `None` where no code runs at all.
    pub fn profiles(&self) -> Option<Vec<Profile>> {
        self.profiles.clone()
    }

    async fn run(&self, mut what: Confinement) -> Result<Confined, Error> {
        let sandbox = self.sandbox.as_ref().map_err(|why| Error::Unavailable { message: why.clone() })?;
        let asked = tokio::time::Instant::now();
        let _turn = self.turns.take(&what.turn, Duration::from_millis(what.wall_ms / 2), what.progress.as_ref()).await?;
        if let Turn::ToMake { .. } = what.turn {
            what.wall_ms = left_of(what.wall_ms, asked.elapsed());
        }
        let on_log = what.progress.clone().map(|progress| Box::new(move |line: &str| progress.tell(line)) as OnLog);
        let egress = what.egress.clone();
        let mut spec = spec(what)?;
        let outcome = match &egress {
            Some(egress) => {
                let proxy = open_way_out(&mut spec)?;
                beside(sandbox.run(spec, on_log), proxy.serve(&**egress, EGRESS_REQUESTS_MAX)).await
            }
            None => sandbox.run(spec, on_log).await,
        };
        let outcome = outcome.map_err(|error| without_outcome(&error))?;
        // The stage is in memory but may be large, so it is read on a blocking thread.
        let confined = tokio::task::spawn_blocking(move || confined(outcome)).await;
        confined.map_err(|error| Error::Lost { message: format!("the stage could not be read: {error}") })
    }
}

/// The time left for a run with an effect, after it waited for its turn. The caller's timeout started when it asked and is a little longer
/// than this, so the jail times out first and can say that nothing was changed. A run that verifies or reverts does not lose the time it
/// waited for its turn.
fn left_of(wall_ms: u64, waited: Duration) -> u64 {
    wall_ms.saturating_sub(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)).max(1)
}

/// Translates an error of the sandbox. Only if the program cannot have started does the error say that nothing ran.
fn without_outcome(error: &sandbox::Error) -> Error {
    let message = error.to_string();
    match error {
        sandbox::Error::Unavailable { .. } => Error::Unavailable { message },
        sandbox::Error::Refused { .. } | sandbox::Error::OtherProgram { .. } => Error::Refused { message },
        // `Busy` itself says that nothing ran: the caller may have to add that an effect has already happened.
        sandbox::Error::Host { what, why, started: false } => Error::Busy { message: format!("the sandbox could not {what}: {why}") },
        sandbox::Error::Host { started: true, .. } | sandbox::Error::Immortal { .. } => Error::Lost { message },
    }
}

impl Jail for SandboxJail {
    fn confine(&self, what: Confinement) -> countersign_core::Future<'_, Result<Confined, Error>> {
        Box::pin(self.run(what))
    }
}

/// Creates a socket pair: one end goes to the program, the proxy answers on the other.
fn open_way_out(spec: &mut Spec) -> Result<Proxy, Error> {
    let (proxy, theirs) = egress::pair().map_err(|error| Error::Busy { message: format!("a way out could not be made: {error}") })?;
    spec.egress = Some(theirs);
    spec.env.push((EGRESS_VARIABLE.to_owned(), egress::DESCRIPTOR.to_string()));
    Ok(proxy)
}

/// Serves the program's requests as long as the run lasts. If this future is dropped, both end: the program is killed, requests that were
/// not read yet are not made, requests in progress are aborted, and no connection stays open.
async fn beside<T>(running: impl Future<Output = T>, serving: impl Future<Output = io::Result<()>>) -> T {
    tokio::pin!(running);
    tokio::select! {
        biased;
        ended = &mut running => return ended,
        served = serving => if let Err(error) = served {
            tracing::warn!(%error, "a program's way out broke");
        },
    }
    // The program has reached its limit of requests, or has closed its end.
    running.await
}

fn spec(what: Confinement) -> Result<Spec, Error> {
    let profile = confining(what.profile)?;
    let wall = Duration::from_millis(what.wall_ms);
    Ok(Spec {
        args: what.args,
        env: what.env,
        starts_in: what.starts_in,
        read_only: binds(what.read_only),
        views: what.views.into_iter().map(|view| View { host: view.host, jail: view.jail, only: view.only }).collect(),
        inputs: inputs(what.inputs),
        stage: StageSpec { bytes_max: what.stage_bytes_max, files_max: what.stage_files_max, initial: Vec::new() },
        stdin: what.stdin,
        limits: Limits {
            memory_bytes: what.memory_bytes,
            cpu: wall.max(Duration::from_secs(1)),
            wall,
            file_bytes: what.stage_bytes_max,
            result_bytes: PACKAGE_RESULT_BYTES_MAX,
            ..Limits::default()
        },
        ..Spec::new(profile, Program { path: what.program, digest: what.program_digest })
    })
}

fn confining(profile: Profile) -> Result<sandbox::Profile, Error> {
    match profile {
        Profile::Default => Ok(sandbox::Profile::Default),
        Profile::HighIsolation => Ok(sandbox::Profile::HighIsolation),
        Profile::InProcess | Profile::Resident => Err(Error::Refused { message: format!("`{profile}` is no confinement") }),
    }
}

fn binds(read_only: Vec<(PathBuf, PathBuf)>) -> Vec<Bind> {
    read_only.into_iter().map(|(host, jail)| Bind { host, jail }).collect()
}

fn inputs(inputs: Vec<countersign_core::jail::Input>) -> Vec<Input> {
    inputs.into_iter().map(|input| Input { path: input.path, bytes: input.bytes.to_vec() }).collect()
}

fn ended(ended: sandbox::Ended) -> Ended {
    match ended {
        sandbox::Ended::Exited(code) => Ended::Exited(code),
        // The kernel sends SIGXCPU to a program that has used up its processor time, which counts as a timeout.
        sandbox::Ended::Signalled(signal) if signal == rustix::process::Signal::XCPU.as_raw() => Ended::TimedOut,
        sandbox::Ended::Signalled(signal) => Ended::Signalled(signal),
        sandbox::Ended::TimedOut => Ended::TimedOut,
        sandbox::Ended::OutOfMemory => Ended::OutOfMemory,
        sandbox::Ended::Flooded => Ended::Flooded,
        sandbox::Ended::Cancelled => Ended::Cancelled,
    }
}

fn confined(outcome: Outcome) -> Confined {
    Confined {
        ended: ended(outcome.ended),
        is_cut: outcome.result.truncated,
        stdout: outcome.result.kept,
        log: outcome.log.kept,
        cpu_ms: outcome.cost.cpu_ms,
        facts: serde_json::to_value(&outcome.facts).unwrap_or_default(),
        staged: staged(&outcome.stage).map_err(|error| error.to_string()),
    }
}

fn staged(stage: &sandbox::stage::Stage) -> Result<Vec<StagedFile>, sandbox::stage::Error> {
    let mut files = Vec::new();
    for entry in stage.walk()? {
        if let Kind::File { .. } = entry.kind {
            files.push(StagedFile { bytes: stage.read(&entry.path)?, path: entry.path, mode: entry.mode });
        }
    }
    Ok(files)
}

/// One host feature that the sandbox needs, as found on this host.
pub struct HostProbe {
    pub name: &'static str,
    pub value: String,
    pub consequence: String,
    /// The profiles that are unavailable because of it.
    pub disables: Vec<&'static str>,
}

/// What this host offers to confine programs with: every probe, and the profiles that a server with this setting can have.
pub fn look_at_host(allow_degraded: bool) -> (Vec<HostProbe>, Vec<Profile>) {
    let host = Probes::now(Path::new(HELPER));
    let profiles = profiles_of(&host, allow_degraded);
    let probes = host.probes.iter().map(|probe| HostProbe {
        name: probe.name,
        value: probe.value.clone(),
        consequence: probe.consequence.clone(),
        disables: probe.disables.iter().map(|profile| profile.name()).collect(),
    });
    (probes.collect(), profiles)
}

fn profiles_of(host: &Probes, allow_degraded: bool) -> Vec<Profile> {
    let can_be_had = |profile: &sandbox::Profile| host.against(*profile, allow_degraded).is_none();
    sandbox::Profile::ALL.into_iter().filter(can_be_had).map(profile_of).collect()
}

const fn profile_of(profile: sandbox::Profile) -> Profile {
    match profile {
        sandbox::Profile::Default => Profile::Default,
        sandbox::Profile::HighIsolation => Profile::HighIsolation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::Error as Sandboxed;

    #[test]
    fn the_time_spent_waiting_for_a_turn_is_part_of_the_time_a_run_has() {
        for (wall_ms, waited_ms, left) in [(1_000, 0, 1_000), (1_000, 400, 600), (1_000, 1_000, 1), (1_000, 9_000, 1)] {
            assert_eq!(left_of(wall_ms, Duration::from_millis(waited_ms)), left);
        }
    }

    #[test]
    fn only_what_cannot_have_begun_is_said_not_to_have_run() {
        let host = |started| Sandboxed::Host { what: "watch the program", why: "a descriptor broke".to_owned(), started };
        let other = Sandboxed::OtherProgram { path: "a".to_owned(), expected: "b".to_owned(), found: "c".to_owned() };
        for (error, expected) in [
            (host(false), "busy"),
            (host(true), "lost"),
            (Sandboxed::Immortal { waited_ms: 1 }, "lost"),
            (Sandboxed::Unavailable { step: sandbox::Step::Mounts, why: "no".to_owned() }, "unavailable"),
            (Sandboxed::Refused { what: "a".to_owned(), why: "no".to_owned() }, "refused"),
            (other, "refused"),
        ] {
            let said = error.to_string();
            let (found, message) = match without_outcome(&error) {
                Error::Unavailable { message } => ("unavailable", message),
                Error::Refused { message } => ("refused", message),
                Error::Busy { message } => ("busy", message + "; nothing ran, retrying is safe"),
                Error::Lost { message } => ("lost", message),
            };
            assert_eq!((found, &message), (expected, &said));
            assert_eq!(found == "lost", !said.contains("nothing ran"), "{said}");
        }
    }
}
