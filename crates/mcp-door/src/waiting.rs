//! A call that waits for a person, by what the client can do: a task where it declared them; else the address of the approval page, by
//! elicitation; else the call is held on a stream that is never silent; and before the client's own timer fires, a reference.
//! A client's own "accept" approves nothing: it says that a person was shown the address.

use super::caller::Caller;
use super::words;
use crate::limits::{MCP_HOLD_SECONDS_DEFAULT, MCP_PROGRESS_SECONDS};
use countersign_core::{Invocation, Status};
use futures_util::future::{BoxFuture, OptionFuture};
use operations::App;
use pipeline::{Asked, Error, Line, News, Outcome, ProgressEvent, Waiting};
use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, InputRequest, InputRequests, InputRequiredResult, ProgressNotificationParam, ProtocolVersion,
    ServerRequest,
};
use rmcp::service::RequestContext;
use std::time::Duration;
use tokio::time::Instant;

/// How long clients wait for an answer, by the beginning of their name, in lower case.
const HOLD_SECONDS: &[(&str, u64)] = &[
    // It moves a call to the background after 120 s, and its agent may then ignore the answer.
    ("claude-code", 110),
    ("claude", 50),
    ("codex", 280),
    ("visual studio code", 280),
    ("vscode", 280),
    ("cursor", 280),
    // Its own timer is ten minutes, unless its settings say otherwise.
    ("gemini-cli", 600),
    // A word of progress starts its timer again, and there is one every few seconds.
    ("opencode", 280),
];
/// The name of clients of the Python SDK that have none of their own. Any byte starts their timer again.
const PYTHON_SDK: (&str, u64) = ("mcp", 280);

/// The key under which a client is asked to show the approval page.
const APPROVAL: &str = "approval";

/// What a waiting call is answered with.
pub(super) enum Waited {
    Ended(Outcome),
    /// It goes on as a task.
    Task(Box<Invocation>),
    /// The client shows the approval page, then asks again.
    Input(Box<InputRequiredResult>),
    /// The caller gets a reference.
    Reference(Box<Invocation>),
    /// The server stops, or the caller has gone: it joins the call when it asks again.
    CutOff,
}

/// What the caller can do while its call waits.
pub(super) struct Abilities {
    tasks: bool,
    /// It can show the address of the approval page, and in which way.
    shows: Option<Shows>,
    pub(super) budget: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// It is asked on the stream of its call.
    OnStream,
    /// It is answered with the address, and asks again.
    ThenAsksAgain,
}

impl Abilities {
    /// `tasks`: whether the request may be answered by a task at all.
    pub(super) fn of(context: &RequestContext<RoleServer>, caller: &Caller, tasks: bool) -> Self {
        let capabilities = context.client_capabilities().unwrap_or_default();
        let version = context.protocol_version();
        let is_at_least = |wanted: &ProtocolVersion| version.as_ref().is_some_and(|version| version.as_str() >= wanted.as_str());
        let has_urls = capabilities.elicitation.as_ref().is_some_and(|elicitation| elicitation.url.is_some());
        let shows = match (has_urls, is_at_least(&ProtocolVersion::V_2026_07_28), is_at_least(&ProtocolVersion::V_2025_11_25)) {
            (true, true, _) => Some(Shows::ThenAsksAgain),
            (true, false, true) => Some(Shows::OnStream),
            (true, false, false) | (false, _, _) => None,
        };
        let name = context.client_info().map(|client| client.name.to_lowercase()).unwrap_or_default();
        let known = HOLD_SECONDS.iter().find(|(known, _)| name.starts_with(known));
        let known = known.or(Some(&PYTHON_SDK).filter(|(known, _)| name == *known)).map(|(_, seconds)| *seconds);
        let seconds = caller.wishes.hold_seconds.or(known).unwrap_or(MCP_HOLD_SECONDS_DEFAULT);
        // The reference has to arrive before the client's own timer fires.
        Self { tasks: tasks && capabilities.supports_tasks(), shows, budget: Duration::from_secs(seconds) * 4 / 5 }
    }
}

