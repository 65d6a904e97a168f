//! What an approval does beyond letting this one call run: nothing, a mode `allow` for all later calls, or a grant within limits. The
//! command says which before it does it.

mod standing;

use crate::commands::sum;
use crate::output::Consent;
use crate::shared::*;
use crate::style::time;
use api::invocation::{ApproveMode, GrantOfferRequest, GrantScopeName, InvocationView};
use api::rules::SumMaxRequest;
use clap::{Args, ValueEnum};
use countersign_core::Amount;
use countersign_core::limits::GRANT_SECONDS_DEFAULT;

#[derive(Debug, Args)]
pub(super) struct Beyond {
    /// Also set the action's mode to allow; a band, a locked mode or a gate may still need approval
    #[arg(long, conflicts_with = "grant")]
    always: bool,
    /// Also give a grant for more calls of this action
    #[arg(long)]
    grant: bool,
    /// Whose calls the grant is for; this session's when absent
    #[arg(long, value_enum, value_name = "SCOPE", requires = "grant")]
    scope: Option<Scope>,
    /// Calls the grant is good for; any number when absent
    #[arg(long, value_name = "N", requires = "grant", value_parser = clap::value_parser!(u32).range(1..))]
    calls: Option<u32>,
    /// How much of a param its calls may add up to, such as 500 or 12.50
    #[arg(long, value_name = "AMOUNT", requires = "grant", requires = "of", requires = "per", value_parser = sum::amount)]
    sum_max: Option<Amount>,
    /// The param that is added up, as a JSON pointer such as /amount
    #[arg(long, value_name = "POINTER", requires = "sum_max")]
    of: Option<String>,
    /// The time in which it is added up, such as 24h
    #[arg(long, value_name = "TIME", requires = "sum_max", value_parser = Span::parse)]
    per: Option<Span>,
    /// How long the grant lasts, such as 2h; 24h when absent
    #[arg(long, value_name = "TIME", requires = "grant", value_parser = Span::parse)]
    expires: Option<Span>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Scope {
    Session,
    Automation,
    Org,
}

impl Beyond {
    pub(super) const fn is_more_than_once(&self) -> bool {
        self.always || self.grant
    }

    pub(super) fn request(&self) -> (ApproveMode, Option<GrantOfferRequest>) {
        if self.always {
            return (ApproveMode::Always, None);
        }
        if !self.grant {
            return (ApproveMode::Once, None);
        }
        let scope = match self.scope {
            Some(Scope::Session) | None => GrantScopeName::Session,
            Some(Scope::Automation) => GrantScopeName::Automation,
            Some(Scope::Org) => GrantScopeName::Org,
        };
        let expires_in = self.expires.as_ref().map(Span::text);
        let sum_max = self.sum_max();
        (ApproveMode::Grant, Some(GrantOfferRequest { scope, calls_max: self.calls, max_calls: None, sum_max, expires_in }))
    }

    fn sum_max(&self) -> Option<SumMaxRequest> {
        sum::request(self.sum_max, self.of.as_deref(), self.per.as_ref())
    }

    /// Says what the server will store besides the approval, and continues if the user agrees.
    pub(super) async fn agreed(
        &self,
        shown: &InvocationView,
        consent: Consent,
        client: &Client,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let automation = if self.always { standing::automation_of(shown, client).await } else { None };
        let Some(written) = self.written(shown, automation.as_deref(), terminal) else { return Ok(()) };
        terminal.remark(format!("{} {written}", Tone::Warn.paint("! beyond this call:")));
        if self.always {
            for asking in standing::still_asks(shown, automation.as_deref(), client).await {
                terminal.remark(format!("{} {asking}", Tone::Warn.paint("! still needs approval:")));
            }
        }
        let question = if self.always { "Approve it, and every call like it?" } else { "Approve it, and give this grant?" };
        terminal.consent(question, consent).await
    }

    fn written(&self, shown: &InvocationView, automation: Option<&str>, terminal: &Terminal) -> Option<String> {
        let action = clean::line(&shown.action);
        if self.always {
            let whose = automation.map_or_else(|| "the org".to_owned(), |automation| format!("automation {}", clean::line(automation)));
            return Some(format!("mode of {action} becomes allow for {whose}"));
        }
        if !self.grant {
            return None;
        }
        let whose = match self.scope {
            Some(Scope::Session) | None => format!("in session {}", clean::line(&shown.session_id)),
            Some(Scope::Automation) => format!("by the automation of session {}", clean::line(&shown.session_id)),
            Some(Scope::Org) => "by anybody in the org".to_owned(),
        };
        let calls = match self.calls {
            Some(calls) => counted(calls, "call", "calls"),
            None => "any number of calls".to_owned(),
        };
        let sum = self.sum_max().map(|sum| format!(", {} of {} per {} in sum", sum.max, clean::line(&sum.of), sum.per)).unwrap_or_default();
        let now = terminal.now();
        let until = self.expires.as_ref().map_or_else(|| now.plus_seconds(GRANT_SECONDS_DEFAULT), |span| span.from(now));
        Some(format!("a grant for {action} {whose}, {calls}{sum}, until {}", time::utc(until)))
    }
}
