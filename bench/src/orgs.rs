//! Two orgs, each on a server of its own, on one PostgreSQL: the throughput of both together, as a multiple of that of one alone.

use crate::child::{Call, Server};
use crate::cpu::Watched;
use crate::http::Connection;
use crate::load::Time;
use crate::place::Place;
use crate::stats::Spread;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Callers of each org. One alone keeps nearly a core busy, with its server and its share of the database; with more, two cores are full
/// before a second org comes, and the ratio says nothing about turns.
const CALLERS: usize = 1;

/// `None` for SQLite, which one server owns.
pub(crate) async fn measure(place: &Place, folder: &Path, time: Time, repetitions: usize) -> Result<Option<Spread>> {
    let first = place.fresh(&folder.join("first-org")).await?;
    let Some(url) = first.url.as_deref() else {
        return Ok(None);
    };
    let one = Server::start(&first.data, Some(url)).await?;
    let second = folder.join("second-org");
    std::fs::create_dir_all(&second)?;
    std::fs::copy(first.data.join("master.key"), second.join("master.key"))?;
    std::fs::write(second.join("owner.token"), second_owner(&one, &first.data).await?)?;
    let two = Server::start(&second, Some(url)).await?;
    let count = Arc::new(AtomicU64::new(0));
    let mut ratios = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        let (of_one, of_two) = (Watched::process(one.id()), Watched::process(two.id()));
        let alone = one.measure(Call::Write, CALLERS, time, &of_one, &count).await?;
        let (left, right) = tokio::try_join!(
            one.measure(Call::Write, CALLERS, time, &of_one, &count),
            two.measure(Call::Write, CALLERS, time, &of_two, &count),
        )?;
        ratios.push((left.per_second + right.per_second) / alone.per_second);
    }
    one.stop()?;
    two.stop()?;
    Ok(Some(Spread::of(ratios)))
}

/// Creates the second org, and returns the token of its owner.
async fn second_owner(server: &Server, data: &Path) -> Result<String> {
    let operator = std::fs::read_to_string(data.join("owner.token")).context("the operator's token")?;
    let mut connection = Connection::open(server.address()).await?;
    let created = connection.ask("POST", "/api/v1/orgs", operator.trim(), &json!({ "name": "second" })).await?;
    let invitation = created.pointer("/invitation/invitation").context("the new org has no invitation")?;
    let redeemed = connection.ask("POST", "/api/v1/invitations/redeem", operator.trim(), &json!({ "invitation": invitation })).await?;
    redeemed.get("token").and_then(Value::as_str).map(str::to_owned).context("the invitation was not redeemed")
}
