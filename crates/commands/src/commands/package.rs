//! `countersign package`: creates, checks and tests action packages on this machine, and installs them on the server.

mod example;
mod problems;
mod trial;

use super::action::review;
use crate::shared::*;
use api::package::{InstallPackageRequest, PackageActionView, PackageFileBody, PackageView};
use api::rules::ReviewView;
use api::source::AddedSourceView;
use api::{Page, Problem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use countersign_core::decision::Drift;
use homes::packages::Checked;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Package {
    /// Create a package from a working example, with tests
    #[command(
        before_help = "Examples:\n  countersign package new notes                  creates the folder notes/\n  countersign package new notes --lang python"
    )]
    New {
        /// Lower-case letters, digits, _ and -
        name: String,
        /// What its scripts are written in
        #[arg(long, value_enum, value_name = "LANGUAGE", default_value = "javascript")]
        lang: example::Language,
    },
    /// Check a package against the rules, without a server
    #[command(before_help = "Examples:\n  countersign package check notes/")]
    Check {
        /// Its folder
        dir: PathBuf,
        #[command(flatten)]
        named: Named,
    },
    /// Run a package's tests in the sandbox, on a throw-away server and workspace
    #[command(
        before_help = "Examples:\n  countersign package test notes/        every case of notes/tests/*.json\n  countersign package test notes/ --config /etc/countersign.toml"
    )]
    Test {
        /// Its folder
        dir: PathBuf,
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        allowed: Allowed,
    },
    /// Install a package on the server; its new actions count as reviewed by you
    #[command(before_help = "Examples:\n  countersign package install notes/\n  countersign package install . --name notes")]
    Install {
        /// Its folder
        dir: PathBuf,
        #[command(flatten)]
        named: Named,
        /// Confirm that you have read the findings in its descriptions
        #[arg(long)]
        accept_findings: bool,
    },
    /// List packages
    #[command(before_help = "Examples:\n  countersign package list")]
    List,
    /// Show one package: its actions with their manifests, its files, who installed it
    #[command(before_help = "Examples:\n  countersign package show notes")]
    Show {
        /// Its name
        package: String,
    },
    /// Remove a package: its actions are gone; their receipts stay, and their effects can be reverted
    #[command(before_help = "Examples:\n  countersign package remove notes")]
    Remove {
        /// Its name
        package: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// What it is called; else the folder's name
    #[arg(long)]
    name: Option<String>,
}

/// Where the settings are that say which commands and hosts the server allows.
#[derive(Debug, clap::Args)]
pub(crate) struct Allowed {
    /// The settings of the server it is for; else COUNTERSIGN_CONFIG, else countersign.toml in its data folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder of the server it is for; else COUNTERSIGN_DATA
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Named {
    fn of(self, dir: &Path) -> Result<String, Failure> {
        if !dir.is_dir() {
            return Err(Failure::usage(format!("`{}` is not a folder", dir.display())).hint("name the folder that holds `actions/`"));
        }
        let own = || dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.to_str()?.to_owned()));
        self.name.or_else(own).ok_or_else(|| Failure::usage("the folder has no name a package could have").hint("give it one with --name"))
    }
}

/// What an operator has to do so that packages may run.
const ALLOW_CODE: &str = "set `allow_plugin_code_execution = true` in its countersign.toml and start it again";

const COLUMNS: &[Column] =
    &[Column::Whole("PACKAGE"), Column::Whole("ACTION"), Column::Whole("TIER"), Column::Whole("PROFILE"), Column::Cut("TITLE")];

impl Resource for PackageView {
    const NOUN: &'static str = "package";
    const LIST: &'static str = "package list";
    const PATH: &'static [&'static str] = &["packages"];
    const EMPTY: &'static str = "no packages: countersign package new NAME";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &[]);
    const FIELDS: &'static [Field<Self>] = &[];

    fn id(&self) -> &str {
        &self.name
    }
}

