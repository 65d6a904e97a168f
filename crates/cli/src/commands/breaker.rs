//! Breakers: targets that fail again and again, and are left alone for a while.

use crate::args::Agreed;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::{Tone, clean};
use api::Page;
use api::rules::{BreakerView, CloseBreakerRequest};
use clap::Subcommand;
use countersign_core::breaker::BreakerState;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Breaker {
    /// Targets that have failed since they last worked
    #[command(before_help = "Examples:\n  countersign breaker list")]
    List,
    /// Let calls through to a target again, at once
    #[command(before_help = "Examples:\n  countersign breaker close 'http.request|api.example.com'")]
    Close {
        /// As `breaker list` shows it
        key: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

const COLUMNS: &[Column] = &[
    Column::Whole("KEY"),
    Column::Whole("STATE"),
    Column::Whole("FAILURES"),
    Column::Cut("LAST"),
    Column::Whole("SINCE"),
    Column::Whole("TRIED IN"),
];

/// One look for each state, and its word in every one of them.
fn state(text: &str) -> Cell {
    let (symbol, tone) = match BreakerState::parse(text) {
        Some(BreakerState::Closed) => ("✓ ", Tone::Ok),
        Some(BreakerState::HalfOpen) => ("◷ ", Tone::Warn),
        Some(BreakerState::Open) => ("✗ ", Tone::Danger),
        None => ("", Tone::Plain),
    };
    Cell::shown(format!("{symbol}{}", clean::line(text)), text).toned(tone)
}

impl Breaker {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List => {
                let answer = client.get::<Page<BreakerView>>(&["breakers"], &[]).await?;
                let mut table = Table::new(COLUMNS, "nothing fails");
                for breaker in &answer.read.items {
                    table.row([
                        Cell::text(&breaker.key),
                        state(&breaker.state),
                        Cell::text(breaker.failures.to_string()),
                        Cell::text(&breaker.reason),
                        terminal.past(&breaker.since),
                        breaker.until.as_ref().map_or_else(Cell::missing, |until| terminal.future(until)),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
                if let Some(open) = answer.read.items.iter().find(|breaker| breaker.state != "closed") {
                    terminal.next(format!("countersign breaker close '{}'", open.key));
                }
            }
            Self::Close { key, agreed } => {
                terminal.consent(&format!("let calls through to `{}` again?", clean::line(&key)), agreed.consent(client)).await?;
                client.post::<Value>(&["breakers", "close"], &CloseBreakerRequest { key: key.clone() }).await?;
                // The server answers with nothing.
                if terminal.is_document() {
                    terminal.document(&json!({ "key": key, "closed": true }))?;
                }
                terminal.note(format!("{} `{}`", Tone::Ok.paint("✓ closed"), clean::line(&key)));
            }
        }
        Ok(Exit::Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_look_of_its_own_and_keeps_its_word() {
        let looks: Vec<_> = BreakerState::ALL.iter().map(|known| state(known.as_str()).as_shown().to_owned()).collect();
        assert_eq!(looks, ["✓ closed", "✗ open", "◷ half_open"]);
        assert_eq!(state("melted").as_shown(), "melted");
    }
}
