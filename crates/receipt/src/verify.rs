//! Verifies a bundle offline, with nothing but the pinned key: `verify` says whether every line is what it claims to be.
//! It reads line by line, stops at the first problem, and reports its class, place and reason.
//! This file holds the order of the checks; each kind of check has its own file below.

mod report;

mod chain;

mod keys;

mod asked;

mod decisions;

mod outcomes;

mod batches;

mod standing;

mod people;

mod prices;

mod makers;

mod answers;

mod definitions;

mod events;

mod checkpoints;

use crate::Error;
use crate::body::{
    AnswerBody, BatchBody, Body as _, IdentityBody, IntentBody, KeyBody, ModeBody, ReceiptBody, RuleBody, RuleChange, SpaceBody,
};
use crate::bundle::{Line, Opening, Tally, VERSION};
use crate::entry::{Entry, Header, Kind};
use crate::envelope::Envelope;
use crate::key::PublicKey;
use answers::Answers;
use chain::Chain;
use checkpoints::Checkpoints;
use countersign_core::principal::Permission;
use countersign_core::{Digest, LogId, json};
use decisions::{Claim, Rules};
use definitions::Definitions;
use events::Events;
use keys::Keys;
use outcomes::Outcomes;
use people::People;
use prices::Prices;
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use serde_json::Value;
use standing::Standing;
use std::fmt::Display;

use report::entries;
pub use report::{Class, Finding, Head, Report};

/// Verifies a bundle, given as its lines without their newlines. `pinned` is the receipt key of seq 0, which the reader got elsewhere.
/// `retained` is a checkpoint note that the reader kept from earlier; without one, a rewritten past cannot be detected.
pub fn verify<E: Display>(lines: impl IntoIterator<Item = Result<String, E>>, pinned: &PublicKey, retained: Option<&str>) -> Report {
    let mut lines = lines.into_iter();
    match open(&mut lines) {
        Ok((log, tally)) => {
            let mut verifier = Verifier::new(log, tally, pinned);
            let first_bad = verifier.walk(&mut lines, retained).err();
            verifier.report(first_bad)
        }
        Err(finding) => Report { first_bad: Some(finding), lines: 1, ..Report::default() },
    }
}

struct Verifier {
    tally: Tally,
    chain: Chain,
    keys: Keys,
    rules: Rules,
    outcomes: Outcomes,
    standing: Standing,
    people: People,
    prices: Prices,
    answers: Answers,
    definitions: Definitions,
    events: Events,
    checkpoints: Checkpoints,
    report: Report,
}

impl Verifier {
    fn new(log: LogId, tally: Tally, pinned: &PublicKey) -> Self {
        Self {
            tally,
            checkpoints: Checkpoints::new(&log),
            chain: Chain::new(log),
            keys: Keys::new(pinned.clone()),
            rules: Rules::default(),
            outcomes: Outcomes::default(),
            standing: Standing::default(),
            people: People::default(),
            prices: Prices::default(),
            answers: Answers::default(),
            definitions: Definitions::default(),
            events: Events::default(),
            report: Report { lines: 1, ..Report::default() },
        }
    }

    fn walk<E: Display>(&mut self, lines: &mut impl Iterator<Item = Result<String, E>>, retained: Option<&str>) -> Result<(), Finding> {
        loop {
            let text = self.next(lines)?.ok_or_else(|| Finding::new(Class::TruncatedTail, "the bundle stops before its `end` line"))?;
            match read(&text).map_err(|finding| broken_off(finding, &text, lines))? {
                Line::Entry { seq, envelope } => self.entry(&seq, &envelope).map_err(|finding| self.deleted_or_moved(finding, lines))?,
                Line::Definition { digest, body } => self.definitions.archive(digest, &body)?,
                Line::Event { event_id: _, name, receipt_id, invocation_id } => self.events.tell(name, receipt_id, invocation_id)?,
                Line::Checkpoint { note } => self.checkpoints.check(&note, &self.chain, &self.keys)?,
                Line::End { entries, sha256 } => {
                    if self.next(lines)?.is_some() {
                        return Err(Finding::new(Class::InsertedOrReordered, "a line stands after the `end` line"));
                    }
                    return self.end(&entries, sha256, retained);
                }
            }
            self.tally.add_bytes(text.as_bytes());
            self.tally.add_bytes(b"\n");
        }
    }