impl Package {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        match self {
            Self::New { name, lang } => {
                setting.no_dry_run("package new")?;
                example::write(&name, lang, setting.terminal)
            }
            Self::Check { dir, named } => check(&dir, named, setting.terminal).await,
            Self::Test { dir, named, allowed } => trial::run(&dir, &named.of(&dir)?, allowed, setting).await,
            Self::Install { dir, named, accept_findings } => {
                install(&dir, named, accept_findings, &setting.client()?, setting.terminal).await
            }
            Self::List => list(&setting.client()?, setting.terminal).await,
            Self::Show { package } => show(&package, &setting.client()?, setting.terminal).await,
            Self::Remove { package, agreed } => remove(&package, &agreed, &setting.client()?, setting.terminal).await,
        }
    }
}

async fn check(dir: &Path, named: Named, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let name = named.of(dir)?;
    let checked = checked(&name, dir, terminal).await?;
    let record = Record::new(&name)
        .with("package", Cell::text(&name).toned(Tone::Strong))
        .with("actions", Cell::text(checked.actions.join(", ")))
        .with_some("MCP server", checked.mcp_server.as_ref().map(|words| Cell::text(words.join(" "))))
        .with("tests", Cell::text(checked.cases.len().to_string()));
    let document = json!({
        "package": name, "actions": checked.actions, "mcp_server": checked.mcp_server, "tests": checked.cases.len(),
        "findings": checked.findings,
    });
    terminal.record(&document, &record)?;
    problems::tell_findings(&checked.findings, terminal);
    // An MCP server has no tests of its own.
    let next = if checked.actions.is_empty() { "install" } else { "test" };
    terminal.next(format!("countersign package {next} {}", dir.display()));
    Ok(Exit::Ok)
}

/// Checks a folder. If something is wrong with it, every problem is shown and the command fails.
async fn checked(name: &str, dir: &Path, terminal: &mut Terminal) -> Result<Checked, Failure> {
    let checked = homes::packages::check(name, dir).await.map_err(|problem| problems::tell(broken(&problem), terminal))?;
    for remark in &checked.remarks {
        terminal.remark(Tone::Muted.paint(clean::line(remark)));
    }
    Ok(checked)
}

/// The failure for a folder with problems. No request was sent, so the exit code is that of a failed check.
fn broken(problem: &Problem) -> Failure {
    let raw = serde_json::to_value(problem).unwrap_or_default();
    let mut failure = Failure::of_problem(problem, raw);
    failure.exit = Exit::Failed;
    failure
}

/// The request that installs a folder.
fn request(dir: &Path, accept_findings: bool) -> Result<InstallPackageRequest, Failure> {
    let files = homes::packages::read(dir).map_err(|problem| broken(&problem))?;
    let body = |file: homes::packages::File| PackageFileBody { base64: STANDARD.encode(&file.bytes), executable: file.executable };
    Ok(InstallPackageRequest { files: files.into_iter().map(|(path, file)| (path, body(file))).collect(), accept_findings })
}

