//! Shows what would happen to a call now: the outcome in the first line, then everything that decides it. The call is not made.

use super::cascade;
use super::gates;
use crate::commands::action::{example, params};
use crate::shared::*;
use api::Code;
use api::action::ActionView;
use api::gates::{ExplainRequest, ExplainResponse, WouldName};
use api::identity::{SessionView, WhoamiResponse};
use countersign_core::decision::Drift;
use std::collections::BTreeMap;

/// The call that the user asks about.
pub(super) struct Asked {
    pub(super) action: String,
    pub(super) session: Option<String>,
    pub(super) params: Option<String>,
    pub(super) words: Vec<String>,
}

pub(super) async fn run(asked: Asked, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    // This is checked first: if the action does not exist, no other mistake matters.
    let view = match client.get::<ActionView>(&["actions", &asked.action], &[]).await {
        Ok(answer) => Some(answer.read),
        Err(failure) if failure.is(Code::UnknownAction) => return Err(failure),
        // Whoever may not look at actions may still ask about one.
        Err(_) => None,
    };
    let params = match (&asked.params, asked.words.is_empty()) {
        (None, true) => None,
        (given, _) => Some(params::read(given.as_deref(), &asked.words, terminal).await?),
    };
    let session_id = match maybe_id_of::<SessionView>(asked.session.as_deref(), client).await? {
        Some(session) => session,
        None => own_session(&asked.action, client).await?,
    };
    let request = ExplainRequest { action: asked.action, session_id, params, context: None, provenance: BTreeMap::new() };
    let answer = client.question::<ExplainResponse>(&["explain"], &request).await?;
    let told = &answer.read;
    if terminal.is_for_words() {
        let (would, tone) = would(told.would, told.approvals_needed);
        terminal.line(tone.paint(format!("{would}: {}", clean::line(&told.because))))?;
    }
    let names = Names::default().and_spaces(client, terminal).await.and_grant(told.grant_id.as_deref(), client, terminal).await;
    let title = title(&told.session_id, client, terminal).await;
    terminal.record(&answer.raw, &record(told, title.as_deref(), &names))?;
    gates::tell(&told.gates, terminal)?;
    if request.params.is_none() {
        let params = view.map(|view| example(&view.params_schema)).filter(|params| !params.is_empty());
        let (action, session) = (clean::line(&told.action), clean::line(&told.session_id));
        terminal.next(format!("countersign explain {action} --as {session}{}", params.as_deref().unwrap_or(" --params JSON")));
    }
    Ok(Exit::Ok)
}

/// The session of an agent. Any other caller has to name one.
async fn own_session(action: &str, client: &Client) -> Result<String, Failure> {
    let whoami = client.get::<WhoamiResponse>(&["whoami"], &[]).await?.read;
    whoami.session_id.ok_or_else(|| {
        Failure::usage(format!("as whom would `{}` be called?", clean::line(action)))
            .cause("what happens to a call depends on the session it is made in")
            .hint("name a session with --as; countersign session list shows them")
    })
}

/// What would become of a call, in the words of its first line.
pub(in crate::commands) fn would(would: WouldName, approvals_needed: Option<u32>) -> (String, Tone) {
    match would {
        WouldName::Runs => ("✓ would run".to_owned(), Tone::Ok),
        WouldName::Asks => match approvals_needed {
            Some(people) if people > 1 => (format!("◷ would need approval by {people} people"), Tone::Warn),
            Some(_) | None => ("◷ would need approval".to_owned(), Tone::Warn),
        },
        WouldName::Denied => ("⊘ would be denied".to_owned(), Tone::Danger),
        WouldName::Quarantined => ("▣ would be quarantined".to_owned(), Tone::Danger),
        WouldName::Refused => ("✗ would be refused".to_owned(), Tone::Danger),
    }
}

/// The title of the session, if a person reads the output.
async fn title(session: &str, client: &Client, terminal: &Terminal) -> Option<String> {
    if !terminal.is_for_people() {
        return None;
    }
    client.get::<SessionView>(&["sessions", session], &[]).await.ok().map(|answer| answer.read.title)
}

fn record(told: &ExplainResponse, session_title: Option<&str>, names: &Names) -> Record {
    let tone = if told.drift == Drift::None { Tone::Plain } else { Tone::Warn };
    let drift = Cell::text(told.drift.as_str()).toned(tone);
    let mut record = Record::new(word(told.would))
        .with("action", Cell::text(format!("{} ({})", told.action, told.tier)).toned(Tone::Strong))
        .with("as", acting(told, session_title))
        .with("space", names.space(&told.space_id))
        .with("mode", Cell::mode(told.decision.mode))
        .with("cascade", Cell::text(cascade(&told.decision)))
        .with("drift", drift)
        .with_some("grant", told.grant_id.as_ref().map(|grant| names.grant(grant)));
    for near in &told.near_grants {
        record = record.with("near grant", Cell::text(format!("{} for {}: {}", near.grant_id, near.covers, near.because)));
    }
    for error in &told.errors {
        let place = if error.pointer.is_empty() { String::new() } else { format!("{}: ", error.pointer) };
        record = record.with("params", Cell::text(format!("{place}{}", error.message)).toned(Tone::Danger));
    }
    record
}

/// `release bot (agent:ses_…)`: the id is whole, because `--as` takes it and titles may be alike.
fn acting(told: &ExplainResponse, session_title: Option<&str>) -> Cell {
    let principal = &told.principal;
    match session_title.filter(|title| !title.trim().is_empty()) {
        Some(title) => Cell::shown(format!("{title} ({principal})"), principal),
        None => Cell::text(principal),
    }
}
