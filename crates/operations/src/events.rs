//! The event bus: who publishes events, and who consumes them in groups. Whoever publishes can start automations, so it takes the right to
//! invoke; an agent has that right inside its session only, and publishes nothing. A consumer gets every event of the org.

use super::{Error, must, must_read, sight, spaces};
use crate::App;
use crate::limits::{
    EVENT_ATTRIBUTE_CHARS_MAX, EVENT_ATTRIBUTES_MAX, EVENT_BYTES_MAX, EVENT_ID_CHARS_MAX, EVENT_SOURCE_CHARS_MAX, EVENT_SUBJECT_CHARS_MAX,
    EVENT_TYPE_CHARS_MAX,
};
use api::event::{NewGroupRequest, PublishRequest, PublishedEvent};
use api::event_types::is_ours;
use api::stream::{Cursor, source_of};
use countersign_core::limits::{EVENT_DELIVERIES_DEFAULT, EVENT_DELIVERIES_MAX, EVENTS_PER_REQUEST_MAX, GROUP_NAME_CHARS_MAX, GROUPS_MAX};
use countersign_core::ports::bus::{ClaimRef, Claimed, Group, GroupName, NewEvent, NewGroup, Published, Start, Subscribed};
use countersign_core::ports::events::{Cause, Event, Origin};
use countersign_core::ports::{EventBus, EventFeed};
use countersign_core::principal::Permission;
use countersign_core::{OrgId, Principal, PrincipalId, SpaceId, Timestamp};
use pipeline::ParamError;
use runs::limits::EVENTS_PER_CLAIM_MAX;
use serde_json::Value;
use std::time::Duration;
use store::Move;
use store::limits::EVENTS_IN_FLIGHT_MAX;
use tokio::time::Instant;

/// Attributes of an event that the server alone sets.
const SET_BY_US: [&str; 5] = ["chain", "depth", "rootrunid", "cursor", "receipt"];

/// What a group gets once more.
pub enum Again {
    /// Everything from this position on.
    From(i64),
    /// Everything from this time on.
    Since(Timestamp),
    DeadLetters,
}

/// Checks that the principal may publish: whoever may invoke, but no agent.
fn must_publish(by: &Principal) -> Result<(), Error> {
    match &by.id {
        PrincipalId::User(_) | PrincipalId::Service(_) => must(by, Permission::Invoke),
        PrincipalId::Agent(_) | PrincipalId::Automation(_) => {
            Err(Error::NotAPerson { does_what: "or a service publishes and consumes events" })
        }
    }
}

/// Checks that the principal may take events out of a group: it reads everything in the org, and takes away from other consumers.
async fn must_consume(app: &App, by: &Principal) -> Result<(), Error> {
    must_publish(by)?;
    must_read(by)?;
    sight::must_see_all(app, by).await
}

/// Publishes these events, all or none.
pub async fn publish(app: &App, by: &Principal, requests: Vec<PublishRequest>) -> Result<Vec<PublishedEvent>, Error> {
    must_publish(by)?;
    if requests.is_empty() || requests.len() > EVENTS_PER_REQUEST_MAX {
        return Err(Error::invalid(format!("a request has 1 to {EVENTS_PER_REQUEST_MAX} events; nothing was published")));
    }
    let is_one = requests.len() == 1;
    let mut errors = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        let place = if is_one { String::new() } else { format!("/{at}") };
        errors.extend(
            problems(&by.org, request).into_iter().map(|(name, message)| ParamError { pointer: format!("{place}/{name}"), message }),
        );
    }
    if !errors.is_empty() {
        return Err(Error::Invalid { message: "nothing was published: an event is not as it must be".to_owned(), errors });
    }
    let mut events = Vec::with_capacity(requests.len());
    for request in &requests {
        let space = match &request.spaceid {
            Some(space) => Some(spaces::find(app, by, space).await?.id),
            None => None,
        };
        events.push(drafted(request, space));
    }
    let published = app.store().publish(&by.org, events).await?;
    let told = |(request, one): (PublishRequest, Published)| PublishedEvent {
        source: request.source,
        id: request.id,
        cursor: Cursor::at(one.seq).to_string(),
        known: one.is_known,
    };
    Ok(requests.into_iter().zip(published).map(told).collect())
}