    /// Reads the next line. It also counts a line that cannot be read, because that is the place of the problem.
    fn next<E: Display>(&mut self, lines: &mut impl Iterator<Item = Result<String, E>>) -> Result<Option<String>, Finding> {
        let line = next(lines);
        self.report.lines += u64::from(!matches!(line, Ok(None)));
        line
    }

    /// Checks one entry: its label, its signature, its place, then its content.
    fn entry(&mut self, label: &str, envelope: &Envelope) -> Result<(), Finding> {
        let label = parse_seq(label)?;
        self.chain.expects(label)?;
        self.sealed_entry(envelope).map_err(|finding| {
            let Some(Entry { header, body }) = peek(envelope) else { return finding.at(label) };
            // A payload that names another place was not edited: it belongs to another entry.
            let finding = if finding.is(Class::EditedBody) && !self.chain.fits(&header, label) {
                Finding::new(Class::SwappedPayload, "the envelope holds the payload of another entry")
            } else {
                finding
            };
            finding.at(label).within(&body)
        })
    }

    fn sealed_entry(&mut self, envelope: &Envelope) -> Result<(), Finding> {
        let payload = self.keys.open(envelope)?;
        let entry = Entry::parse(&payload).map_err(shape)?;
        self.chain.follows(&entry.header)?;
        let header = &entry.header;
        let seq = header.seq;
        match header.kind {
            Kind::Key => self.keys.announce(seq, &KeyBody::read(&entry.body).map_err(shape)?)?,
            Kind::Mode | Kind::Space | Kind::Rule | Kind::Identity | Kind::Answer | Kind::Intent | Kind::Receipt | Kind::Batch
                if seq == 0 =>
            {
                return Err(Finding::new(Class::WrongKey, "the log does not begin with the keys that sign it"));
            }
            Kind::Mode => {
                let body = ModeBody::read(&entry.body).map_err(shape)?;
                if !self.answers.permit(seq, Some(&body.by)) {
                    self.people.may(header.judged_at(), Some(&body.by), Permission::ManagePolicy)?;
                }
                self.rules.set_mode(header.at, body)?;
            }
            Kind::Space => {
                let body = SpaceBody::read(&entry.body).map_err(shape)?;
                self.people.may(header.judged_at(), Some(&body.by), Permission::ManagePolicy)?;
                self.standing.set_space(&body);
                self.rules.set_space(header.at, body)?;
            }
            Kind::Rule => self.rule(header, RuleBody::read(&entry.body).map_err(shape)?)?,
            Kind::Identity => self.people.change(header, IdentityBody::read(&entry.body).map_err(shape)?)?,
            Kind::Answer => {
                self.answers.answer(&self.people, header, AnswerBody::read(&entry.body).map_err(shape)?)?;
                self.report.answers += 1;
            }
            Kind::Intent => self.intent(header, &IntentBody::read(&entry.body).map_err(shape)?)?,
            Kind::Receipt => self.receipt(header, &ReceiptBody::read(&entry.body).map_err(shape)?)?,
            Kind::Batch => {
                let body = BatchBody::read(&entry.body).map_err(shape)?;
                self.outcomes.conclude_batch(&body)?;
                self.events.expect_batch(header, &body);
                self.report.batches += 1;
            }
        }
        self.events.pass(header);
        self.chain.append(header, &payload);
        Ok(())
    }

    fn rule(&mut self, header: &Header, body: RuleBody) -> Result<(), Finding> {
        self.rules.count(header.at, body.version)?;
        let is_permitted = matches!(body.change, RuleChange::Reviewed { .. }) && self.answers.permit(header.seq, body.by.as_ref());
        // Countersign itself repeats what is in force, so that a signed time follows the events that it forgets.
        let is_repeated =
            matches!(&body.change, RuleChange::RetentionSet { retention } if body.by.is_none() && self.events.are_kept_for(*retention));
        if !is_permitted && !is_repeated {
            self.people.may_change(header, &body)?;
        }
        if let RuleChange::RoleChanged { user, role } = &body.change {
            self.people.change_role(header, body.by.as_ref(), user, *role)?;
        }
        if let RuleChange::AutomationSet { automation, version, .. } = &body.change {
            self.people.save(body.by.as_ref(), automation, *version);
        }
        if let RuleChange::RetentionSet { retention } = &body.change {
            self.events.keep_for(*retention);
        }
        if let RuleChange::PriceSet { action, price } = &body.change {
            self.prices.set(body.version, action.clone(), price.clone());
        }
        self.standing.change(body.by.as_ref(), body.change)
    }

