//! Runs a jail for a test: as root, or as an ordinary user that this process becomes first. Reads one JSON job, prints one JSON report.

use crate::files::text;
use crate::sys::call;
use sandbox::{Bind, Cancel, Input, Limits, Options, Probes, Profile, Program, Sandbox, Spec, StageSpec, Stay, View};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::Read;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

#[derive(Deserialize, Serialize)]
struct Job {
    helper: PathBuf,
    program: PathBuf,
    profile: Profile,
    uid: Option<u32>,
    args: Vec<String>,
    #[serde(default)]
    env: Vec<(String, String)>,
    #[serde(default)]
    read_only: Vec<(PathBuf, PathBuf)>,
    /// Each has a folder of the host, its path in the jail, and the entries to show.
    #[serde(default)]
    views: Vec<(PathBuf, PathBuf, Vec<String>)>,
    /// A folder on which something is mounted first, visible to this process only.
    mount_at: Option<PathBuf>,
    #[serde(default)]
    inputs: Vec<(PathBuf, String)>,
    #[serde(default)]
    stdin: String,
    wall_ms: Option<u64>,
    memory_bytes: Option<u64>,
    processes: Option<u32>,
    stage_bytes: Option<u64>,
    stage_files: Option<u64>,
    file_bytes: Option<u64>,
    flood_bytes: Option<u64>,
    #[serde(default)]
    egress: bool,
    #[serde(default)]
    allow_degraded: bool,
    /// Whether the same job is run a second time by the same server.
    #[serde(default)]
    again: bool,
    /// An attempt that runs beside the first, once the first has printed a line; then the first is cancelled.
    beside: Option<String>,
    /// Whether the program is started as a resident, for as long as this process lives.
    #[serde(default)]
    resident: bool,
    /// Whether the server is in a pid namespace of its own, as in a container.
    #[serde(default)]
    apart: bool,
}

pub(crate) fn main() -> i32 {
    let mut text = String::new();
    let report = std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string());
    let report = report.and_then(|_| serde_json::from_str(&text).map_err(|error| error.to_string())).and_then(drive);
    let (report, code) = match report {
        Ok(report) => (report, 0),
        Err(error) => (json!({ "refused": error }), 1),
    };
    crate::say(&report.to_string());
    code
}

/// Does the job in a pid namespace of its own, which ends with this process.
fn apart(job: Job) -> Result<Value, String> {
    let (nothing, proc) = (text(""), text("proc"));
    let (flags, private) = (i64::from(libc::CLONE_NEWPID | libc::CLONE_NEWNS), (libc::MS_REC | libc::MS_PRIVATE) as i64);
    call(libc::SYS_unshare, &[&flags])
        .and_then(|_| call(libc::SYS_mount, &[&nothing, &text("/"), &nothing, &private]))
        .map_err(|error| format!("no namespace of its own: errno {error}"))?;
    let ended = crate::sys::in_child(move || {
        crate::sys::die_with_parent();
        let mounted = call(libc::SYS_mount, &[&proc, &text("/proc"), &proc, &0_i64]).map_err(|error| format!("no `/proc`: errno {error}"));
        let report = mounted.and_then(|_| drive(Job { apart: false, ..job })).unwrap_or_else(|error| json!({ "refused": error }));
        crate::say(&report.to_string());
        0
    });
    ended.map(|_| Value::Null)
}

fn drive(job: Job) -> Result<Value, String> {
    if job.apart {
        return apart(job);
    }
    if let Some(folder) = &job.mount_at {
        mount_at(folder)?;
    }
    if let Some(id) = job.uid {
        crate::sys::become_id(id)?;
    }
    // A descriptor that a careless server leaves open must not reach the program.
    crate::sys::leak_ring();
    let sandbox = Sandbox::new(Probes::now(&job.helper), &job.helper, Options { allow_degraded: job.allow_degraded, ..Options::default() });
    let sandbox = sandbox.map_err(|error| error.to_string())?;
    if job.resident {
        return stay(&sandbox, spec(&job)?);
    }
    let Some(beside) = job.beside.clone() else {
        let mut report = run(&sandbox, spec(&job)?, None, None)?;
        if job.again {
            report["again"] = run(&sandbox, spec(&job)?, None, None)?;
        }
        return Ok(report);
    };
    let mut neighbour = spec(&job)?;
    if let Some(name) = neighbour.args.get_mut(1) {
        *name = beside;
    }
    let cancel = Cancel::new().map_err(|error| error.to_string())?;
    let (said, hears) = mpsc::channel();
    std::thread::scope(|scope| {
        let first = {
            let (sandbox, cancel, spec) = (&sandbox, &cancel, spec(&job)?);
            scope.spawn(move || run(sandbox, spec, Some(said), Some(cancel)))
        };
        // The first run ends without a line only if it was refused, and then its report says so.
        let ran = hears.recv().map_err(|error| error.to_string()).and_then(|_| run(&sandbox, neighbour, None, None));
        cancel.cancel();
        let mut report = first.join().map_err(|_| "the first run was lost".to_owned())??;
        report["beside"] = ran?;
        Ok(report)
    })
}

