//! Runs one script of a package in the jail: JSON in on stdin, JSON out on stdout, and the files it wrote to its stage.

use super::folder::PackageFiles;
use super::language::Language;
use super::loaded::LoadedAction;
use super::manifest::Filesystem;
use super::script::{Script, UNCHANGED};
use crate::egress::WayOut;
use crate::limits::{PACKAGE_LOG_CHARS_MAX, PACKAGE_STAGE_BYTES_MAX};
use crate::program::{Program, Programs, SCRATCH, libraries, system_libraries};
use crate::words::{failed, last_line, refused, said};
use crate::workspace::{Places, view};
use countersign_core::action::Profile;
use countersign_core::egress::Egress;
use countersign_core::jail::{self, Confined, Confinement, Ended, Input, Jail, StagedFile, Turn};
use countersign_core::json::parse_strict;
use countersign_core::source::{CallContext, Error};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// How many files and folders the stage may hold.
const STAGE_FILES_MAX: u64 = 1_024;
/// Where the jail shows the action's own files and the workspace.
pub(super) const CODE: &str = "/package";
pub(super) const WORKSPACE: &str = "/workspace";

/// Everything needed to run scripts.
#[derive(Clone)]
pub(super) struct Runner {
    pub(super) jail: Arc<dyn Jail>,
    pub(super) programs: Programs,
    pub(super) places: Arc<Places>,
}

/// The result of a script that ended well.
pub(super) struct Ran {
    pub(super) result: Value,
    pub(super) staged: Vec<StagedFile>,
}

impl Runner {
    pub(super) async fn run(
        &self,
        context: &CallContext,
        action: &LoadedAction,
        script: Script,
        input: &Value,
        way_out: Option<&Arc<WayOut>>,
    ) -> Result<Ran, Error> {
        let asked = Instant::now();
        let mut confinement = self.confinement(context, action, script, input).await?;
        // The caller's timeout started before this point. The jail must time out first, because only the jail's error can say that nothing
        // was changed.
        confinement.wall_ms = confinement.wall_ms.saturating_sub(asked.elapsed().as_millis() as u64).max(1);
        confinement.egress = way_out.map(|way_out| Arc::clone(way_out) as Arc<dyn Egress>);
        let confined = self.confine(context, action, script, confinement).await?;
        if confined.is_cut {
            return Err(bad_output(action, script, "its result is too long"));
        }
        let result = parse_strict(&confined.stdout)
            .map_err(|error| bad_output(action, script, &format!("its result is not JSON we take, {error}")))?;
        let staged = confined.staged.map_err(|why| refused("package_stage_refused", why))?;
        Ok(Ran { result, staged })
    }

    /// Checks that the interpreter of the script is installed.
    pub(super) async fn check(&self, action: &LoadedAction, script: Script) -> Result<(), Error> {
        match action.script(script).and_then(|(file, _)| Language::of(file)) {
            Some(language) if self.programs.find(language.command()).await.is_none() => Err(language.missing()),
            Some(_) | None => Ok(()),
        }
    }

    async fn confinement(&self, context: &CallContext, action: &LoadedAction, script: Script, input: &Value) -> Result<Confinement, Error> {
        let (file, found) = action
            .script(script)
            .ok_or_else(|| refused("package_invalid", format!("`{}` has no `{}`", action.action.id, script.name())))?;
        let memory_bytes = action.manifest.memory_bytes();
        let (program, args) = match Language::of(file) {
            Some(language) => {
                let program = self.programs.find(language.command()).await.ok_or_else(|| language.missing())?;
                let mut args = language.args(memory_bytes);
                args.push(format!("{CODE}/{file}"));
                (program, args)
            }
            None => {
                let digest = blake3::hash(&found.bytes).into();
                (Program { path: action.folder.join(file), digest }, Vec::new())
            }
        };
        let turn = Turn::ToMake { whose: action.action.id.source().to_owned() };
        let mut confinement = bare(turn, action.manifest.profile(), program, args, memory_bytes, wall_ms(context));
        if Language::of(file).is_none() {
            confinement.read_only = system_libraries();
        }
        if action.manifest.permissions.filesystem == Filesystem::Workspace {
            view::show(self.places.of(context)?.folder(), WORKSPACE, &context.scope, &mut confinement).await?;
        }
        confinement.inputs = inputs_of(&action.files);
        confinement.stdin = input.to_string().into_bytes();
        confinement.progress = context.progress.clone();
        if script != Script::Execute {
            confinement.turn = Turn::Afterwards { whose: action.action.id.source().to_owned() };
        }
        Ok(confinement)
    }

