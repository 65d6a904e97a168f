//! `countersign status` and `countersign whoami`: the state of the server, and whose token is used.

use super::{channel, kill_switch, observe};
use crate::shared::*;
use api::identity::{StatusResponse, WhoamiResponse};

pub(crate) async fn status(client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<StatusResponse>(&["status"], &[]).await?;
    let status = &answer.read;
    let ready = match (&status.problem, status.ready) {
        (_, true) => Cell::shown("✓ ready", "ready").toned(Tone::Ok),
        (problem, false) => Cell::shown("✗ not ready", "not ready")
            .toned(Tone::Danger)
            .and(problem.as_ref().map(|text| format!(": {text}")).unwrap_or_default()),
    };
    let record = Record::new(&status.version)
        .with("server", ready)
        .with("url", Cell::text(client.url().as_str()))
        .with("version", Cell::text(&status.version))
        .with("time zones", Cell::text(&status.tzdata))
        .with("store", Cell::text(word(status.store)))
        .with("pending", Cell::text(status.pending.to_string()).toned(if status.pending > 0 { Tone::Warn } else { Tone::Plain }))
        .with("in doubt", Cell::text(status.in_doubt.to_string()).toned(if status.in_doubt > 0 { Tone::Danger } else { Tone::Plain }))
        .with("log entries", Cell::text(status.log_size.to_string()));
    let switches = if terminal.is_for_words() { kill_switch::on(client).await } else { Vec::new() };
    let record = switches.iter().fold(record, |record, switch| {
        let line = kill_switch::line(switch);
        record.with("kill switch", Cell::shown(format!("■ on: {line}"), format!("on: {line}")).toned(Tone::Danger))
    });
    let (observing, undelivered) = if terminal.is_for_words() {
        (observe::observing(client).await, channel::with_dead_letters(client).await)
    } else {
        (Vec::new(), Vec::new())
    };
    let record = observing.iter().fold(record, |record, space| {
        record.with("observes", Cell::text(format!("space `{}`: it asks nobody, but about R4", space.name)).toned(Tone::Warn))
    });
    let record = undelivered.iter().fold(record, |record, channel| {
        record.with("dead letters", Cell::text(format!("{} of channel `{}`", channel.dead, channel.name)).toned(Tone::Warn))
    });
    terminal.record(&answer.raw, &record)?;
    if !switches.is_empty() {
        terminal.next("countersign kill-switch list");
    }
    if status.pending > 0 {
        terminal.next("countersign inbox");
    }
    if status.in_doubt > 0 {
        terminal.next("countersign invocation list --status in_doubt");
    }
    if !undelivered.is_empty() {
        terminal.next("countersign channel deliveries --state dead");
    }
    Ok(if status.ready { Exit::Ok } else { Exit::Failed })
}

pub(crate) async fn whoami(client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<WhoamiResponse>(&["whoami"], &[]).await?;
    terminal.record(&answer.raw, &identity(&answer.read, client))?;
    Ok(Exit::Ok)
}

/// Who the token belongs to, and on which server.
pub(super) fn identity(whoami: &WhoamiResponse, client: &Client) -> Record {
    Record::new(&whoami.principal)
        .with("principal", Cell::text(&whoami.principal).toned(Tone::Strong))
        .with("name", Cell::text(&whoami.name))
        .with("role", Cell::maybe(whoami.role.map(|role| role.as_str())))
        .with("session", Cell::maybe(whoami.session_id.as_ref()))
        .with("org", Cell::text(&whoami.org_id))
        .with("may", Cell::text(whoami.permissions.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ")))
        .with("url", Cell::text(client.url().as_str()))
}
