//! Checks that need no server: settings, files and their permissions, the sandbox, free disk space.

use super::Finding;
use crate::context::{Contexts, Environment};
use crate::shared::*;
use countersign_core::Clock as _;
use host::{Config, Interpreter, Spelling};
use rustix::fs::Access;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Below this, the disk should be given more room soon.
const FREE_BYTES_LOOK: u64 = 1 << 30;
/// Below this, the server will soon stop working.
const FREE_BYTES_BROKEN: u64 = 100 << 20;

pub(super) fn check(config: Result<&Config, &Failure>, environment: &Environment) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("version", format!("countersign {}", env!("CARGO_PKG_VERSION")))];
    match config {
        Ok(config) => {
            findings.push(Finding::ok("settings", "the settings are valid"));
            findings.extend(config.tls.clone().map(certificate));
            findings.extend(data_folder(config.data_dir(), config.master_key_file.as_deref()));
            findings.extend(host::spelling_below(config.data_dir()).map(spelling));
            findings.extend(sandbox(config.allow_plugin_code_execution, config.allow_degraded));
            findings.extend(host::interpreters().iter().map(|found| interpreter(found, config.allow_plugin_code_execution)));
        }
        Err(failure) => findings.push(Finding::broken("settings", &failure.message).fix("correct the file or the variable that is named")),
    }
    findings.extend(contexts(environment));
    findings
}

/// Whether a server could start with this certificate now.
fn certificate(files: host::TlsFiles) -> Finding {
    let named = files.cert.display().to_string();
    match host::Tls::open(files, host::SystemClock.now()) {
        Ok(_) => Finding::ok("tls", format!("the certificate in `{named}` is valid, and its key fits")),
        Err(error) => Finding::broken("tls", error.to_string()).fix("correct `tls_cert` and `tls_key`, or put a new certificate there"),
    }
}

/// What the host offers to confine code. If the server runs no code, a missing feature is only worth a look.
fn sandbox(runs_code: bool, allow_degraded: bool) -> Vec<Finding> {
    let (probes, profiles) = homes::look_at_host(allow_degraded);
    let mut findings: Vec<_> = probes
        .iter()
        .map(|probe| {
            let found = format!("{}: {}; {}", probe.name, probe.value, probe.consequence);
            if probe.disables.is_empty() { Finding::ok("sandbox", found) } else { Finding::look("sandbox", found) }
        })
        .collect();
    let code =
        if runs_code { "a server with these settings runs package code" } else { "a server with these settings runs no package code" };
    findings.push(match (profiles.is_empty(), runs_code) {
        (true, true) => Finding::broken("sandbox", "no profile is available here, although packages are to run"),
        (true, false) => Finding::look("sandbox", format!("no profile is available here; {code}")),
        (false, _) => Finding::ok(
            "sandbox",
            format!("available profiles: {}; {code}", profiles.iter().map(|profile| profile.as_str()).collect::<Vec<_>>().join(", ")),
        ),
    });
    findings.push(if allow_degraded {
        Finding::look("sandbox", "`allow_degraded` is true: where Landlock is missing, `default` runs without it")
            .fix("take `allow_degraded` out of the settings, unless this kernel has no Landlock")
    } else {
        Finding::ok("sandbox", "`allow_degraded` is false: where Landlock is missing, nothing runs")
    });
    findings
}

/// Whether the workspace's file system distinguishes upper and lower case.
fn spelling(spelling: Spelling) -> Finding {
    match spelling {
        Spelling::CaseSensitive => Finding::ok("workspace", "file names are case-sensitive"),
        Spelling::CaseInsensitive => Finding::look(
            "workspace",
            "file names are not case-sensitive: a path must be spelled as on disk, and a forbidden path is forbidden in every spelling",
        ),
    }
}

/// An interpreter for packages' scripts. It is needed only if the server runs code.
fn interpreter(interpreter: &Interpreter, runs_code: bool) -> Finding {
    let Interpreter { name, language, found } = interpreter;
    match found {
        Some((path, digest)) => {
            let found = format!("{name}: {} with sha256 {digest}; packages in {language} run by it", path.display());
            Finding::ok("interpreter", found)
        }
        None if runs_code => {
            let found = format!("{name}: there is none; packages in {language} are refused with `package_interpreter_missing`");
            Finding::look("interpreter", found).fix(format!("install `{name}` for everyone, unless no package is in {language}"))
        }
        None => Finding::ok("interpreter", format!("{name}: there is none, and package code is not run")),
    }
}