fn drafted(request: &PublishRequest, space: Option<SpaceId>) -> NewEvent {
    NewEvent {
        name: request.name.clone(),
        key: request.subject.clone().unwrap_or_default(),
        body: request.data.clone().unwrap_or_default().to_string(),
        origin: Some(Origin {
            source: request.source.clone(),
            id: request.id.clone(),
            time: request.time.as_deref().and_then(Timestamp::parse),
            more: request.more.clone(),
        }),
        space,
        cause: Cause::default(),
    }
}

/// Everything that is wrong with an event: the attribute, and what is wrong with it.
fn problems(org: &OrgId, request: &PublishRequest) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut wrong = |name: &str, message: String| found.push((name.to_owned(), message));
    if request.specversion != "1.0" {
        wrong("specversion", "must be `1.0`".to_owned());
    }
    let texts = [("id", &request.id, EVENT_ID_CHARS_MAX), ("source", &request.source, EVENT_SOURCE_CHARS_MAX)];
    for (name, text, chars_max) in texts {
        if !is_text(text, chars_max) || text.is_empty() {
            wrong(name, format!("must have 1 to {chars_max} characters, none of them a control character"));
        }
    }
    if is_our_source(org, &request.source) {
        wrong("source", format!("`{}` is the server's: name where the event comes from, such as `/drive`", source_of(org)));
    }
    let is_type = request.name.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_type || request.name.is_empty() || request.name.len() > EVENT_TYPE_CHARS_MAX {
        wrong("type", format!("must have 1 to {EVENT_TYPE_CHARS_MAX} ASCII characters without spaces, such as `drive.file_added`"));
    } else if is_ours(&request.name) {
        wrong(
            "type",
            format!("`{}` is a name of ours, or begins with a word of ours: only the server publishes such events", request.name),
        );
    }
    if request.subject.as_ref().is_some_and(|subject| !is_text(subject, EVENT_SUBJECT_CHARS_MAX)) {
        wrong("subject", format!("must have at most {EVENT_SUBJECT_CHARS_MAX} characters, none of them a control character"));
    }
    if request.time.as_ref().is_some_and(|time| Timestamp::parse(time).is_none()) {
        wrong("time", "must be a time such as `2026-01-31T12:00:00Z`".to_owned());
    }
    if request.datacontenttype.as_deref().is_some_and(|kind| !is_json(kind)) {
        wrong("datacontenttype", "must be `application/json`: no other data is taken".to_owned());
    }
    if request.more.len() > EVENT_ATTRIBUTES_MAX {
        wrong("", format!("must have at most {EVENT_ATTRIBUTES_MAX} extension attributes"));
    }
    for (name, value) in &request.more {
        if let Some(message) = attribute_problem(name, value) {
            wrong(name, message);
        }
    }
    let bytes = serde_json::to_string(request).map_or(usize::MAX, |text| text.len());
    if bytes > EVENT_BYTES_MAX {
        wrong("data", format!("is too large: an event has at most {EVENT_BYTES_MAX} bytes"));
    }
    found
}

/// Whether only the server is this source: what comes from the org itself, or from something in it.
fn is_our_source(org: &OrgId, source: &str) -> bool {
    source.trim().to_ascii_lowercase().starts_with(&source_of(org))
}