    fn intent(&mut self, header: &Header, intent: &IntentBody) -> Result<(), Finding> {
        let seq = header.seq;
        self.rules.rederive(&Claim::of_intent(intent))?;
        self.outcomes.intend(seq, intent)?;
        self.standing.allows(header.judged_at(), intent, self.people.owner_of(intent)?)?;
        // Every later attempt has the same approval, whatever the space has come to ask for.
        if let (Some(approval), 1) = (&intent.approval, intent.attempt) {
            self.answers.begin(seq, &intent.invocation_id, approval, self.standing.quorum(&intent.space, intent.tier))?;
        }
        self.definitions.need(seq, &intent.definition, &intent.action, intent.tier);
        self.report.intents += 1;
        Ok(())
    }

    fn receipt(&mut self, header: &Header, receipt: &ReceiptBody) -> Result<(), Finding> {
        self.outcomes.conclude(receipt)?;
        self.rules.rederive(&Claim::of_receipt(receipt))?;
        self.outcomes.same_right(receipt)?;
        self.standing.settle(receipt)?;
        self.prices.fits(receipt)?;
        self.answers.end(receipt)?;
        self.definitions.need(header.seq, &receipt.definition, &receipt.action, receipt.tier);
        self.events.expect(header, receipt);
        self.report.receipts += 1;
        self.report.artifacts_unchecked += receipt.artifacts.len() as u64;
        Ok(())
    }

    /// The checks that are possible only after everything has been read.
    fn end(&mut self, written: &str, sha256: Digest, retained: Option<&str>) -> Result<(), Finding> {
        let claimed = parse_seq(written)?;
        let counted = self.chain.size();
        if counted == 0 && claimed == 0 {
            return Err(Finding::new(Class::TruncatedTail, "the bundle holds no entry, and a log begins with the keys that sign it"));
        }
        if counted < claimed {
            return Err(Finding::new(Class::TruncatedTail, format!("{counted} of {} are left", entries(claimed))));
        }
        if counted > claimed {
            return Err(Finding::new(Class::InsertedOrReordered, format!("{} where {claimed} were written", entries(counted))));
        }
        self.checkpoints.finish(&self.chain, &self.keys)?;
        if let Some(note) = retained {
            self.checkpoints.check_retained(note, &self.chain, &self.keys)?;
        }
        self.definitions.finish()?;
        self.events.finish()?;
        let uncovered = counted.saturating_sub(self.checkpoints.covered().unwrap_or(0));
        if uncovered > 0 {
            let last = if uncovered == 1 { "entry".to_owned() } else { format!("{uncovered} entries") };
            let reason = format!("no checkpoint covers the last {last}, and a bundle ends with one of all it holds");
            return Err(Finding::new(Class::TruncatedTail, reason).at(counted - uncovered));
        }
        // This check comes last: every other finding says more than that some byte was changed.
        if self.tally.sha256() != sha256 {
            return Err(Finding::new(Class::EditedBody, "the lines are not the ones the `end` line was made for"));
        }
        Ok(())
    }

    /// A missing entry was deleted, unless it turns up further down; then it was moved.
    fn deleted_or_moved<E>(&self, finding: Finding, rest: &mut impl Iterator<Item = Result<String, E>>) -> Finding {
        let missing = self.chain.size();
        let is_missing = |text: String| match read(&text) {
            Ok(Line::Entry { seq, envelope }) => {
                peek(&envelope).map_or_else(|| seq == missing.to_string(), |entry| entry.header.seq == missing)
            }
            Ok(_) | Err(_) => false,
        };
        if finding.is(Class::DeletedEntry) && rest.map_while(Result::ok).any(is_missing) {
            return Finding::new(Class::InsertedOrReordered, format!("entry {missing} stands too late")).at(missing);
        }
        finding
    }