    /// Runs the script; any end but exit code 0 is an error. Either way the script has changed nothing, since it can write only to its
    /// stage. The error says so only for `execute`: for `verify` and `rollback` it would read as if the call had no effect.
    async fn confine(
        &self,
        context: &CallContext,
        action: &LoadedAction,
        script: Script,
        confinement: Confinement,
    ) -> Result<Confined, Error> {
        let name = name_of(action, script);
        let unchanged = match confinement.turn {
            Turn::ToMake { .. } => UNCHANGED,
            Turn::Afterwards { .. } => "",
        };
        let confined = self.jail.confine(confinement).await.map_err(|error| match error {
            jail::Error::Unavailable { message } => refused("sandbox_unavailable", message),
            jail::Error::Refused { message } => refused("package_refused", message),
            jail::Error::Busy { message } => Error::NoTurn { source_id: action.action.id.source().to_owned(), message },
            // The stage is gone, so the script changed no files. Whether it sent requests is known to the caller, who holds its `WayOut`.
            jail::Error::Lost { message } => {
                failed("package_lost", format!("{name} may have run, and how it went was lost: {message}{unchanged}"))
            }
        })?;
        context.meter.add(&confined);
        let (code, why) = match confined.ended {
            Ended::Exited(0) => return Ok(confined),
            Ended::Exited(code) => ("package_failed", format!("ended with code {code}")),
            Ended::Signalled(signal) => ("package_killed", format!("was ended by signal {signal}")),
            Ended::TimedOut => ("package_timed_out", late(context, action)),
            Ended::OutOfMemory => ("package_out_of_memory", "took more memory than it may, and was ended".to_owned()),
            Ended::Flooded => ("package_flooded", "printed far more than is kept, and was ended".to_owned()),
            Ended::Cancelled => ("package_killed", "was called off".to_owned()),
        };
        Err(failed(code, format!("{name} {why}{}{unchanged}", last_words(&confined.log))))
    }
}

/// Files as the jail gets them, from memory.
pub(super) fn inputs_of(files: &PackageFiles) -> Vec<Input> {
    files.iter().map(|(path, file)| Input { path: Path::new(CODE).join(path), bytes: Arc::clone(&file.bytes) }).collect()
}

/// A confinement with the program, the system's libraries and an empty stage.
pub(super) fn bare(turn: Turn, profile: Profile, program: Program, args: Vec<String>, memory_bytes: u64, wall_ms: u64) -> Confinement {
    Confinement {
        turn,
        profile,
        read_only: libraries(&program.path),
        views: Vec::new(),
        program: program.path,
        program_digest: program.digest,
        args,
        env: [("LANG", "C.UTF-8"), ("TZ", "UTC"), SCRATCH].map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
        starts_in: None,
        inputs: Vec::new(),
        stdin: Vec::new(),
        wall_ms,
        memory_bytes,
        stage_bytes_max: PACKAGE_STAGE_BYTES_MAX,
        stage_files_max: STAGE_FILES_MAX,
        progress: None,
        egress: None,
    }
}

/// A little less than the caller's timeout, because the steps after the script need time too.
pub(super) fn wall_ms(context: &CallContext) -> u64 {
    context.timeout_ms.saturating_sub((context.timeout_ms / 5).min(1_000)).max(1)
}

/// Says how long the script had, and why not longer.
fn late(context: &CallContext, action: &LoadedAction) -> String {
    let (all_ms, own_ms) = (context.timeout_ms, wall_ms(context));
    let all = if all_ms == action.action.timeout_ms { "of its `timeoutMs`" } else { "this call has" };
    format!("did not end within {own_ms} ms: of the {all_ms} ms {all}, {} ms are for what comes after it", all_ms.saturating_sub(own_ms))
}

/// Such as `` `verify.js` of `kit.act` ``.
fn name_of(action: &LoadedAction, script: Script) -> String {
    format!("`{}` of `{}`", action.file_of(script), action.action.id)
}

fn bad_output(action: &LoadedAction, script: Script, why: &str) -> Error {
    let unchanged = if script == Script::Execute { UNCHANGED } else { "" };
    failed("package_bad_output", format!("{}: {why}{unchanged}", name_of(action, script)))
}

/// The last line of the script's log, as part of a sentence.
fn last_words(log: &str) -> String {
    match last_line(log) {
        Some(line) => format!(", saying `{}`", said(&line.chars().take(PACKAGE_LOG_CHARS_MAX).collect::<String>())),
        None => String::new(),
    }
}