/// Waits for the end of a call that was made just now, or gives the caller what it can go on with.
pub(super) async fn wait(
    app: &App,
    context: &RequestContext<RoleServer>,
    line: &Line,
    asked: Asked<'_>,
    is_asked_again: bool,
    abilities: &Abilities,
    mut waiting: Waiting,
) -> Result<Waited, Error> {
    let until = Instant::now() + abilities.budget;
    let (mut is_new, mut told) = (true, 0.0);
    let mut asking: Option<BoxFuture<'_, ()>> = None;
    loop {
        let news = tokio::select! {
            news = waiting.next() => news?,
            // Whatever the client answers, only an answer at the approval page counts.
            Some(()) = OptionFuture::from(asking.as_mut()) => {
                asking = None;
                continue;
            }
        };
        let pending = match news {
            News::Printed(event) => {
                tell_line(context, &mut told, event).await;
                continue;
            }
            News::Outcome(Outcome::Pending(pending)) => pending,
            News::Outcome(outcome) => return Ok(Waited::Ended(outcome)),
        };
        // A call that was joined, or that takes long, may run already: then nobody is asked.
        let waits_for_person = pending.status == Status::Pending;
        if std::mem::take(&mut is_new) && (waits_for_person || Instant::now() < until) {
            if abilities.tasks {
                return Ok(Waited::Task(pending));
            }
            match abilities.shows.filter(|_| waits_for_person) {
                Some(Shows::ThenAsksAgain) if !is_asked_again => match app.pipeline().give_ticket(line, asked, &pending).await {
                    Ok(ticket) => {
                        let page = InputRequest::Elicitation(ElicitRequest::new(shown(app, &pending)));
                        let input = InputRequests::from([(APPROVAL.to_owned(), page)]);
                        return Ok(Waited::Input(Box::new(InputRequiredResult::new(Some(input), Some(ticket)))));
                    }
                    // The store is away: the caller is held like one that shows no addresses.
                    Err(error) if error.is_passing() => {}
                    Err(error) => return Err(error),
                },
                // Asked for in the task of the request, so that it goes out on the stream of the call.
                Some(Shows::OnStream) => {
                    let page = ServerRequest::ElicitRequest(ElicitRequest::new(shown(app, &pending)));
                    asking = Some(Box::pin(async move {
                        let _answered = context.peer.send_request(page).await;
                    }));
                }
                Some(Shows::ThenAsksAgain) | None => {}
            }
        }
        if app.pipeline().is_stopping() {
            return Ok(Waited::CutOff);
        }
        if Instant::now() >= until {
            return Ok(Waited::Reference(pending));
        }
        told += 1.0;
        tell(context, told, words::progress(app, &pending)).await;
        let tick = until.saturating_duration_since(Instant::now()).min(Duration::from_secs(MCP_PROGRESS_SECONDS));
        waiting.go_on(pending, tick);
    }
}

fn shown(app: &App, pending: &Invocation) -> ElicitRequestParams {
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: format!("`{}` needs a person's approval. Open the page, log in, and approve or deny it there.", pending.action),
        url: words::approval_url(app, pending),
        elicitation_id: pending.id.to_string(),
    }
}

/// Says what a call printed.
async fn tell_line(context: &RequestContext<RoleServer>, told: &mut f64, event: ProgressEvent) {
    if let ProgressEvent::Line { text, .. } = event {
        *told += 1.0;
        tell(context, *told, text).await;
    }
}

/// Says how far the call is, if the caller wants to know.
async fn tell(context: &RequestContext<RoleServer>, value: f64, message: String) {
    let Some(token) = context.meta.get_progress_token() else { return };
    if let Err(error) = context.peer.notify_progress(ProgressNotificationParam::new(token, value).with_message(message)).await {
        tracing::debug!(%error, "a caller could not be told how far its call is");
    }
}
