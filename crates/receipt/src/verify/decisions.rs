//! Checks that a decision follows from the log itself: from the tier, and the mode rows and band in force during the call, and from
//! nothing else. The decision and the digest of the rules behind it must both come from the same moment.
//! Reasons that only make a decision stricter (drift, a gate that required approval, a kill switch) are believed as recorded, because
//! recording a false one would gain nothing.

use super::asked::{asked_at, born_at};
use super::{Class, Finding};
use crate::body::{IntentBody, ModeBody, ReceiptBody, SpaceBody};
use countersign_core::action::Class as TierClass;
use countersign_core::decision::{Drift, Gate, Lock, ModeSource, Reason};
use countersign_core::effect::Purpose;
use countersign_core::switch::SwitchScope;
use countersign_core::{ActionId, Band, Decision, Digest, Mode, PrincipalId, SpaceId, Tier, Timestamp, json};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, VecDeque};

const ORG: &str = "org";

/// How far the clock of the log and the clock of the calls may be apart.
const CLOCKS_APART_SECONDS: i64 = 5;

/// How many changes are kept for each action's rows and for each space. If more happen during a call, its decision cannot be
/// reproduced.
const CHANGES_KEPT: usize = 256;

/// The name of the rules in this file. Rules that decide differently would have another name.
const BUILTIN_RULES: &str = "builtin/v3";
/// Their name at the time when a decision did not yet name the version of the org's rules.
const BUILTIN_RULES_BEFORE: &str = "builtin/v2";

/// The rules in force, and their latest changes.
#[derive(Default)]
pub(super) struct Rules {
    actions: HashMap<ActionId, Rows>,
    spaces: HashMap<SpaceId, Banded>,
    /// The version of the last change of any rule.
    version: Option<i64>,
    last_change_at: Timestamp,
    /// The latest changes of any rule. Each ended the version before it.
    replaced: VecDeque<(i64, Timestamp)>,
    /// Whether any entry so far has named the version of the rules it was decided by.
    names_rules: bool,
}

/// The rows of one action.
#[derive(Default)]
struct Rows {
    in_force: HashMap<String, Row>,
    /// In the order of the log; the oldest are dropped.
    changes: VecDeque<Change<RowBefore>>,
}

/// The band of one space. A space that no entry describes is green.
struct Banded {
    in_force: Band,
    changes: VecDeque<Change<Band>>,
}

impl Default for Banded {
    fn default() -> Self {
        Self { in_force: Band::Green, changes: VecDeque::new() }
    }
}

#[derive(Clone, Copy)]
struct Row {
    mode: Mode,
    lock: Lock,
    version: i64,
}

/// A change, and the value it replaced.
struct Change<B> {
    at: Timestamp,
    /// Orders the changes of rows and bands among each other.
    version: i64,
    before: B,
}

struct RowBefore {
    scope: String,
    row: Option<Row>,
}

/// Whether calls in this profile run code of a package. A profile that is not known does.
pub(super) fn is_package(profile: &str) -> bool {
    !matches!(profile, "in_process" | "resident")
}

/// A decision that an entry claims.
pub(super) struct Claim<'a> {
    decision: &'a Decision,
    tier: Tier,
    /// The profile it was executed in; empty if it was never executed.
    profile: &'a str,
    action: &'a ActionId,
    space: &'a SpaceId,
    principal: &'a PrincipalId,
    /// Absent for an intent, which does not hold it.
    policy_slice: Option<Digest>,
    /// The digest of the org's own policies that concerned the action.
    policies: Option<Digest>,
    asked_at: Timestamp,
    moment: When,
}

/// When the rules that a decision names must have been in force.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// At the position of its entry.
    Now,
    /// At some time since the call was requested.
    SinceAsked,
}

impl<'a> Claim<'a> {
    pub(super) fn of_intent(intent: &'a IntentBody) -> Self {
        let IntentBody { decision, tier, profile, action, space, principal, invocation_id, purpose, .. } = intent;
        Self {
            decision,
            tier: *tier,
            profile,
            action,
            space,
            principal,
            policy_slice: None,
            policies: None,
            asked_at: born_at(invocation_id),
            // A rollback goes on even if the rules have changed since: it removes an effect that should not stay.
            moment: if *purpose == Purpose::Rollback { When::SinceAsked } else { When::Now },
        }
    }

    pub(super) fn of_receipt(receipt: &'a ReceiptBody) -> Self {
        let ReceiptBody { decision, tier, action, space, principal, invocation_id, policy_slice, policies, .. } = receipt;
        // The later of the two times: claiming a long life in only one of them must not bring an old mode back.
        let asked_at = asked_at(receipt).max(born_at(invocation_id));
        Self {
            decision,
            tier: *tier,
            profile: &receipt.sandbox.profile,
            action,
            space,
            principal,
            policy_slice: Some(*policy_slice),
            policies: *policies,
            asked_at,
            moment: When::SinceAsked,
        }
    }