fn stay(sandbox: &Sandbox, spec: Spec) -> Result<Value, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let stay = Stay { cpu_percent: 100, line_bytes_max: 1 << 20, stderr_bytes_max: 1 << 16, grace: Duration::from_secs(60) };
    runtime.block_on(async {
        let resident = sandbox.start(spec, stay, ()).await.map_err(|error| error.to_string())?;
        let ended = resident.child.ended().await.map_err(|error| error.to_string())?;
        Ok(json!({ "ended": ended }))
    })
}

/// Mounts a tmpfs on a folder, in a mount namespace of our own, with one file in it that everybody may read.
fn mount_at(folder: &Path) -> Result<(), String> {
    let (nothing, kind) = (text(""), text("tmpfs"));
    let at = text(&folder.to_string_lossy());
    let (alone, private) = (i64::from(libc::CLONE_NEWNS), (libc::MS_REC | libc::MS_PRIVATE) as i64);
    call(libc::SYS_unshare, &[&alone])
        .and_then(|_| call(libc::SYS_mount, &[&nothing, &text("/"), &nothing, &private]))
        .and_then(|_| call(libc::SYS_mount, &[&kind, &at, &kind, &0_i64, &text("mode=755")]))
        .map_err(|error| format!("nothing could be mounted: errno {error}"))?;
    std::fs::write(folder.join("inside"), "inside").map_err(|error| error.to_string())
}

fn spec(job: &Job) -> Result<Spec, String> {
    let digest = sandbox::digest_of(&job.program).map_err(|error| error.to_string())?;
    let mut spec = Spec::new(job.profile, Program { path: job.program.clone(), digest });
    spec.args = job.args.iter().map(|arg| arg.replace("{server}", &std::process::id().to_string())).collect();
    spec.env.clone_from(&job.env);
    spec.read_only = job.read_only.iter().map(|(host, jail)| Bind { host: host.clone(), jail: jail.clone() }).collect();
    let view = |(host, jail, only): &(PathBuf, PathBuf, Vec<String>)| View { host: host.clone(), jail: jail.clone(), only: only.clone() };
    spec.views = job.views.iter().map(view).collect();
    spec.inputs = job.inputs.iter().map(|(path, text)| Input { path: path.clone(), bytes: text.clone().into_bytes() }).collect();
    spec.stdin = job.stdin.clone().into_bytes();
    let (limits, stage) = (Limits::default(), StageSpec::default());
    spec.limits = Limits {
        wall: job.wall_ms.map_or(limits.wall, Duration::from_millis),
        memory_bytes: job.memory_bytes.unwrap_or(limits.memory_bytes),
        processes: job.processes.unwrap_or(limits.processes),
        file_bytes: job.file_bytes.unwrap_or(limits.file_bytes),
        flood_bytes: job.flood_bytes.unwrap_or(limits.flood_bytes),
        ..limits
    };
    spec.stage =
        StageSpec { bytes_max: job.stage_bytes.unwrap_or(stage.bytes_max), files_max: job.stage_files.unwrap_or(stage.files_max), ..stage };
    if job.egress {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|error| error.to_string())?;
        spec.egress = Some(OwnedFd::from(theirs));
        // The other end stays open until this process ends.
        let _ = ours.into_raw_fd();
    }
    Ok(spec)
}

/// Does one run and reports it. `said` receives each line of its log.
fn run(sandbox: &Sandbox, spec: Spec, said: Option<mpsc::Sender<String>>, cancel: Option<&Cancel>) -> Result<Value, String> {
    let lines = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let seen = lines.clone();
    let on_log: sandbox::OnLog = Box::new(move |line| {
        if let Some(said) = &said {
            let _ = said.send(line.to_owned());
        }
        if let Ok(mut seen) = seen.lock()
            && seen.len() < 100
        {
            seen.push(line.to_owned());
        }
    });
    let outcome = match sandbox.run_blocking(spec, Some(on_log), cancel) {
        Ok(outcome) => outcome,
        Err(error) => return Ok(json!({ "error": error.to_string(), "transient": error.is_transient() })),
    };
    let stage = match outcome.stage.walk() {
        Ok(entries) => {
            let entries = entries.iter().map(|entry| {
                let text =
                    outcome.stage.read(&entry.path).map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]).into_owned());
                json!({ "path": entry.path, "mode": entry.mode, "text": text.ok() })
            });
            json!({ "entries": entries.collect::<Vec<_>>() })
        }
        Err(error) => json!({ "refused": error.to_string() }),
    };
    let max_rss = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let high_water =
        max_rss.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let lines = lines.lock().map(|lines| lines.clone()).unwrap_or_default();
    Ok(json!({
        "ended": outcome.ended,
        "result": String::from_utf8_lossy(&outcome.result.kept),
        "result_truncated": outcome.result.truncated,
        "log": outcome.log.kept,
        "log_truncated": outcome.log.truncated,
        "lines": lines,
        "facts": outcome.facts,
        "cost": outcome.cost,
        "stage": stage,
        "server_high_water_kb": high_water,
    }))
}
