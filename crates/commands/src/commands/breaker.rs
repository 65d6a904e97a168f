//! `countersign breaker`: circuit breakers. A target that fails repeatedly is not called for a while.

use crate::shared::*;
use api::Page;
use api::rules::{BreakerView, CloseBreakerRequest};
use clap::Subcommand;
use countersign_core::breaker::BreakerState;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Breaker {
    /// List targets that have failed since they last worked
    #[command(before_help = "Examples:\n  countersign breaker list")]
    List,
    /// Close a breaker: calls go through to the target again, at once
    #[command(before_help = "Examples:\n  countersign breaker close 'http.request|api.example.com'")]
    Close {
        /// Its key, as `breaker list` shows it
        #[arg(value_name = "KEY")]
        breaker: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Resource for BreakerView {
    const NOUN: &'static str = "breaker";
    const LIST: &'static str = "breaker list";
    const PATH: &'static [&'static str] = &["breakers"];
    const EMPTY: &'static str = "no target fails";
    const OFFERED: (&'static str, &'static [&'static str]) = ("key", &["state"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("key", Column::Whole, |one, _| text(&one.key)),
        Field::both("state", Column::Whole, |one, _| Some(state(one.state))),
        Field::both("failures", Column::Whole, |one, _| text(one.failures.to_string())),
        Field::both("last", Column::Cut, |one, _| text(&one.reason)),
        Field::both("since", Column::Whole, |one, view| view.past(one.since)),
        Field::both("tried in", Column::Whole, |one, view| view.future(one.until?)),
    ];

    fn id(&self) -> &str {
        &self.key
    }

    fn next_of(items: &[Self]) -> Option<String> {
        let open = items.iter().find(|breaker| breaker.state != BreakerState::Closed)?;
        Some(format!("countersign breaker close '{}'", open.key))
    }
}

impl Breaker {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List => drop(resource::list::<BreakerView>(Asked::default(), client, terminal).await?),
            Self::Close { breaker: key, agreed } => {
                terminal.consent(&format!("Let calls through to `{}` again?", clean::line(&key)), agreed.consent(client)).await?;
                client.post::<Value>(&["breakers", "close"], &CloseBreakerRequest { key: key.clone() }).await?;
                // The server's answer has no body.
                terminal.done("closed", &key, &json!({ "key": key, "closed": true }))?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// The keys of the targets that are not called, and the sources that list nothing; empty if the caller may not read them.
pub(super) async fn failing(client: &Client) -> Vec<String> {
    let known = client.get::<Page<BreakerView>>(&["breakers"], &[]).await.map(|answer| answer.read.items).unwrap_or_default();
    known.into_iter().filter(|breaker| breaker.state != BreakerState::Closed).map(|breaker| clean::line(&breaker.key)).collect()
}

/// One look for each state, and its word in every one of them.
fn state(state: BreakerState) -> Cell {
    let (symbol, tone) = match state {
        BreakerState::Closed => ("✓", Tone::Ok),
        BreakerState::HalfOpen => ("◷", Tone::Warn),
        BreakerState::Open => ("✗", Tone::Danger),
    };
    Cell::shown(format!("{symbol} {}", state.as_str()), state.as_str()).toned(tone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_look_of_its_own_and_keeps_its_word() {
        let looks: Vec<_> = BreakerState::ALL.iter().map(|known| state(*known).as_shown().to_owned()).collect();
        assert_eq!(looks, ["✓ closed", "✗ open", "◷ half_open"]);
    }
}