    /// The name of the built-in rules at the time of the decision.
    const fn builtin(&self) -> &'static str {
        match self.decision.rules_version {
            Some(_) => BUILTIN_RULES,
            None => BUILTIN_RULES_BEFORE,
        }
    }

    /// Whether the call was to run a package's code. If the entry names no profile, the decision's own word is believed, because it only
    /// makes the decision stricter.
    fn is_package(&self) -> bool {
        match self.profile {
            "" => self.decision.tightened.contains(&Reason::PackageNeverUnattended),
            profile => is_package(profile),
        }
    }

    fn drift(&self) -> Drift {
        let drifted = self.decision.tightened.iter().find_map(|reason| match reason {
            Reason::Drift { drift } => Some(*drift),
            Reason::DangerIsNeverAllowed
            | Reason::PackageNeverUnattended
            | Reason::Band { .. }
            | Reason::Gate { .. }
            | Reason::Stopped { .. } => None,
        });
        drifted.unwrap_or_default()
    }

    fn asks(&self) -> Option<Gate> {
        self.decision.tightened.iter().find_map(|reason| match reason {
            Reason::Gate { gate } => Some(*gate),
            Reason::DangerIsNeverAllowed
            | Reason::PackageNeverUnattended
            | Reason::Band { .. }
            | Reason::Drift { .. }
            | Reason::Stopped { .. } => None,
        })
    }

    fn stopped(&self) -> Option<&SwitchScope> {
        self.decision.tightened.iter().find_map(|reason| match reason {
            Reason::Stopped { scope } => Some(scope),
            Reason::DangerIsNeverAllowed
            | Reason::PackageNeverUnattended
            | Reason::Band { .. }
            | Reason::Drift { .. }
            | Reason::Gate { .. } => None,
        })
    }
}

impl Rules {
    /// Records a change of a mode row; `at` is the time of its entry.
    pub(super) fn set_mode(&mut self, at: Timestamp, body: ModeBody) -> Result<(), Finding> {
        let ModeBody { scope, action, mode, lock, version, by: _ } = body;
        let at = self.change(at, version)?;
        let Rows { in_force, changes } = self.actions.entry(action).or_default();
        let row = match mode {
            Some(mode) => in_force.insert(scope.clone(), Row { mode, lock, version }),
            None => in_force.remove(&scope),
        };
        keep(changes, Change { at, version, before: RowBefore { scope, row } });
        Ok(())
    }

    /// Records that a space was created or changed.
    pub(super) fn set_space(&mut self, at: Timestamp, body: SpaceBody) -> Result<(), Finding> {
        let SpaceBody { space, band, version, .. } = body;
        let at = self.change(at, version)?;
        let Banded { in_force, changes } = self.spaces.entry(space).or_default();
        let before = std::mem::replace(in_force, band);
        keep(changes, Change { at, version, before });
        Ok(())
    }

    /// Records that some other rule changed.
    pub(super) fn count(&mut self, at: Timestamp, version: i64) -> Result<(), Finding> {
        self.change(at, version).map(|_| ())
    }

    fn change(&mut self, at: Timestamp, version: i64) -> Result<Timestamp, Finding> {
        if self.version.is_some_and(|last| version <= last) {
            return Err(differs(format!("a rule gets version {version}, which does not come after the last change")));
        }
        self.version = Some(version);
        self.last_change_at = self.last_change_at.max(at);
        keep(&mut self.replaced, (version, self.last_change_at));
        Ok(self.last_change_at)
    }

    /// Decides again, by the rules the entry names; if it names none, by the rules of each moment during the call.
    pub(super) fn rederive(&mut self, claim: &Claim<'_>) -> Result<(), Finding> {
        match claim.decision.rules_version {
            Some(version) => {
                self.names_rules = true;
                self.in_force_at(claim, version)?;
                self.rederive_at(claim, version)
            }
            None if self.names_rules => Err(differs("it does not say by which rules, although entries before it do".to_owned())),
            None => self.rederive_between(claim),
        }
    }

    /// Checks that the named rules were in force: now, for an effect about to start; at some time since the request, for a receipt.
    fn in_force_at(&self, claim: &Claim<'_>, version: i64) -> Result<(), Finding> {
        let now = self.version.unwrap_or(0);
        let replaced_at = self.replaced.iter().find(|(later, _)| *later > version).map(|(_, at)| *at);
        let is_in_force = match claim.moment {
            When::Now => version == now,
            When::SinceAsked => {
                let from = claim.asked_at.as_micros().saturating_sub(CLOCKS_APART_SECONDS * 1_000_000);
                version <= now && replaced_at.is_none_or(|at| at.as_micros() >= from)
            }
        };
        if is_in_force {
            return Ok(());
        }
        Err(differs(format!("it was decided by version {version} of the rules, which was not in force; the last is {now}")))
    }

