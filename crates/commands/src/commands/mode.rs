//! `countersign mode`: whether an action runs, needs approval or is denied. A mode that is not set is inferred from the action's tier.

use super::automation_name::automation_named;
use super::part::Part;
use super::pattern;
use crate::shared::*;
use api::action::ActionView;
use api::rules::{ModeChangeResponse, ModeLine, ModeVersionView, ModeView, ModesFile, ModesReplacedResponse, ReviewView, SetModeRequest};
use clap::Subcommand;
use countersign_core::action::{Class, SafetyClass};
use countersign_core::decision::{Drift, Reason};
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// List modes that were set; all others are inferred
    #[command(before_help = "Examples:\n  countersign mode list")]
    List {
        /// Only what was set for this automation, by its name or id
        #[arg(long)]
        automation: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Set the mode of an action
    #[command(before_help = "Examples:
  countersign mode set files.write_text allow               run without approval
  countersign mode set http.request deny                    deny, with a receipt
  countersign mode set 'playwright.*' require_approval      every action that the source has now
  countersign mode set files.write_text allow --automation 'Daily digest'")]
    Set {
        /// Such as files.write_text; * stands for any text, for the actions that there are now
        action: String,
        /// What happens to its calls
        #[arg(value_parser = one_of(countersign_core::Mode::ALL, countersign_core::Mode::as_str))]
        mode: countersign_core::Mode,
        /// Automations can only tighten it
        #[arg(long, conflicts_with = "automation")]
        locked: bool,
        /// For this automation alone, by its name or id: it comes before the org's, unless that is locked
        #[arg(long)]
        automation: Option<String>,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// List every change of a mode, newest first, as it is in the audit log
    #[command(before_help = "Examples:\n  countersign mode versions\n  countersign mode versions files.write_text")]
    Versions {
        /// Only of this action, such as files.write_text
        action: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Write the modes that were set, those of automations too, to a file or to stdout
    #[command(before_help = "Examples:\n  countersign mode export modes.json\n  countersign mode export - | diff modes.json -")]
    Export {
        /// The file to write; - is stdout
        file: PathBuf,
    },
    /// Make the modes those of a file, all of them and no others, for the org and for automations
    #[command(before_help = "Examples:\n  countersign mode import modes.json\n  countersign mode import modes.json --dry-run")]
    Import {
        /// The file to read; - is stdin
        file: PathBuf,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Remove the mode of an action: the inferred one holds again, or for an automation the org's
    #[command(before_help = "Examples:\n  countersign mode unset files.write_text")]
    Unset {
        /// Such as files.write_text; * stands for any text, for the actions that there are now
        action: String,
        /// Of this automation alone, by its name or id
        #[arg(long)]
        automation: Option<String>,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Resource for ModeView {
    const NOUN: &'static str = "mode";
    const LIST: &'static str = "mode list";
    const PATH: &'static [&'static str] = &["modes"];
    const EMPTY: &'static str = "no modes are set: each is inferred from its action's tier";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("action", Column::Whole, |one, _| text(&one.action)),
        Field::both("mode", Column::Whole, |one, _| Some(Cell::mode(one.mode))),
        Field::both("lock", Column::Whole, |one, _| text(lock(one.locked))),
        Field::both("scope", Column::Below, |one, _| text(&one.scope)),
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::both("set by", Column::Extra, |one, view| view.who(&one.set_by)),
        Field::both("set", Column::Whole, |one, view| view.past(one.set_at)),
    ];

    fn id(&self) -> &str {
        &self.action
    }
}

impl Resource for ModeVersionView {
    const NOUN: &'static str = "change of a mode";
    const LIST: &'static str = "mode versions";
    const PATH: &'static [&'static str] = &["modes", "versions"];
    const EMPTY: &'static str = "no mode was ever set";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::both("action", Column::Whole, |one, _| text(&one.action)),
        Field::both("mode", Column::Whole, |one, _| Some(one.mode.map_or_else(|| Cell::text("unset").toned(Tone::Muted), Cell::mode))),
        Field::both("lock", Column::Whole, |one, _| text(lock(one.locked))),
        Field::both("scope", Column::Below, |one, _| text(&one.scope)),
        Field::both("changed by", Column::Extra, |one, view| view.who(&one.changed_by)),
        Field::both("changed", Column::Whole, |one, view| view.past(one.changed_at)),
    ];

    fn id(&self) -> &str {
        &self.action
    }
}

const fn lock(is_locked: bool) -> &'static str {
    if is_locked { "locked" } else { "open" }
}

