//! The story. A chapter is a few calls of the agent, and the sentence that it ends with.

mod automation;
mod dead_letter;

use super::end::End;
use super::stage::{Call, Stage, Verdict};
use super::tamper;
use crate::commands::outcome;
use crate::shared::*;
use api::invocation::{InvocationView, ReceiptRefView, TightenedBy};
use api::rules::ReviewView;
use countersign_core::{Mode, Status};
use serde_json::{Value, json};

const MERGE: &str = "github.merge_pull_request";
/// The calls of the grant in the third chapter.
const GRANTED: u32 = 3;

pub(super) struct Story<'a> {
    stage: &'a Stage,
    is_script: bool,
    terminal: &'a mut Terminal,
    /// Every chapter that ended, for a document.
    ended: Vec<Value>,
}

impl<'a> Story<'a> {
    pub(super) fn new(stage: &'a Stage, is_script: bool, terminal: &'a mut Terminal) -> Self {
        Self { stage, is_script, terminal, ended: Vec::new() }
    }

    /// Tells all chapters. A script fails at the first that does not end as told.
    pub(super) async fn tell(mut self) -> Result<(), Failure> {
        let (end, refund) = self.approve().await?;
        self.end("approve", end)?;
        let end = self.deny().await?;
        self.end("deny", end)?;
        let end = self.grant().await?;
        self.end("grant", end)?;
        let end = self.drift().await?;
        self.end("drift", end)?;
        let (end, automation) = self.automation().await?;
        self.end("automation", end)?;
        let end = self.run(&automation).await?;
        self.end("run", end)?;
        let end = self.dead_letter().await?;
        self.end("dead_letter", end)?;
        let end = self.in_doubt().await?;
        self.end("in_doubt", end)?;
        self.says("Everything so far is in the audit log. Somebody flips one byte in a copy of it.");
        let end = tamper::play(self.stage, &refund).await?;
        self.end("tamper", end)?;
        if self.terminal.is_document() { self.terminal.document(&json!({ "chapters": self.ended })) } else { Ok(()) }
    }

    /// A read runs at once. A write waits for a person, who sees exactly what would be done.
    async fn approve(&mut self) -> Result<(End, ReceiptRefView), Failure> {
        self.says("An agent answers customers. It may read; to pay money back, it has to ask.");
        let read = Call::new("crm.find_customer", json!({ "customer": "C-1041" }), "their order never came");
        let read = self.asks(read, "approve it", Verdict::Approve).await?;
        let refund = self.asks(refund("C-1041", 240), "press A in the inbox", Verdict::Approve).await?;
        let receipt = refund.receipt.clone().ok_or_else(|| Failure::failed(format!("`{}` has no receipt", refund.id)))?;
        let is_as_told = read.status == Status::Succeeded && refund.status == Status::Succeeded && refund.answer.is_some();
        let words =
            format!("the agent read at once; its refund of 240 EUR waited for a person, ran once, and has receipt #{}", receipt.seq);
        Ok((End::told(is_as_told, words, &refund), receipt))
    }

    /// What destroys is denied, and the denial says by which rule.
    async fn deny(&mut self) -> Result<End, Failure> {
        self.says("The agent wants to tidy up.");
        let delete = Call::new("crm.delete_customer", json!({ "customer": "C-1041" }), "the case is closed");
        let denied = self.asks(delete, "deny it", Verdict::Deny { reason: "customers are not deleted" }).await?;
        let why = denied.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
        Ok(End::told(denied.status == Status::Denied && denied.decision.mode == Mode::Deny, why, &denied))
    }

    /// A grant replaces approvals, within bounds.
    async fn grant(&mut self) -> Result<End, Failure> {
        self.says("Small refunds keep coming. Trust the agent with three more, and no further.");
        self.asks(refund("C-1042", 20), "press G, and give a grant for 3 calls", Verdict::Grant { calls: GRANTED }).await?;
        let mut used = 0;
        for (customer, amount) in [("C-1043", 15), ("C-1044", 30), ("C-1045", 45)] {
            let call = self.asks(refund(customer, amount), "no grant covers it: decide as you like", Verdict::Approve).await?;
            if call.grant_id.is_some() {
                used += 1;
                self.says(&format!("The grant answered for you: {used} of {GRANTED} calls are used."));
            }
        }
        let deny = Verdict::Deny { reason: "enough for today" };
        let next = self.asks(refund("C-1046", 25), "the grant is used up: press D, and say why", deny).await?;
        let is_as_told = used == GRANTED && next.grant_id.is_none() && next.answer.is_some();
        let words =
            format!("{used} of {GRANTED} calls of the grant ran without a person; the next waited for one again, and was {}", next.status);
        Ok(End::told(is_as_told, words, &next))
    }