fn attribute_problem(name: &str, value: &Value) -> Option<String> {
    if name == "data_base64" {
        return Some("must be absent: data is JSON, in `data`".to_owned());
    }
    if SET_BY_US.contains(&name) {
        return Some("is set by the server".to_owned());
    }
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !is_name || name.len() > EVENT_ATTRIBUTE_CHARS_MAX {
        return Some(format!("is no attribute: its name must have 1 to {EVENT_ATTRIBUTE_CHARS_MAX} small letters and digits"));
    }
    let fits = match value {
        Value::Bool(_) => true,
        Value::Number(number) => number.is_i64(),
        Value::String(text) => is_text(text, EVENT_SOURCE_CHARS_MAX),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    (!fits).then(|| "must be a text, a whole number or a boolean".to_owned())
}

fn is_text(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max && !text.chars().any(char::is_control)
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// One event: by its position, its id, or the id that whoever sent it gave it.
pub async fn find(app: &App, by: &Principal, text: &str) -> Result<Event, Error> {
    must_read(by)?;
    let found = match Cursor::parse(text) {
        Some(cursor) => app.store().find_event(&by.org, cursor.seq).await?,
        None if is_text(text, EVENT_ID_CHARS_MAX) => app.store().find_event_by_id(&by.org, text).await?,
        None => None,
    };
    let event = found.ok_or_else(|| Error::not_found("event", text))?;
    let told = super::stream::told(app, by, &stream::Told::new(&by.org, event)).await?;
    told.map(|told| told.event.clone()).ok_or_else(|| Error::not_found("event", text))
}

pub async fn groups(app: &App, by: &Principal) -> Result<Vec<Group>, Error> {
    must_read(by)?;
    Ok(app.store().list_event_groups(&by.org).await?)
}

pub async fn group(app: &App, by: &Principal, name: &str) -> Result<Group, Error> {
    must_read(by)?;
    let missing = || Error::not_found("event group", name);
    let known = GroupName::parse(name).ok_or_else(missing)?;
    app.store().find_event_group(&by.org, &known).await?.ok_or_else(missing)
}

/// Makes a group, unless there is one of this name: that stays as it is.
pub async fn make_group(app: &App, by: &Principal, name: &str, request: NewGroupRequest) -> Result<Group, Error> {
    must_consume(app, by).await?;
    let name = GroupName::parse(name).ok_or_else(|| {
        let message = "the name of a group has small letters, digits, `-`, `_` and `.`, and a letter first";
        Error::invalid(format!("{message}, at most {GROUP_NAME_CHARS_MAX} of them"))
    })?;
    must_be_theirs(&name)?;
    let start = request.start.as_deref().map_or(Ok(Start::Now), |text| start_of("start", text))?;
    let deliveries_max = request.deliveries_max.unwrap_or(EVENT_DELIVERIES_DEFAULT);
    let new = NewGroup { name, start, deliveries_max, by: Some(by.id.clone()) };
    if !new.has_fitting_deliveries() {
        return Err(Error::invalid(format!("`deliveries_max` must be 1 to {EVENT_DELIVERIES_MAX}")));
    }
    match app.store().subscribe(&by.org, new).await? {
        Subscribed::Made(group) | Subscribed::There(group) => Ok(group),
        Subscribed::TooMany => Err(Error::invalid(format!("an org has at most {GROUPS_MAX} groups"))),
    }
}

/// A group that somebody else than the server consumes with.
fn theirs(name: &str) -> Result<GroupName, Error> {
    let name = GroupName::parse(name).ok_or_else(|| Error::not_found("event group", name))?;
    must_be_theirs(&name)?;
    Ok(name)
}

fn must_be_theirs(name: &GroupName) -> Result<(), Error> {
    if name.is_ours() { Err(Error::invalid(format!("group `{name}` is the server's own: nobody else consumes with it"))) } else { Ok(()) }
}

pub fn start_of(field: &str, text: &str) -> Result<Start, Error> {
    match text {
        "now" => Ok(Start::Now),
        "earliest" => Ok(Start::Earliest),
        position => {
            let position = position.parse::<i64>().ok().filter(|position| *position > 0);
            let message = || Error::invalid(format!("`{field}` must be `now`, `earliest`, or the position of an event"));
            position.map(Start::At).ok_or_else(message)
        }
    }
}

/// Claims events of a group. If there is none, waits for one, at most so long.
pub async fn claim(app: &App, by: &Principal, name: &str, limit: u32, wait: Duration) -> Result<Vec<Claimed>, Error> {
    must_consume(app, by).await?;
    let group = theirs(name)?;
    if !(1..=EVENTS_PER_CLAIM_MAX).contains(&limit) {
        return Err(Error::invalid(format!("`limit` must be 1 to {EVENTS_PER_CLAIM_MAX}")));
    }
    let end = Instant::now() + wait;
    loop {
        // Read first: what is committed after it ends the wait.
        let newest = app.store().newest_event(&by.org).await?;
        let claimed = app.store().claim_events(&by.org, &group, limit).await?;
        let claimed = claimed.ok_or_else(|| Error::not_found("event group", name))?;
        let left = end.saturating_duration_since(Instant::now());
        if !claimed.is_empty() || left.is_zero() {
            return Ok(claimed);
        }
        // It also ends by itself after a while: what was given back, or left, becomes due without an event.
        let _elapsed = tokio::time::timeout(left, app.store().wait_for_event(&by.org, newest)).await;
    }
}

/// Says that these events were worked on. Returns the claims that count no more.
pub async fn ack(app: &App, by: &Principal, name: &str, claims: Vec<ClaimRef>) -> Result<Vec<ClaimRef>, Error> {
    let group = answered(app, by, name, &claims).await?;
    Ok(app.store().ack_events(&by.org, &group, claims).await?)
}

/// Gives these events back. Returns the claims that count no more.
pub async fn nack(
    app: &App,
    by: &Principal,
    name: &str,
    claims: Vec<ClaimRef>,
    delay_seconds: u64,
    problem: Option<&str>,
) -> Result<Vec<ClaimRef>, Error> {
    let group = answered(app, by, name, &claims).await?;
    let problem = super::words("problem", problem)?.unwrap_or_else(|| "its consumer gave it back".to_owned());
    Ok(app.store().nack_events(&by.org, &group, claims, delay_seconds, problem).await?)
}

/// The group whose claims are answered.
async fn answered(app: &App, by: &Principal, name: &str, claims: &[ClaimRef]) -> Result<GroupName, Error> {
    must_consume(app, by).await?;
    if claims.is_empty() || claims.len() as i64 > EVENTS_IN_FLIGHT_MAX {
        return Err(Error::invalid(format!("`claims` must have 1 to {EVENTS_IN_FLIGHT_MAX} of them")));
    }
    let group = theirs(name)?;
    let found = app.store().find_event_group(&by.org, &group).await?;
    found.map(|group| group.name).ok_or_else(|| Error::not_found("event group", name))
}

/// Lets a group go on from another place. What it has not acknowledged counts as done.
pub async fn reset(app: &App, by: &Principal, name: &str, to: Start) -> Result<Group, Error> {
    must(by, Permission::ManagePolicy)?;
    let missing = || Error::not_found("event group", name);
    let group = GroupName::parse(name).ok_or_else(missing)?;
    app.store().move_event_group(&by.org, &group, to, Move::Reset, &by.id).await?.ok_or_else(missing)
}

/// Gives a group events once more, as they are or under new ids. Returns how many.
pub async fn replay(app: &App, by: &Principal, name: &str, again: Again, has_new_ids: bool) -> Result<u64, Error> {
    must(by, Permission::ManagePolicy)?;
    let missing = || Error::not_found("event group", name);
    let group = GroupName::parse(name).ok_or_else(missing)?;
    app.store().find_event_group(&by.org, &group).await?.ok_or_else(missing)?;
    if has_new_ids && (!group.is_ours() || matches!(again, Again::DeadLetters)) {
        let message = "`new_ids` is for group `automations`, and not for dead letters: other consumers know an event by its source and id";
        return Err(Error::invalid(message));
    }
    let position = match again {
        Again::DeadLetters => return Ok(app.store().retry_dead_events(&by.org, Some(&group), None, &by.id).await?),
        Again::From(position) if position > 0 => position,
        Again::From(_) => return Err(Error::invalid("`from` must be the position of an event, from 1 on")),
        Again::Since(time) => match app.store().find_event_from(&by.org, time).await? {
            Some(position) => position,
            None => return Ok(0),
        },
    };
    let newest = app.store().newest_event(&by.org).await?;
    let how = if has_new_ids { Move::ReplayAnew } else { Move::Replay };
    let moved = app.store().move_event_group(&by.org, &group, Start::At(position), how, &by.id).await?.ok_or_else(missing)?;
    if !has_new_ids {
        return Ok(moved.behind);
    }
    let first = position.max(app.store().oldest_event(&by.org).await?);
    Ok(u64::try_from(newest - first + 1).unwrap_or_default())
}

/// Removes a group, with all that it has not acknowledged.
pub async fn remove_group(app: &App, by: &Principal, name: &str) -> Result<(), Error> {
    must(by, Permission::ManagePolicy)?;
    let group = theirs(name)?;
    if app.store().remove_event_group(&by.org, &group, &by.id).await? { Ok(()) } else { Err(Error::not_found("event group", name)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn org() -> OrgId {
        OrgId::new(Timestamp::from_micros(0), [7; 10])
    }

    fn request(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut event = json!({ "specversion": "1.0", "id": "1", "source": "/drive", "type": "drive.file_added", "data": { "size": 3 } });
        change(&mut event);
        problems(&org(), &serde_json::from_value(event).unwrap()).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn every_attribute_that_is_wrong_is_named() {
        assert_eq!(request(|_| {}), [""; 0]);
        let other = OrgId::new(Timestamp::from_micros(0), [8; 10]);
        assert_eq!(request(|event| event["source"] = json!(source_of(&other))), [""; 0], "what another org told may be passed on");
        assert_eq!(request(|event| event["traceparent"] = json!("00-4bf9")), [""; 0], "extension attributes are passed on");
        let long = "x".repeat(EVENT_SOURCE_CHARS_MAX + 1);
        let large = "x".repeat(EVENT_BYTES_MAX);
        for (name, value) in [
            ("specversion", json!("0.3")),
            ("id", json!("")),
            ("id", json!("a\u{0}")),
            ("source", json!(long)),
            ("type", json!("drive file")),
            ("type", json!("invocation.succeeded")),
            ("type", json!("Automation.run.failed")),
            ("type", json!("action_completed")),
            ("type", json!("problem")),
            ("type", json!("stream.dropped")),
            ("source", json!(source_of(&org()))),
            ("source", json!(format!(" {}/", source_of(&org()).to_uppercase()))),
            ("source", json!(format!("{}#calls", source_of(&org())))),
            ("subject", json!("a\nb")),
            ("time", json!("yesterday")),
            ("datacontenttype", json!("text/xml")),
            ("data_base64", json!("AA==")),
            ("depth", json!(0)),
            ("chain", json!("aut_1")),
            ("Upper", json!("x")),
            ("list", json!([1])),
            ("number", json!(1.5)),
            ("data", json!(large)),
        ] {
            assert_eq!(request(|event| event[name] = value.clone()), [name], "{value}");
        }
    }

    #[test]
    fn a_place_to_start_is_a_word_or_a_position() {
        assert_eq!(start_of("start", "now").ok(), Some(Start::Now));
        assert_eq!(start_of("start", "earliest").ok(), Some(Start::Earliest));
        assert_eq!(start_of("start", "42").ok(), Some(Start::At(42)));
        for bad in ["", "0", "-1", "latest", "1.5"] {
            assert!(start_of("start", bad).is_err(), "{bad}");
        }
    }
}