fn data_folder(data: &Path, master_key: Option<&Path>) -> Vec<Finding> {
    if !data.exists() {
        return vec![Finding::ok("data folder", format!("there is none at {}: no server was started here", data.display()))];
    }
    let mut findings = vec![match rustix::fs::access(data, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Err(error) => Finding::broken("data folder", format!("{} cannot be written: {error}", data.display())).fix(match error {
            rustix::io::Errno::ROFS => "mount its file system for writing, or choose another folder with --data".to_owned(),
            _ => format!("chown -R $USER {}", data.display()),
        }),
        Ok(()) => match readable_by_others(data) {
            true => Finding::look("data folder", format!("others can look into {}", data.display()))
                .fix(format!("chmod 700 {}", data.display())),
            false => Finding::ok("data folder", format!("{} is writable and private", data.display())),
        },
    }];
    let own_key = data.join("master.key");
    findings.push(private("master key", master_key.unwrap_or(&own_key), Finding::broken));
    let owner_token = data.join("owner.token");
    if owner_token.exists() {
        findings.push(private("owner token", &owner_token, Finding::look));
    }
    findings.extend(room(data));
    findings
}

/// A file that must exist and be readable by its owner alone.
fn private(subject: &'static str, path: &Path, bad: fn(&'static str, String) -> Finding) -> Finding {
    if !path.exists() {
        return bad(subject, format!("{} is missing", path.display())).fix("put it back from where you keep it");
    }
    if readable_by_others(path) {
        return bad(subject, format!("others can read {}", path.display())).fix(format!("chmod 600 {}", path.display()));
    }
    Finding::ok(subject, format!("{} is private", path.display()))
}

fn readable_by_others(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

fn room(data: &Path) -> Option<Finding> {
    let disk = rustix::fs::statvfs(data).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{} MiB are free", free >> 20);
    Some(match free {
        0..FREE_BYTES_BROKEN => Finding::broken("disk", found).fix(format!("make room where {} is", data.display())),
        FREE_BYTES_BROKEN..FREE_BYTES_LOOK => Finding::look("disk", found).fix(format!("make room where {} is", data.display())),
        FREE_BYTES_LOOK.. => Finding::ok("disk", found),
    })
}

fn contexts(environment: &Environment) -> Option<Finding> {
    let path = environment.contexts_file().ok()?;
    if !path.exists() {
        return None;
    }
    Some(match Contexts::load(&path) {
        Err(failure) => Finding::broken("contexts", failure.message).fix("countersign login"),
        Ok(_) if readable_by_others(&path) => Finding::look("contexts", format!("others can read the tokens in {}", path.display()))
            .fix(format!("chmod 600 {}", path.display())),
        Ok(contexts) => {
            let current = contexts.current.map_or_else(|| "none is current".to_owned(), |name| format!("`{name}` is current"));
            Finding::ok("contexts", format!("{} in {}, {current}", contexts.contexts.len(), path.display()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_file_system_that_does_not_tell_case_apart_is_worth_a_look() {
        let (well, worse) = (spelling(Spelling::CaseSensitive), spelling(Spelling::CaseInsensitive));
        assert_eq!((well.verdict, worse.verdict), (Verdict::Ok, Verdict::Look));
        assert_eq!(well.found, "file names are case-sensitive");
        assert!(worse.found.starts_with("file names are not case-sensitive:"));
    }

    #[test]
    fn an_interpreter_that_is_missing_matters_where_code_runs() {
        let missing = Interpreter { name: "node", language: "JavaScript", found: None };
        let (needed, not_needed) = (interpreter(&missing, true), interpreter(&missing, false));
        assert_eq!((needed.verdict, not_needed.verdict), (Verdict::Look, Verdict::Ok));
        assert!(needed.found.contains("`package_interpreter_missing`") && needed.fix.is_some(), "{needed:?}");
    }
}