    /// A definition that changes underneath asks again, whatever the mode says.
    async fn drift(&mut self) -> Result<End, Failure> {
        self.says("Merging pull requests is allowed. Then the server of `github` changes what a merge can do.");
        let before = self.asks(merge(7), "approve it", Verdict::Approve).await?;
        self.stage.upstream.let_merges_bypass_checks();
        let owner = &self.stage.owner;
        owner.post_empty::<Value>(&["sources", "github", "refresh"]).await?;
        let changes = owner.get::<ReviewView>(&["reviews", MERGE], &[]).await?.read.changes;
        let change = changes.into_iter().map(|change| change.summary).find(|summary| summary.contains("bypass_checks"));
        let after = self.asks(merge(8), "its card shows what changed", Verdict::Approve).await?;
        let decision = &after.decision;
        let is_as_told = before.status == Status::Succeeded && change.is_some() && decision.tightened_by.contains(&TightenedBy::Drift);
        let words = format!("`{}` became `{}`: {}", decision.base, decision.mode, change.unwrap_or_default());
        Ok(End::told(is_as_told, words, &after))
    }

    /// Nobody saw how a call ended: it is not repeated until somebody knows.
    async fn in_doubt(&mut self) -> Result<End, Failure> {
        self.says("The agent posts its report, and `chat` dies in the middle of the call.");
        self.stage.upstream.hang_up_once();
        let report = || Call { idempotency_key: Some("report-of-today"), ..post("5 refunds today") };
        let doubted = self.asks(report(), "approve it", Verdict::Approve).await?;
        let again = self.asks(report(), "approve it", Verdict::Approve).await?;
        self.says("The agent asked once more, with the same key. The answer is the same, and nothing was sent again.");
        let channel = Call::new("chat.read_channel", json!({ "channel": "support" }), "is the report there?");
        self.asks(channel, "approve it", Verdict::Approve).await?;
        if self.is_script {
            self.stage.settle(&doubted.id, "the report is in the channel, once").await?;
        } else {
            self.says("The report is in the channel.");
            self.advises(&format!("say so in the inbox, under “To settle”, on {}", self.stage.page("")));
            self.terminal.next(format!("countersign invocation settle {} --as succeeded --reason 'it is in the channel'", doubted.id));
        }
        let settled = self.stage.wait_out_doubt(&doubted.id).await?;
        let posts = self.stage.upstream.posts();
        let is_unsent = doubted.status == Status::InDoubt && again.id == doubted.id && posts == 1;
        let words = format!(
            "`chat` died in the middle of the call, which was in doubt, then settled as {} by a person; posted once",
            settled.status
        );
        Ok(End::told(is_unsent && settled.status == Status::Succeeded, words, &settled))
    }

    /// The agent asks, and waits if it has to. Then a person decides: in a script as `verdict` says, otherwise as they like.
    async fn asks(&mut self, call: Call, advice: &str, verdict: Verdict) -> Result<InvocationView, Failure> {
        self.says(&format!("agent: {} {} “{}”", call.action, call.params, call.reason));
        let asked = self.stage.ask(&call).await?;
        let ended = if asked.status == Status::Pending { self.waits(&asked, advice, verdict).await? } else { asked };
        self.terminal.remark(outcome::line(&ended));
        if let Some(why) = ended.error.as_ref().filter(|_| ended.status == Status::Denied) {
            self.says(&format!("why: {}", why.message));
        }
        Ok(ended)
    }

    async fn waits(&mut self, asked: &InvocationView, advice: &str, verdict: Verdict) -> Result<InvocationView, Failure> {
        if self.is_script {
            self.stage.decide(asked, verdict).await?;
        } else {
            self.advises(advice);
            self.terminal.next(verdict.command(&clean::line(&asked.id)));
        }
        self.stage.wait(&asked.id).await
    }

    fn says(&mut self, text: &str) {
        self.terminal.remark(clean::line(text));
    }

    /// What the person may do now.
    fn advises(&mut self, advice: &str) {
        self.terminal.remark(format!("{} {}", Tone::Warn.paint("◷ it waits for you:"), clean::line(advice)));
    }

    fn end(&mut self, chapter: &str, end: End) -> Result<(), Failure> {
        let (is_as_told, words) = (end.is_as_told, clean::line(&end.words));
        if self.is_script && !is_as_told {
            return Err(Failure::failed(format!("the chapter `{chapter}` did not end as told: {words}")));
        }
        self.ended.push(json!({ "chapter": chapter, "as_told": is_as_told, "words": words }));
        if self.terminal.is_document() {
            return Ok(());
        }
        let mark = if is_as_told { Tone::Ok.paint("✓") } else { Tone::Warn.paint("!") };
        self.terminal.line(format!("{mark} {chapter}: {words}"))
    }
}

impl Call {
    fn new(action: &'static str, params: Value, reason: &'static str) -> Self {
        Self { action, params, reason, idempotency_key: None }
    }
}

fn refund(customer: &str, amount: u32) -> Call {
    let params = json!({ "customer": customer, "amount": amount, "currency": "EUR" });
    Call::new("crm.refund", params, "the order was paid and not delivered")
}

fn merge(number: u32) -> Call {
    Call::new(MERGE, json!({ "repository": "shop", "number": number }), "its checks are green")
}

fn post(text: &str) -> Call {
    Call::new("chat.post_message", json!({ "channel": "support", "text": text }), "the team reads it")
}
