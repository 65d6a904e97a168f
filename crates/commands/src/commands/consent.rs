//! `countersign consent`: permissions that a person gives for a purpose, and withdraws, by themselves.

use crate::shared::*;
use api::gates::{ConsentState, ConsentView, NewConsentRequest};
use api::identity::SpaceView;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Consent {
    /// List consents, newest first; your own unless you are an admin
    #[command(before_help = "Examples:\n  countersign consent list")]
    List(Paging),
    /// Give your consent for a purpose
    #[command(before_help = "Examples:
  countersign consent give files.write_text --expires 30d
  countersign consent give purpose:newsletter --space lab --evidence 'asked on the phone'")]
    Give {
        /// An action, or a kind and a name such as purpose:newsletter
        purpose: String,
        /// Only in this space, by its name or its id
        #[arg(long, value_name = "SPACE")]
        space: Option<String>,
        /// How long it lasts, such as 30d; until it is withdrawn when absent
        #[arg(long, value_name = "TIME", value_parser = Span::parse)]
        expires: Option<Span>,
        /// What you were shown or said
        #[arg(long, value_name = "TEXT")]
        evidence: Option<String>,
    },
    /// Withdraw your consent, at once
    #[command(before_help = "Examples:\n  countersign consent withdraw con_…")]
    Withdraw {
        /// Its id
        consent: String,
    },
}

impl Resource for ConsentView {
    const NOUN: &'static str = "consent";
    const LIST: &'static str = "consent list";
    const PATH: &'static [&'static str] = &["consents"];
    const EMPTY: &'static str = "no consents: countersign consent give files.write_text";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["purpose"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("purpose", Column::Whole, |one, _| text(&one.purpose)),
        Field::both("state", Column::Whole, |one, _| {
            Some(match one.state {
                ConsentState::Live => Cell::shown("● live", "live").toned(Tone::Primary),
                ConsentState::Expired => Cell::shown("◌ expired", "expired").toned(Tone::Muted),
                ConsentState::Withdrawn => Cell::shown("– withdrawn", "withdrawn").toned(Tone::Muted),
            })
        }),
        Field::both("given", Column::Whole, |one, view| view.past(one.given_at)),
        Field::both("who", Column::Extra, |one, view| view.who(&one.user_id)),
        Field::both("space", Column::Extra, |one, _| maybe(one.space_id.as_ref())),
        Field::both("expires", Column::Extra, |one, view| match (one.expires_at, one.state) {
            (Some(at), ConsentState::Live) => view.future(at),
            (Some(at), ConsentState::Expired) => view.past(at),
            (Some(at), ConsentState::Withdrawn) => Some(Cell::shown("–", at.to_string()).toned(Tone::Muted)),
            (None, ConsentState::Live) => Some(Cell::shown("when withdrawn", "")),
            (None, ConsentState::Expired | ConsentState::Withdrawn) => None,
        }),
        Field::line("withdrawn", |one, view| view.past(one.withdrawn_at?)),
        Field::line("evidence", |one, _| maybe(one.evidence.as_ref())),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        (self.state == ConsentState::Live).then(|| format!("countersign consent withdraw {}", self.id))
    }
}

impl Consent {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let answer = match self {
            Self::List(paging) => {
                resource::list::<ConsentView>(Asked::of(&paging), client, terminal).await?;
                return Ok(Exit::Ok);
            }
            Self::Give { purpose, space, expires, evidence } => {
                let space_id = maybe_id_of::<SpaceView>(space.as_deref(), client).await?;
                // An action id without a prefix is short for the purpose `action:<id>`.
                let purpose = if purpose.contains(':') { purpose } else { format!("action:{purpose}") };
                let request = NewConsentRequest { purpose, space_id, expires_in: expires.as_ref().map(Span::text), evidence };
                client.post(&["consents"], &request).await?
            }
            Self::Withdraw { consent } => client.delete(&["consents", &consent]).await?,
        };
        resource::tell::<ConsentView>(&answer, client, terminal).await?;
        Ok(Exit::Ok)
    }
}
