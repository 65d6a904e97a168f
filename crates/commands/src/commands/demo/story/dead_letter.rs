//! The chapter of the dead letter: a program books what the shop says was paid. It cannot read one of the events, and gives it up. Once the
//! program is mended, somebody asks for that event once more: nothing was lost.

use super::{End, Story};
use crate::commands::demo::stage::PAUSE;
use crate::shared::*;
use api::Page;
use api::event::{AckResponse, ClaimResponse, ClaimedEvent, DeadLetterView};
use api::stream::StreamEvent;
use serde_json::{Value, json};

/// The consumer group of the program.
const GROUP: &str = "bookkeeping";
/// The type of the events that it books.
const PAID: &str = "shop.order_paid";
const DELIVERIES_MAX: u32 = 3;

impl Story<'_> {
    /// What was given up is kept, and comes once more if somebody asks.
    pub(super) async fn dead_letter(&mut self) -> Result<End, Failure> {
        let owner = &self.stage.owner;
        self.says("A program books what the shop says was paid. One event has an amount that it cannot read.");
        owner.put::<Value>(&["event-groups", GROUP], &json!({ "deliveries_max": DELIVERIES_MAX })).await?;
        let data = json!({ "order": "1042", "amount": "240,00", "currency": "EUR" });
        let event = json!({ "specversion": "1.0", "id": "order-1042", "source": "/shop", "type": PAID, "subject": "1042", "data": data });
        owner.post::<Value>(&["events"], &event).await?;
        let letter = self.gives_up().await?;
        let problem = letter.problem.clone().unwrap_or_default();
        self.says("The event is a dead letter now, and the program goes on. Then somebody mends it: it reads a comma, too.");
        if self.is_script {
            owner.post::<Value>(&["dead-letters", &letter.id, "retry"], &json!({})).await?;
        } else {
            self.advises(&format!("press “Retry” on {}", self.stage.page("events?tab=dead")));
            self.terminal.next(format!("countersign event dlq retry {}", clean::line(&letter.id)));
        }
        let Some(again) = delivered_again(owner, &letter).await? else {
            return Ok(End::new(false, format!("it went otherwise: the dead letter of `{PAID}` was dropped")));
        };
        let amount = booked(&again.event, ',');
        let done = answered(owner, "ack", &json!({ "claims": [&again.claim] })).await?;
        let is_green = amount.is_ok() && done == 1 && letters(owner).await?.is_empty();
        let (Ok(became) | Err(became)) = amount;
        let tries = letter.attempts;
        let words = format!("`{PAID}` was given up after {tries} deliveries ({problem}); asked for once more, it is {became}");
        Ok(End::new(is_green && tries == DELIVERIES_MAX && again.delivery == 1, words))
    }

    /// The program gives the event back each time, until it is a dead letter.
    async fn gives_up(&mut self) -> Result<DeadLetterView, Failure> {
        let owner = &self.stage.owner;
        loop {
            let Some(tried) = delivered(owner).await? else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let problem = booked(&tried.event, '.').err().unwrap_or_default();
            self.says(&format!("{GROUP}: {PAID}, delivery {} of {DELIVERIES_MAX}: {problem}", tried.delivery));
            answered(owner, "nack", &json!({ "claims": [&tried.claim], "problem": problem })).await?;
            if let Some(letter) = letters(owner).await?.into_iter().next() {
                return Ok(letter);
            }
        }
    }
}

/// The event of the dead letter, once somebody has asked for it; `None` if they dropped it instead.
async fn delivered_again(owner: &Client, letter: &DeadLetterView) -> Result<Option<ClaimedEvent>, Failure> {
    loop {
        // Read first: what is no dead letter by then is due, unless it was dropped.
        let is_dead = letters(owner).await?.iter().any(|one| one.id == letter.id);
        let again = delivered(owner).await?;
        if again.is_some() || !is_dead {
            return Ok(again);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What the shop said, if it is due. A group gets every event: with all others the program is done at once.
async fn delivered(owner: &Client) -> Result<Option<ClaimedEvent>, Failure> {
    let claimed = owner.post::<ClaimResponse>(&["event-groups", GROUP, "claim"], &json!({})).await?.read.events;
    let (paid, others): (Vec<_>, Vec<_>) = claimed.into_iter().partition(|one| one.event.name == PAID);
    let claims: Vec<_> = others.into_iter().map(|one| one.claim).collect();
    if !claims.is_empty() {
        answered(owner, "ack", &json!({ "claims": claims })).await?;
    }
    Ok(paid.into_iter().next())
}

/// Answers claims. Returns how many of them counted.
async fn answered(owner: &Client, verb: &str, body: &Value) -> Result<u64, Failure> {
    Ok(owner.post::<AckResponse>(&["event-groups", GROUP, verb], body).await?.read.done)
}

/// The events that the program gave up.
async fn letters(owner: &Client) -> Result<Vec<DeadLetterView>, Failure> {
    let all = owner.get::<Page<DeadLetterView>>(&["dead-letters"], &[("kind", "event".to_owned())]).await?.read.items;
    Ok(all.into_iter().filter(|letter| letter.place == GROUP).collect())
}

/// What the program books: an amount in which `mark` is before the cents, and no other.
fn booked(event: &StreamEvent, mark: char) -> Result<String, String> {
    let amount = event.data["amount"].as_str().unwrap_or_default();
    let read = amount.split_once(mark).and_then(|(euros, cents)| Some((euros.parse::<u32>().ok()?, cents.parse::<u32>().ok()?)));
    read.map(|(euros, cents)| format!("booked: {euros}.{cents:02} EUR")).ok_or_else(|| format!("not booked: `{amount}` is no amount"))
}