async fn install(dir: &Path, named: Named, accept_findings: bool, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let name = named.of(dir)?;
    let sent = match request(dir, accept_findings) {
        Ok(body) => client.put::<PackageView>(&["packages", &name], &body).await,
        Err(failure) => Err(failure),
    };
    let answer = sent.map_err(|failure| problems::tell(failure, terminal))?;
    let actions: Vec<_> = answer.read.actions.iter().map(|action| format!("{} ({})", action.id, action.tier)).collect();
    let record = Record::new(&name)
        .with("package", Cell::text(&answer.read.name).toned(Tone::Strong))
        .with("actions", Cell::text(actions.join(", ")))
        .with_some("MCP server", mcp_server(&answer.read))
        .with("code runs", Cell::text(if answer.read.code_allowed { "yes".to_owned() } else { format!("no: {ALLOW_CODE}") }));
    terminal.record(&answer.raw, &record)?;
    problems::tell_findings(&answer.read.findings, terminal);
    let changed: Vec<_> = answer.read.actions.iter().filter(|action| needs_review(action)).collect();
    for action in &changed {
        tell_changed(&action.id, client, terminal).await?;
    }
    let reviewed = if answer.read.mcp_server.is_some() { tell_changed_source(&name, client, terminal).await? } else { None };
    if let Some(action) = changed.first() {
        terminal.next(format!("countersign action review {}", action.id));
    } else if let Some(source) = reviewed {
        terminal.next(format!("countersign source review {source}"));
    } else if let Some(action) = answer.read.actions.first() {
        terminal.next(format!("countersign action show {}", action.id));
    } else if answer.read.mcp_server.is_some() {
        terminal.next(format!("countersign source add NAME --mcp-stdio --package {}", answer.read.name));
    }
    Ok(Exit::Ok)
}

/// The words of the package's MCP server.
fn mcp_server(package: &PackageView) -> Option<Cell> {
    package.mcp_server.as_ref().map(|server| Cell::text(server.command.join(" ")))
}

fn needs_review(action: &PackageActionView) -> bool {
    action.drift.is_some_and(|drift| drift != Drift::None)
}

/// Shows what changed in the code of an action that was installed again.
async fn tell_changed(action: &str, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    if terminal.is_document() {
        return Ok(());
    }
    terminal.remark(Tone::Warn.paint(format!("! `{}` changed: its calls need approval until it is reviewed", clean::line(action))));
    let review = client.get::<ReviewView>(&["reviews", action], &[]).await?.read;
    review::code(&review).into_iter().for_each(|line| terminal.remark(line));
    Ok(())
}

/// Shows what changed in the code of an MCP server that was installed again, once, and returns the name of a source that runs it and needs a
/// review for that.
async fn tell_changed_source(package: &str, client: &Client, terminal: &mut Terminal) -> Result<Option<String>, Failure> {
    // Who may install packages need not be allowed to see sources.
    let Ok(answer) = client.get::<Page<AddedSourceView>>(&["sources"], &[]).await else { return Ok(None) };
    let mut sources = answer.read.items.into_iter().filter(|source| source.package.as_deref() == Some(package));
    let drifted = |source: AddedSourceView| {
        let action = source.harvest.actions.into_iter().find(|action| action.drift != Drift::None)?;
        Some((source.id, action.id))
    };
    let Some((source, action)) = sources.find_map(drifted) else { return Ok(None) };
    tell_changed(&action, client, terminal).await?;
    Ok(Some(clean::line(&source)))
}