impl Mode {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        if let Self::Export { file } = &self {
            setting.no_dry_run("mode export")?;
            export(file, &setting.client()?, setting.terminal).await?;
            return Ok(Exit::Ok);
        }
        let (client, terminal) = (&setting.client()?, setting.terminal);
        match self {
            Self::List { automation, paging } => {
                let automation = automation_of(automation, client).await?;
                resource::list::<ModeView>(Asked::of(&paging).only("automation", automation), client, terminal).await?;
            }
            Self::Set { action, mode, locked, automation, agreed } => {
                if pattern::is_one(&action) {
                    let automation = automation_of(automation, client).await?;
                    let request = SetModeRequest { mode, locked };
                    return several(&action, automation.as_deref(), Some(&request), agreed, client, terminal).await;
                }
                let is_first = mode == countersign_core::Mode::Allow && terminal.is_for_words() && is_unreviewed(&action, client).await;
                let automation = automation_of(automation, client).await?;
                let request = SetModeRequest { mode, locked };
                let answer = client.put::<ModeChangeResponse>(&path(automation.as_deref(), &action), &request).await?;
                changed(&answer.read, automation.as_deref(), &answer.raw, terminal)?;
                if mode == countersign_core::Mode::Allow {
                    if is_first {
                        terminal.remark(
                            Tone::Muted.paint(
                                "this covers the action as it is defined now: when its definition changes, calls need approval again",
                            ),
                        );
                    }
                    still_asks(&action, client, terminal).await;
                }
            }
            Self::Versions { action, paging } => {
                resource::list::<ModeVersionView>(Asked::of(&paging).word("action", action), client, terminal).await?;
            }
            Self::Export { .. } => {}
            Self::Import { file, agreed } => import(&file, agreed, client, terminal).await?,
            Self::Unset { action, automation, agreed } => {
                let automation = automation_of(automation, client).await?;
                if pattern::is_one(&action) {
                    return several(&action, automation.as_deref(), None, agreed, client, terminal).await;
                }
                let answer = client.delete::<ModeChangeResponse>(&path(automation.as_deref(), &action)).await?;
                changed(&answer.read, automation.as_deref(), &answer.raw, terminal)?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// Sets or unsets the mode of every action that a pattern stands for, after one question. If one fails, those before it are changed.
async fn several(
    pattern: &str,
    automation: Option<&str>,
    request: Option<&SetModeRequest>,
    agreed: Agreed,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Exit, Failure> {
    let actions = pattern::actions(pattern, client).await?;
    let count = counted(actions.len() as u64, "action", "actions");
    let what = request.map_or_else(|| "unset".to_owned(), |request| format!("set to {}", request.mode.as_str()));
    if terminal.is_for_words() {
        terminal.note(actions.iter().map(|action| clean::line(action)).collect::<Vec<_>>().join("\n"));
    }
    terminal.consent(&format!("Shall the mode of {count} be {what}?"), agreed.consent(client)).await?;
    let (mut raw, mut table) = (Vec::new(), Table::new(MODES, "nothing was changed"));
    for (at, action) in actions.iter().enumerate() {
        let path = path(automation, action);
        let answer = match request {
            Some(request) => client.put::<ModeChangeResponse>(&path, request).await,
            None => client.delete::<ModeChangeResponse>(&path).await,
        };
        let answer = answer.map_err(|mut failure| {
            if at > 0 {
                let done = counted(at as u64, "action", "actions");
                failure.message = format!("{done} of {count} changed, then `{}` failed: {}", clean::line(action), failure.message);
            }
            failure
        })?;
        let unset = || Cell::shown(if automation.is_some() { "the org's again" } else { "inferred again" }, "unset");
        table.row([Cell::text(action), answer.read.mode.map_or_else(unset, Cell::mode), Cell::text(answer.read.version.to_string())]);
        raw.push(answer.raw);
    }
    terminal.list(&json!({ "items": raw, "next": null }), &table)?;
    Ok(Exit::Ok)
}

const MODES: &[Column] = &[Column::Whole("ACTION"), Column::Whole("MODE"), Column::Number("VERSION")];

/// Whether nobody has reviewed the action yet. Setting its mode to `allow` is then also its first review.
async fn is_unreviewed(action: &str, client: &Client) -> bool {
    let review = client.get::<ReviewView>(&["reviews", action], &[]).await;
    review.is_ok_and(|answer| answer.read.reviewed_by.is_none())
}

/// Warns about rules that require approval although the mode is `allow`. If the caller may not read the action, it says nothing.
async fn still_asks(action: &str, client: &Client, terminal: &mut Terminal) {
    let Ok(answer) = client.get::<ActionView>(&["actions", action], &[]).await else { return };
    if answer.read.safety_class == SafetyClass::High && answer.read.class != Class::Read {
        let asks = "! in spaces that ask for a consent to class HIGH, calls need approval until the person behind them has given it";
        terminal.remark(Tone::Warn.paint(asks));
        terminal.next(format!("countersign consent give {}", clean::line(action)));
    }
    let never = Reason::never_unattended(answer.read.tier, answer.read.profile).map(|reason| reason.to_string());
    let others = answer.read.tightened.iter().filter(|why| never.as_ref() != Some(*why));
    for why in never.iter().chain(others) {
        terminal.remark(format!("{} {}", Tone::Warn.paint("! still needs approval:"), clean::line(why)));
    }
    // A mode is not a review: whoever sets one has not looked at what changed.
    let unreviewed = match answer.read.drift {
        Drift::None => return,
        Drift::Textual | Drift::Structural => "its definition changed since it was reviewed",
        Drift::Appeared => "nobody has reviewed it since it appeared",
    };
    terminal.remark(Tone::Warn.paint(format!("! {unreviewed}, and setting a mode is not a review")));
    terminal.next(format!("countersign action review {}", clean::line(action)));
}

async fn automation_of(named: Option<String>, client: &Client) -> Result<Option<String>, Failure> {
    match named {
        Some(named) => automation_named(&named, client).await.map(Some),
        None => Ok(None),
    }
}

/// The path of an action's mode: the org's, or an automation's.
fn path<'a>(automation: Option<&'a str>, action: &'a str) -> Vec<&'a str> {
    automation.map_or_else(|| vec!["modes", action], |automation| vec!["automations", automation, "modes", action])
}

/// A file of modes is small; a larger file is a mistake.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Writes the modes sorted by action, so that two exports can be compared line by line.
async fn export(file: &Path, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let all = client.pages::<ModeView>(&["modes"], &[]).all().await?;
    let line = |mode: ModeView| {
        let automation = mode.scope.strip_prefix("automation:").map(str::to_owned);
        ModeLine { action: mode.action, automation, mode: mode.mode, locked: mode.locked }
    };
    let modes: Vec<_> = all.into_iter().map(|(mode, _)| line(mode)).collect();
    let count = modes.len();
    let text = serde_json::to_string_pretty(&ModesFile { modes }).map_err(|error| Failure::failed(error.to_string()))?;
    if file == Path::new("-") {
        return terminal.line(text);
    }
    let part = Part::create(file)?;
    writeln!(part.file(), "{text}").map_err(|error| Failure::file(file, &error))?;
    part.keep()?;
    terminal.note(format!("{} {} to {}", Tone::Ok.paint("✓ wrote"), counted(count as u64, "mode", "modes"), file.display()));
    Ok(())
}

async fn import(file: &Path, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let text = if file == Path::new("-") {
        terminal.read_stdin(FILE_BYTES_MAX).await?
    } else {
        std::fs::read_to_string(file).map_err(|error| Failure::file(file, &error))?
    };
    let modes: ModesFile = serde_json::from_str(&text)
        .map_err(|error| Failure::new(Exit::Invalid, format!("`{}` is not a file of modes: {error}", file.display())))?;
    let question = format!("Replace every mode, also those of automations, with the {} in `{}`?", modes.modes.len(), file.display());
    terminal.consent(&question, agreed.consent(client)).await?;
    let answer = client.put::<ModesReplacedResponse>(&["modes"], &modes).await?;
    let changed = answer.read.changed.to_string();
    let record = Record::new(&changed).with("changed", Cell::text(changed.clone()));
    terminal.record(&answer.raw, &record.with_some("ended", super::policy::ended(answer.read.voided)))
}

fn changed(change: &ModeChangeResponse, automation: Option<&str>, raw: &serde_json::Value, terminal: &mut Terminal) -> Result<(), Failure> {
    let unset = match automation {
        Some(_) => Cell::shown("the org's again", "unset"),
        None => Cell::shown("inferred again", "inferred"),
    };
    let record = Record::new(&change.action)
        .with("action", Cell::text(&change.action))
        .with_some("automation", automation.map(Cell::text))
        .with("mode", change.mode.map_or(unset, Cell::mode))
        .with("version", Cell::text(change.version.to_string()))
        .with_some("ended", super::policy::ended(change.voided));
    terminal.record(raw, &record)
}