    fn rederive_at(&self, claim: &Claim<'_>, version: i64) -> Result<(), Finding> {
        let (no_rows, green) = (Rows::default(), Banded::default());
        let rows = self.actions.get(claim.action).unwrap_or(&no_rows);
        let banded = self.spaces.get(claim.space).unwrap_or(&green);
        let mut moment = Moment { in_force: &rows.in_force, undone: HashMap::new(), band: banded.in_force };
        for change in rows.changes.iter().rev().take_while(|change| change.version > version) {
            moment.undone.insert(&change.before.scope, change.before.row);
        }
        for change in banded.changes.iter().rev().take_while(|change| change.version > version) {
            moment.band = change.before;
        }
        moment.bears(claim).or_differs(claim)
    }

    /// Decides again by the current rules, then by those of each earlier moment back to the request, until one gives the recorded decision.
    fn rederive_between(&self, claim: &Claim<'_>) -> Result<(), Finding> {
        let (no_rows, green) = (Rows::default(), Banded::default());
        let rows = self.actions.get(claim.action).unwrap_or(&no_rows);
        let banded = self.spaces.get(claim.space).unwrap_or(&green);
        let from = claim.asked_at.as_micros().saturating_sub(CLOCKS_APART_SECONDS * 1_000_000);
        let mut moment = Moment { in_force: &rows.in_force, undone: HashMap::new(), band: banded.in_force };
        let mut found = moment.bears(claim);
        let mut row_changes = rows.changes.iter().rev().take_while(|change| change.at.as_micros() >= from).peekable();
        let mut band_changes = banded.changes.iter().rev().take_while(|change| change.at.as_micros() >= from).peekable();
        while found != Found::Same {
            match (row_changes.peek(), band_changes.peek()) {
                (None, None) => break,
                (Some(row), band) if band.is_none_or(|band| row.version > band.version) => {
                    moment.undone.insert(&row.before.scope, row.before.row);
                    row_changes.next();
                }
                (_, Some(band)) => {
                    moment.band = band.before;
                    band_changes.next();
                }
                (Some(_), None) => break,
            }
            found = found.max(moment.bears(claim));
        }
        found.or_differs(claim)
    }
}

impl Found {
    fn or_differs(self, claim: &Claim<'_>) -> Result<(), Finding> {
        let Claim { decision, tier, action, .. } = claim;
        match self {
            Self::Same => Ok(()),
            Self::OtherSlice => Err(differs(format!("the rules for `{action}` make this decision, but not this `policy_slice`"))),
            Self::OtherDecision => Err(differs(format!(
                "no rule in force while the call lived makes `{action}` at {tier} `{}` by {} as recorded",
                decision.mode,
                decision.source.as_str()
            ))),
        }
    }
}

fn keep<C>(changes: &mut VecDeque<C>, change: C) {
    changes.push_back(change);
    if changes.len() > CHANGES_KEPT {
        changes.pop_front();
    }
}

/// The rules for one action in one space at some moment: the current ones, with later changes undone.
struct Moment<'a> {
    in_force: &'a HashMap<String, Row>,
    undone: HashMap<&'a str, Option<Row>>,
    band: Band,
}

/// How closely the rules of a moment match a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    OtherDecision,
    OtherSlice,
    Same,
}

impl Moment<'_> {
    fn bears(&self, claim: &Claim<'_>) -> Found {
        let with = |automation| found(claim, &Seen { automation, org: self.row(ORG), band: self.band });
        match (claim.principal, claim.decision.source) {
            (PrincipalId::Automation(_), _) => with(self.row(&claim.principal.to_string())),
            // A principal that acts for an automation does not name it, so any automation with a row may be meant.
            (PrincipalId::User(_) | PrincipalId::Agent(_) | PrincipalId::Service(_), ModeSource::AutomationOverride) => {
                self.automations().map(|row| with(Some(row))).max().unwrap_or(Found::OtherDecision)
            }
            (
                PrincipalId::User(_) | PrincipalId::Agent(_) | PrincipalId::Service(_),
                ModeSource::OrgDefault | ModeSource::InferredDefault,
            ) => with(None),
        }
    }

    fn row(&self, scope: &str) -> Option<Row> {
        self.undone.get(scope).copied().unwrap_or_else(|| self.in_force.get(scope).copied())
    }

    fn automations(&self) -> impl Iterator<Item = Row> {
        let kept = self.in_force.iter().filter(|(scope, _)| !self.undone.contains_key(scope.as_str())).map(|(scope, row)| (&**scope, *row));
        let back = self.undone.iter().filter_map(|(scope, row)| row.map(|row| (*scope, row)));
        kept.chain(back).filter(|(scope, _)| *scope != ORG).map(|(_, row)| row)
    }
}