async fn show(name: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<PackageView>(&["packages", name], &[]).await?;
    let (package, names) = (&answer.read, Names::load(client, terminal).await);
    let server = package.mcp_server.as_ref();
    let cannot_run = package.actions.iter().find_map(|action| action.cannot_run.as_ref());
    let state = match (&package.error, cannot_run.or_else(|| server?.cannot_run.as_ref())) {
        (Some(error), _) => Cell::text(format!("✗ cannot be used: {error}")).toned(Tone::Danger),
        (None, Some(why)) => Cell::text(format!("✗ cannot run: {why}")).toned(Tone::Danger),
        (None, None) => Cell::text("✓ can run").toned(Tone::Ok),
    };
    let by = package.installed_by.as_ref().map(|by| names.whole(by));
    let edited = package.edited.then(|| Cell::text("its files changed on the server since it was installed").toned(Tone::Warn));
    let mut record = Record::new(&package.name)
        .with("package", Cell::text(&package.name).toned(Tone::Strong))
        .with("state", state)
        .with("installed by", by.unwrap_or_else(|| Cell::shown("nobody: its folder was put on the server", "")))
        .with_some("installed", package.installed_at.map(|at| terminal.past(at)))
        .with_some("edited", edited)
        .with_some("folder", package.folder.as_ref().map(Cell::text))
        .with_some("digest", package.sha256.as_ref().map(Cell::text));
    if let Some(server) = server {
        let workspace = if server.sees_workspace { "the workspace, read-only" } else { "no files of the workspace" };
        let hosts = if server.hosts.is_empty() { "no network".to_owned() } else { server.hosts.join(" ") };
        record = record
            .with_some("MCP server", mcp_server(package))
            .with("", Cell::text(format!("{} MB, {workspace}, {hosts}", server.memory_mb)))
            .with_some("variables", (!server.env.is_empty()).then(|| Cell::text(server.env.join(" "))));
    }
    for (at, action) in package.actions.iter().enumerate() {
        let review = match action.drift {
            None => ", nobody reviewed it",
            Some(Drift::None) => ", reviewed",
            Some(Drift::Textual | Drift::Structural) => ", changed since it was reviewed",
            Some(Drift::Appeared) => ", not reviewed",
        };
        record = record.with(if at == 0 { "actions" } else { "" }, Cell::text(format!("{} ({}{review})", action.id, action.tier)));
    }
    for (at, file) in package.files.iter().enumerate() {
        let program = if file.executable { ", executable" } else { "" };
        let short: String = file.sha256.chars().take(12).collect();
        let line = |digest: &str| format!("{digest}  {}  {} bytes{program}", file.path, file.bytes);
        record = record.with(if at == 0 { "files" } else { "" }, Cell::shown(line(&format!("{short}…")), line(&file.sha256)));
    }
    terminal.record(&answer.raw, &record)?;
    if terminal.is_for_words() {
        for action in &package.actions {
            let Some(manifest) = &action.manifest else { continue };
            terminal.line("")?;
            terminal.line(Tone::Muted.paint(format!("Manifest of {}", clean::line(&action.id))))?;
            terminal.line(clean::json(&serde_json::to_string_pretty(manifest).unwrap_or_default()))?;
        }
    }
    problems::tell_findings(&package.findings, terminal);
    if let Some(action) = package.actions.iter().find(|action| needs_review(action)) {
        terminal.next(format!("countersign action review {}", action.id));
    }
    Ok(Exit::Ok)
}

async fn list(client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<Page<PackageView>>(PackageView::PATH, &[]).await?;
    let mut table = Table::new(COLUMNS, PackageView::EMPTY);
    for package in &answer.read.items {
        if let Some(error) = &package.error {
            table.row([
                Cell::text(&package.name),
                Cell::text("–"),
                Cell::text("–"),
                Cell::text("–"),
                Cell::text(error).toned(Tone::Danger),
            ]);
        }
        if let Some(server) = &package.mcp_server {
            let title = format!("MCP server: {}", server.command.join(" "));
            table.row([package.name.as_str(), "–", "–", "resident", title.as_str()].map(Cell::text));
        }
        for action in &package.actions {
            let texts = [&package.name, &action.id, action.tier.as_str(), action.profile.as_str(), &action.title];
            table.row(texts.map(Cell::text));
        }
    }
    terminal.list(&answer.raw, &table)?;
    if let Some(package) = answer.read.items.first() {
        let at_once = package.runs_at_once;
        terminal.remark(if package.code_allowed {
            Tone::Muted.paint(format!("{} of one package run at the same time; the next ones wait", counted(at_once, "call", "calls")))
        } else {
            Tone::Warn.paint(format!("! none of them can run: this server runs no package code; {ALLOW_CODE}"))
        });
    }
    Ok(Exit::Ok)
}

async fn remove(name: &str, agreed: &Agreed, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    terminal.consent(&format!("Remove package `{}`?", clean::line(name)), agreed.consent(client)).await?;
    client.delete::<Value>(&["packages", name]).await?;
    // The server's answer has no body.
    terminal.done("removed", name, &json!({ "name": name, "removed": true }))?;
    Ok(Exit::Ok)
}
