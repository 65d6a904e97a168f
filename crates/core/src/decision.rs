//! The decision about a call, and everything that led to it.

use crate::action::{Class, Profile};
use crate::switch::SwitchScope;
use crate::{Band, Mode, Tier};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Where the mode of a call comes from, before anything made it stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeSource {
    AutomationOverride,
    OrgDefault,
    InferredDefault,
}

crate::words!(ModeSource { AutomationOverride = "automation_override", OrgDefault = "org_default", InferredDefault = "inferred_default" });

impl ModeSource {
    /// For people, after the mode, as in: `deny`, set for the org.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::AutomationOverride => "set for the automation",
            Self::OrgDefault => "set for the org",
            Self::InferredDefault => "inferred from the tier",
        }
    }
}

/// Whether an automation's row may be looser than the org's row for the same action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lock {
    #[default]
    Open,
    /// Automations can only tighten it.
    Locked,
}

/// How an action's definition differs from the one a person reviewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Drift {
    #[default]
    None,
    /// Its texts differ: descriptions, titles, annotations. Agents follow these texts.
    Textual,
    /// What a call does or needs differs: schemas, tier, effects, permissions, hosts, code or isolation.
    Structural,
    /// Nobody has reviewed it: it appeared after the other actions of its source were reviewed.
    Appeared,
}

crate::words!(Drift { None = "none", Textual = "textual", Structural = "structural", Appeared = "appeared" });

/// Why a decision is stricter than its base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Reason {
    /// An explicit mode row can make an R4 action approvable, but never `allow`.
    DangerIsNeverAllowed,
    /// An R3 or R4 action of a package never runs without a person's approval.
    PackageNeverUnattended,
    /// The band of the space is stricter.
    Band { band: Band },
    /// The definition is not the one that was reviewed, or nobody has reviewed it and somebody has to.
    Drift { drift: Drift },
    /// A gate requires an approval.
    Gate { gate: Gate },
    /// A kill switch is on.
    Stopped { scope: SwitchScope },
}

impl Reason {
    /// Why an action never runs without approval, whatever its mode; `None` if its mode decides.
    pub fn never_unattended(tier: Tier, profile: Profile) -> Option<Self> {
        if tier.class() == Class::Danger {
            Some(Self::DangerIsNeverAllowed)
        } else if tier >= Tier::R3 && profile.is_package() {
            Some(Self::PackageNeverUnattended)
        } else {
            None
        }
    }
}

/// The text that people read. The inbox card, the explanation and the what-if use the same one.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DangerIsNeverAllowed => f.write_str("an R4 action is never allowed without a person"),
            Self::PackageNeverUnattended => f.write_str("a package's R3 or R4 action never runs without a person"),
            Self::Band { band } => write!(f, "the band of the space is {}", band.as_str()),
            Self::Drift { drift: Drift::Appeared } => {
                f.write_str("the action appeared after its source was reviewed, and nobody has reviewed it")
            }
            Self::Drift { drift: drift @ (Drift::None | Drift::Textual | Drift::Structural) } => {
                write!(f, "the definition changed since it was reviewed ({})", drift.as_str())
            }
            Self::Gate { gate } => write!(f, "gate `{}` requires approval", gate.as_str()),
            Self::Stopped { scope } => write!(f, "a kill switch on `{scope}` is on"),
        }
    }
}

/// A mode with what decided it and why. After its base mode is set, it can only become stricter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The mode the cascade found, before anything tightened it.
    pub base: Mode,
    pub mode: Mode,
    /// The version of the mode row that decided; `None` if the mode was inferred.
    pub modes_version: Option<i64>,
    /// The version of the org's rules that the decision was made under; `None` in decisions from before rules had versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_version: Option<i64>,
    pub source: ModeSource,
    /// Everything that raised the mode above `base`, in order.
    pub tightened: Vec<Reason>,
}

impl Decision {
    pub const fn new(base: Mode, source: ModeSource, modes_version: Option<i64>) -> Self {
        Self { mode: base, base, source, modes_version, rules_version: None, tightened: Vec::new() }
    }

    /// Sets the version of the org's rules that the decision was made under.
    #[must_use]
    pub const fn under(mut self, rules_version: i64) -> Self {
        self.rules_version = Some(rules_version);
        self
    }

    /// Half a sentence about what decided: the last reason that made it stricter, or else where the mode comes from.
    pub fn because(&self) -> String {
        match self.tightened.last() {
            Some(reason) => reason.to_string(),
            None => format!("the mode is `{}`, {}", self.mode, self.source.in_words()),
        }
    }

    /// Raises the mode to `floor` and remembers why. It cannot loosen.
    #[must_use]
    pub fn at_least(mut self, floor: Mode, reason: Reason) -> Self {
        if floor > self.mode {
            self.mode = floor;
            self.tightened.push(reason);
        }
        self
    }
}

/// The gates, in the order they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Rbac,
    Abac,
    Consent,
    Space,
    Safety,
    Redaction,
}

crate::words!(Gate { Rbac = "rbac", Abac = "abac", Consent = "consent", Space = "space", Safety = "safety", Redaction = "redaction" });

/// The verdict of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    /// It passes with an approval.
    NeedsApproval,
    Deny,
    /// Too dangerous even for an approval in the inbox: the call ends, and its content is kept for review.
    Quarantine,
    /// The call passes with redacted params.
    Redacted,
    /// This gate has no rule for the call.
    NotApplicable,
}

/// A gate's verdict with the rules that determined it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateVerdict {
    pub gate: Gate,
    pub verdict: Verdict,
    pub determining: Vec<String>,
    /// Errors while its rules were evaluated. Any error is a denial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

impl GateVerdict {
    pub const fn new(gate: Gate, verdict: Verdict, determining: Vec<String>) -> Self {
        Self { gate, verdict, determining, errors: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_can_only_become_stricter() {
        for base in Mode::ALL {
            for floor in Mode::ALL {
                let decision = Decision::new(base, ModeSource::OrgDefault, None).at_least(floor, Reason::DangerIsNeverAllowed);
                assert_eq!(decision.mode, base.max(floor));
                assert_eq!(decision.tightened.len(), usize::from(floor > base));
            }
        }
    }
}