    fn report(self, first_bad: Option<Finding>) -> Report {
        let mut report = self.report;
        report.ok = first_bad.is_none();
        report.entries = self.chain.size();
        report.head = self.chain.head();
        report.checkpoints = self.checkpoints.checked();
        report.open_intents = self.outcomes.open();
        report.first_bad = first_bad;
        if report.ok {
            report.warn();
        }
        report
    }
}

/// Reads the first line.
fn open<E: Display>(lines: &mut impl Iterator<Item = Result<String, E>>) -> Result<(LogId, Tally), Finding> {
    let text = next(lines)?.ok_or_else(|| Finding::new(Class::Unreadable, "the bundle is empty"))?;
    let value = strict(&text)?;
    let version =
        value.get("countersign_bundle").ok_or_else(|| Finding::new(Class::Unreadable, "the first line is not that of a bundle"))?;
    if version != VERSION {
        return Err(Finding::new(Class::UnknownShape, format!("the bundle has version {version}, expected {VERSION}")));
    }
    let opening = Opening::deserialize(value).map_err(|error| Finding::new(Class::UnknownShape, format!("the first line: {error}")))?;
    let mut tally = Tally::new();
    tally.add_bytes(text.as_bytes());
    tally.add_bytes(b"\n");
    Ok((opening.log, tally))
}

fn next<E: Display>(lines: &mut impl Iterator<Item = Result<String, E>>) -> Result<Option<String>, Finding> {
    lines.next().transpose().map_err(|error| Finding::new(Class::Unreadable, format!("the bundle could not be read: {error}")))
}

fn read(text: &str) -> Result<Line, Finding> {
    Line::deserialize(strict(text)?).map_err(|error| Finding::new(Class::UnknownShape, format!("a line of the bundle: {error}")))
}

/// If the last line is unfinished, the bundle was cut off, for instance by a copy that stopped half-way. Any other bad line was written
/// wrongly.
fn broken_off<E>(finding: Finding, text: &str, rest: &mut impl Iterator<Item = Result<String, E>>) -> Finding {
    let is_unfinished = || serde_json::from_str::<IgnoredAny>(text).is_err_and(|error| error.is_eof());
    let is_cut = finding.is(Class::NotCanonical) && is_unfinished() && rest.next().is_none();
    if is_cut { Finding::new(Class::TruncatedTail, "the last line breaks off") } else { finding }
}

fn strict(text: &str) -> Result<Value, Finding> {
    json::parse_strict(text.as_bytes()).map_err(|error| Finding::new(Class::NotCanonical, format!("a line of the bundle: {error}")))
}

/// The content of an envelope, without any check. It may only be used to say where a problem is, never that something is right.
fn peek(envelope: &Envelope) -> Option<Entry> {
    envelope.peek().ok().and_then(|payload| Entry::parse(&payload).ok())
}

/// Parses a seq or a count, which must be written in its one canonical way.
fn parse_seq(text: &str) -> Result<u64, Finding> {
    let seq = text.parse::<u64>().ok().filter(|seq| seq.to_string() == text);
    seq.ok_or_else(|| Finding::new(Class::UnknownShape, format!("`{text}` is not a position in a log")))
}

/// The finding for something that cannot be read.
fn shape(error: Error) -> Finding {
    let class = match &error {
        Error::NotStrict { .. } | Error::NotCanonical { .. } | Error::NotBase64 { .. } => Class::NotCanonical,
        Error::PayloadType { .. } => Class::SwappedPayload,
        Error::UnknownKey { .. } => Class::WrongKey,
        Error::WrongSignature { .. } => Class::EditedBody,
        Error::NotAKey | Error::WeakKey { .. } | Error::LaxSignature { .. } => Class::LaxSignature,
        Error::OtherOrigin { .. } => Class::OtherLog,
        Error::NotANote { .. } | Error::OutsideTree { .. } | Error::MissingNode { .. } | Error::WrongProof => Class::ForgedRoot,
        Error::UnknownShape { .. } => Class::UnknownShape,
    };
    Finding::new(class, error.to_string())
}

#[cfg(test)]
#[path = "verify/verify_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "verify/standing_tests.rs"]
mod standing_tests;

#[cfg(test)]
#[path = "verify/batches_tests.rs"]
mod batches_tests;

#[cfg(test)]
#[path = "verify/both_tests.rs"]
mod both_tests;
