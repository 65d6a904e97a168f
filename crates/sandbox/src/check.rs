//! Refuses a spec that makes no sense, before anything is started.

use crate::error::Error;
use crate::spec::{FOLDER, Life, OPEN_FILES_MAX, Profile, Spec};
use countersign_core::limits::{RELAY_PORTS_MAX, VIEW_PARTS_MAX};
use std::path::{Component, Path};

/// The paths that the jail itself provides.
const OWN: [&str; 4] = ["/stage", "/tmp", "/proc", "/dev"];

/// How many paths of the host a program may see.
const BINDS_MAX: usize = 64;

pub(crate) fn check(spec: &Spec, life: Life) -> Result<(), Error> {
    if let Some(network) = &spec.network {
        if life == Life::OneRun || spec.profile != Profile::Default {
            return refused(Path::new("network"), "only a resident of the profile `default` has one");
        }
        if network.ports.len() > RELAY_PORTS_MAX {
            return refused(Path::new("network"), "more ports than a network may have");
        }
    }
    if spec.read_only.len() + spec.views.len() > BINDS_MAX {
        return refused(Path::new("read_only"), "more than 64 paths");
    }
    let whole = spec.read_only.iter().map(|bind| (&bind.host, &bind.jail));
    for (host, jail) in whole.chain(spec.views.iter().map(|view| (&view.host, &view.jail))) {
        placed(jail)?;
        if !host.is_absolute() {
            return refused(host, "not an absolute path of the host");
        }
    }
    for view in &spec.views {
        parts(&view.only)?;
    }
    for input in &spec.inputs {
        placed(&input.path)?;
    }
    for file in &spec.stage.initial {
        if !file.path.components().all(|part| matches!(part, Component::Normal(_))) || file.path.as_os_str().is_empty() {
            return refused(&file.path, "not a plain path relative to the stage");
        }
    }
    if let Some(start) = &spec.starts_in {
        placed(start)?;
        let mut shown = spec.read_only.iter().map(|bind| &bind.jail).chain(spec.views.iter().map(|view| &view.jail));
        if !shown.any(|shown| start.starts_with(shown)) {
            return refused(start, "it starts where nothing is shown");
        }
    }
    if let Some(folder) = &spec.folder {
        let own = Path::new(FOLDER);
        let shown = spec.read_only.iter().map(|bind| &bind.jail).chain(spec.views.iter().map(|view| &view.jail));
        let mut taken = shown.chain(spec.inputs.iter().map(|input| &input.path));
        if !folder.is_absolute() {
            return refused(folder, "not an absolute path of the host");
        }
        if taken.any(|taken| taken.starts_with(own)) {
            return refused(own, "the program has a folder of its own there");
        }
    }
    for (key, value) in &spec.env {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return refused(Path::new(key), "not a variable's name, or a value with a NUL");
        }
    }
    for arg in &spec.args {
        if arg.contains('\0') {
            return refused(Path::new("an argument"), "it has a NUL");
        }
    }
    let limits = &spec.limits;
    for (name, given) in [
        ("memory_bytes", limits.memory_bytes),
        ("cpu", limits.cpu.as_secs()),
        ("wall", u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX)),
        ("processes", limits.processes.into()),
        ("open_files", limits.open_files.into()),
        ("stage.bytes_max", spec.stage.bytes_max),
        ("stage.files_max", spec.stage.files_max),
    ] {
        // For the kernel, a file system with a size of 0 has no limit at all.
        if given == 0 {
            return refused(Path::new(name), "a bound of nothing");
        }
    }
    if limits.open_files > OPEN_FILES_MAX {
        return refused(Path::new("open_files"), "more than 65,536");
    }
    Ok(())
}

/// The entries of a view must be plain paths, and none may lie inside another: the inner one would be placed through the outer one.
fn parts(only: &[String]) -> Result<(), Error> {
    if only.len() > VIEW_PARTS_MAX {
        return refused(Path::new("only"), "more parts than a view may have");
    }
    let mut sorted: Vec<&Path> = only.iter().map(Path::new).collect();
    // Paths sort by component, so a path inside another comes right after it.
    sorted.sort_unstable();
    for (index, part) in sorted.iter().enumerate() {
        let plain = part.to_str().is_some_and(|text| text.split('/').all(|name| !matches!(name, "" | "." | "..") && !name.contains('\0')));
        if !plain {
            return refused(part, "not a plain path of what is shown");
        }
        if index > 0 && part.starts_with(sorted[index - 1]) {
            return refused(part, "it lies in another part");
        }
    }
    Ok(())
}

fn placed(path: &Path) -> Result<(), Error> {
    let mut parts = path.components();
    let plain = parts.next() == Some(Component::RootDir) && parts.all(|part| matches!(part, Component::Normal(_)));
    if !plain || path == Path::new("/") || path.to_str().is_none() {
        return refused(path, "not a plain absolute path of the jail");
    }
    if OWN.iter().any(|own| path.starts_with(own)) {
        return refused(path, "the jail has a place of its own there");
    }
    Ok(())
}

fn refused(what: &Path, why: &str) -> Result<(), Error> {
    Err(Error::Refused { what: what.display().to_string(), why: why.to_owned() })
}