/// The rules that a call saw.
struct Seen {
    automation: Option<Row>,
    org: Option<Row>,
    band: Band,
}

fn found(claim: &Claim<'_>, seen: &Seen) -> Found {
    let decision = Decision {
        rules_version: claim.decision.rules_version,
        ..decide(claim.tier, claim.is_package(), claim.drift(), claim.asks(), seen)
    };
    let decision = match claim.stopped() {
        Some(scope) => decision.at_least(Mode::Deny, Reason::Stopped { scope: scope.clone() }),
        None => decision,
    };
    if decision != *claim.decision {
        return Found::OtherDecision;
    }
    match claim.policy_slice {
        Some(slice) if policy_slice(seen, claim.builtin(), claim.policies) != Some(slice) => Found::OtherSlice,
        Some(_) | None => Found::Same,
    }
}

/// The mode cascade, and what makes it stricter. Written again here, so that a receipt is not checked by the code that made it.
fn decide(tier: Tier, is_package: bool, drift: Drift, asks: Option<Gate>, seen: &Seen) -> Decision {
    let decided = |row: Row, source| Decision::new(row.mode, source, Some(row.version));
    let mut decision = match (seen.automation, seen.org) {
        (Some(row), Some(org)) if org.lock == Lock::Locked && row.mode < org.mode => decided(org, ModeSource::OrgDefault),
        (Some(row), _) => decided(row, ModeSource::AutomationOverride),
        (None, Some(row)) => decided(row, ModeSource::OrgDefault),
        (None, None) => Decision::new(inferred(tier), ModeSource::InferredDefault, None),
    };
    if tier.class() == TierClass::Danger {
        decision = decision.at_least(Mode::RequireApproval, Reason::DangerIsNeverAllowed);
    }
    if is_package && tier >= Tier::R3 {
        decision = decision.at_least(Mode::RequireApproval, Reason::PackageNeverUnattended);
    }
    let (runs_up_to, asks_up_to) = match seen.band {
        Band::Green => (Some(Tier::R4), Tier::R4),
        Band::Amber => (Some(Tier::R1), Tier::R4),
        Band::Red => (Some(Tier::R0), Tier::R3),
        Band::Black => (None, Tier::R0),
    };
    let left = match tier {
        tier if runs_up_to.is_some_and(|most| tier <= most) => Mode::Allow,
        tier if tier <= asks_up_to => Mode::RequireApproval,
        _ => Mode::Deny,
    };
    decision = decision.at_least(left, Reason::Band { band: seen.band });
    if drift != Drift::None {
        decision = decision.at_least(Mode::RequireApproval, Reason::Drift { drift });
    }
    match asks {
        Some(gate) => decision.at_least(Mode::RequireApproval, Reason::Gate { gate }),
        None => decision,
    }
}

/// The mode of an action for which no mode is set.
const fn inferred(tier: Tier) -> Mode {
    match tier.class() {
        TierClass::Read => Mode::Allow,
        TierClass::Write => Mode::RequireApproval,
        TierClass::Danger => Mode::Deny,
    }
}

/// SHA-256 over the rules a call saw. `policy::digest` makes the same text with code of its own; a test in each crate pins it.
fn policy_slice(seen: &Seen, builtin: &'static str, policies: Option<Digest>) -> Option<Digest> {
    policy_slice_text(seen, builtin, policies).map(|text| Digest::new(Sha256::digest(text).into()))
}

fn policy_slice_text(seen: &Seen, builtin: &'static str, policies: Option<Digest>) -> Option<String> {
    #[derive(Serialize)]
    struct Slice {
        automation: Option<SliceRow>,
        band: Band,
        org: Option<SliceRow>,
        #[serde(skip_serializing_if = "Option::is_none")]
        policies: Option<Digest>,
        rules: &'static str,
    }
    #[derive(Serialize)]
    struct SliceRow {
        lock: Lock,
        mode: Mode,
        version: String,
    }
    let row = |row: Row| SliceRow { lock: row.lock, mode: row.mode, version: row.version.to_string() };
    let (automation, org) = (seen.automation.map(row), seen.org.map(row));
    json::canonical(&Slice { automation, band: seen.band, org, policies, rules: builtin }).ok()
}

fn differs(reason: String) -> Finding {
    Finding::new(Class::DecisionNotReproduced, reason)
}

#[cfg(test)]
#[path = "decisions_tests.rs"]
mod tests;
