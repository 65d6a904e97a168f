//! The tier of a tool of another server. Pure: an admin's word comes first, then the server's warning, then its promise if it is trusted,
//! then the default of the source.

use countersign_core::Tier;
use countersign_core::action::PROTOCOL_ACTIONS;
use countersign_core::ports::sources::Hints;
use std::collections::BTreeMap;

/// What an org has set about the tiers of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    /// By the name of the tool. Set by an admin, so nothing below overrules them.
    pub overrides: BTreeMap<String, Tier>,
    /// Whether `readOnlyHint` of this server is believed.
    pub hints: Hints,
    /// The tier of a tool about which nothing else is known.
    pub default: Option<Tier>,
}

/// The annotations of a tool that bear on its tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
}

/// A tier and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiered {
    pub tier: Tier,
    pub because: Because,
}

/// Why a tool has its tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// An admin set it.
    Override,
    /// It is no tool, but a request of the protocol that reads.
    Protocol,
    /// The server says that the tool may destroy something.
    DestructiveHint,
    /// The server says that the tool only reads, and it is trusted.
    ReadOnlyHint,
    /// The server says that the tool only reads, and is not trusted: it counts as one of which nothing is known.
    UntrustedHint,
    /// The default of the source.
    Default,
    /// Nothing is known, so it counts as a write that cannot be reverted.
    Unknown,
    /// The name says more than everything else: this word of it.
    Name(&'static str),
}

impl Because {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Override => "override",
            Self::Protocol => "protocol",
            Self::DestructiveHint => "destructive_hint",
            Self::ReadOnlyHint => "read_only_hint",
            Self::UntrustedHint => "untrusted_hint",
            Self::Default => "default",
            Self::Unknown => "unknown",
            Self::Name(_) => "name",
        }
    }
}

/// The tier of a write of which nothing is known. R2 would have to be verified and reversible.
const UNKNOWN: Tier = Tier::R3;

/// Words that can only mean one thing, wherever they stand in a name.
const DESTROYS: [&str; 8] = ["delete", "destroy", "erase", "purge", "remove", "revoke", "truncate", "wipe"];

/// Words that tell something where a name begins with them, and the tier that such a tool has at least. Elsewhere in a name many of them are
/// nouns: `get_post` only reads.
const BEGINS: [(&str, Tier); 16] = [
    ("drop", Tier::R4),
    ("kill", Tier::R4),
    ("buy", Tier::R4),
    ("pay", Tier::R4),
    ("transfer", Tier::R4),
    ("send", Tier::R3),
    ("post", Tier::R3),
    ("publish", Tier::R3),
    ("create", Tier::R3),
    ("update", Tier::R3),
    ("write", Tier::R3),
    ("merge", Tier::R3),
    ("deploy", Tier::R3),
    ("execute", Tier::R3),
    ("run", Tier::R3),
    ("upload", Tier::R3),
];

/// The tier of a tool.
pub fn tier(tool: &str, annotations: Annotations, tiers: &Tiers) -> Tiered {
    if let Some(&tier) = tiers.overrides.get(tool) {
        return Tiered { tier, because: Because::Override };
    }
    if PROTOCOL_ACTIONS.contains(&tool) {
        return Tiered { tier: Tier::R1, because: Because::Protocol };
    }
    let by_rule = match (annotations, tiers) {
        (Annotations { destructive: Some(true), .. }, _) => Tiered { tier: Tier::R4, because: Because::DestructiveHint },
        (Annotations { read_only: Some(true), .. }, Tiers { hints: Hints::Trusted, .. }) => {
            Tiered { tier: Tier::R1, because: Because::ReadOnlyHint }
        }
        (_, Tiers { default: Some(tier), .. }) => Tiered { tier: *tier, because: Because::Default },
        (Annotations { read_only: Some(true), .. }, Tiers { hints: Hints::Untrusted, .. }) => {
            Tiered { tier: UNKNOWN, because: Because::UntrustedHint }
        }
        (_, Tiers { default: None, .. }) => Tiered { tier: UNKNOWN, because: Because::Unknown },
    };
    match telling(tool) {
        Some((word, tier)) if tier > by_rule.tier => Tiered { tier, because: Because::Name(word) },
        Some(_) | None => by_rule,
    }
}

/// Why a tool has this tier, if its annotations are no longer known: the first reason that suffices.
pub fn because(tool: &str, has: Tier, tiers: &Tiers) -> Because {
    const READS: Annotations = Annotations { read_only: Some(true), destructive: None };
    const WARNS: Annotations = Annotations { read_only: None, destructive: Some(true) };
    let suffices = |annotations: Annotations| Some(tier(tool, annotations, tiers)).filter(|tiered| tiered.tier == has);
    let found = [Annotations::default(), READS, WARNS].into_iter().find_map(suffices);
    found.map_or(Because::Unknown, |tiered| tiered.because)
}

/// The telling word of a name, in any of the usual spellings: `delete_file`, `fileDelete`, `repo.delete`.
fn telling(tool: &str) -> Option<(&'static str, Tier)> {
    let parts: Vec<_> = tool.split('.').map(words_of).collect();
    let destroys = |word: &&str| parts.iter().flatten().any(|found| found == word);
    let begins = |(word, _): &(&str, Tier)| parts.iter().any(|words| words.first().is_some_and(|first| first == word));
    let destroys = DESTROYS.into_iter().find(destroys).map(|word| (word, Tier::R4));
    destroys.or_else(|| BEGINS.into_iter().find(begins))
}

/// The words of a name in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in name.chars() {
        let is_letter = character.is_ascii_alphanumeric();
        if !is_letter || (was_lower && character.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| is_letter) {
            word.push(character.to_ascii_lowercase());
        }
        was_lower = character.is_ascii_lowercase() || character.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: Annotations = Annotations { read_only: None, destructive: None };
    const READS: Annotations = Annotations { read_only: Some(true), destructive: Some(false) };
    const WRITES: Annotations = Annotations { read_only: Some(false), destructive: Some(false) };
    const WARNS: Annotations = Annotations { read_only: None, destructive: Some(true) };
    const BOTH: Annotations = Annotations { read_only: Some(true), destructive: Some(true) };

    fn tiers(hints: Hints, default: Option<Tier>) -> Tiers {
        Tiers { overrides: BTreeMap::new(), hints, default }
    }

    #[test]
    fn the_tier_follows_from_what_is_known() {
        use Hints::{Trusted, Untrusted};
        for (tool, annotations, hints, default, tier_expected, because) in [
            ("look", NONE, Untrusted, None, Tier::R3, Because::Unknown),
            ("look", READS, Untrusted, None, Tier::R3, Because::UntrustedHint),
            ("look", READS, Trusted, None, Tier::R1, Because::ReadOnlyHint),
            ("look", READS, Trusted, Some(Tier::R3), Tier::R1, Because::ReadOnlyHint),
            ("look", WRITES, Trusted, None, Tier::R3, Because::Unknown),
            ("look", NONE, Trusted, Some(Tier::R1), Tier::R1, Because::Default),
            ("look", READS, Untrusted, Some(Tier::R2), Tier::R2, Because::Default),
            ("look", WARNS, Untrusted, Some(Tier::R0), Tier::R4, Because::DestructiveHint),
            ("look", BOTH, Trusted, Some(Tier::R0), Tier::R4, Because::DestructiveHint),
            ("delete_file", NONE, Untrusted, None, Tier::R4, Because::Name("delete")),
            ("fileDelete", READS, Trusted, None, Tier::R4, Because::Name("delete")),
            ("repo.delete", NONE, Untrusted, Some(Tier::R0), Tier::R4, Because::Name("delete")),
            ("send-mail", READS, Trusted, None, Tier::R3, Because::Name("send")),
            ("send_mail", NONE, Untrusted, None, Tier::R3, Because::Unknown),
            ("sender_of", READS, Trusted, None, Tier::R1, Because::ReadOnlyHint),
            ("undeleted", READS, Trusted, None, Tier::R1, Because::ReadOnlyHint),
            ("send_then_delete", NONE, Untrusted, None, Tier::R4, Because::Name("delete")),
            ("get_post", READS, Trusted, None, Tier::R1, Because::ReadOnlyHint),
            ("blog.post", READS, Trusted, None, Tier::R3, Because::Name("post")),
            ("_PAY_bill", NONE, Untrusted, None, Tier::R4, Because::Name("pay")),
            ("delete_all", WARNS, Untrusted, None, Tier::R4, Because::DestructiveHint),
        ] {
            let found = tier(tool, annotations, &tiers(hints, default));
            assert_eq!(found, Tiered { tier: tier_expected, because }, "{tool} {annotations:?} {hints:?} {default:?}");
        }
    }

    #[test]
    fn the_reason_follows_from_the_tier_where_the_annotations_are_gone() {
        use Hints::{Trusted, Untrusted};
        for (tool, has, hints, default, expected) in [
            ("look", Tier::R3, Untrusted, None, "unknown"),
            ("look", Tier::R2, Untrusted, Some(Tier::R2), "default"),
            ("look", Tier::R1, Trusted, None, "read_only_hint"),
            ("look", Tier::R4, Trusted, None, "destructive_hint"),
            ("delete_file", Tier::R4, Untrusted, None, "name"),
            ("look", Tier::R0, Untrusted, None, "unknown"),
            ("resources.read", Tier::R1, Untrusted, Some(Tier::R4), "protocol"),
        ] {
            assert_eq!(because(tool, has, &tiers(hints, default)).as_str(), expected, "{tool} {has}");
        }
        let set = Tiers { overrides: BTreeMap::from([("look".to_owned(), Tier::R0)]), ..tiers(Untrusted, None) };
        assert_eq!(because("look", Tier::R0, &set).as_str(), "override");
    }

    #[test]
    fn an_admins_word_is_the_last_one() {
        for tier_set in Tier::ALL {
            let overrides = BTreeMap::from([("delete_file".to_owned(), tier_set)]);
            let tiers = Tiers { overrides, ..tiers(Hints::Untrusted, Some(Tier::R4)) };
            assert_eq!(tier("delete_file", WARNS, &tiers), Tiered { tier: tier_set, because: Because::Override });
            assert_eq!(tier("delete_files", NONE, &tiers).tier, Tier::R4);
        }
    }

    proptest! {
        #[test]
        fn a_name_never_lowers_a_tier_and_distrust_never_believes(
            name in "[A-Za-z0-9_.-]{1,20}",
            word in proptest::sample::select(BEGINS.map(|(word, _)| word).to_vec()),
            read_only: Option<bool>,
            destructive: Option<bool>,
            default in proptest::option::of(proptest::sample::select(Tier::ALL.to_vec())),
        ) {
            let annotations = Annotations { read_only, destructive };
            let set = tiers(Hints::Untrusted, default);
            let plain = tier("x", annotations, &set).tier;
            prop_assert!(tier(&name, annotations, &set).tier >= plain);
            let telling = format!("{word}_{name}");
            prop_assert!(tier(&telling, annotations, &set).tier >= plain);
            let without = Annotations { read_only: None, destructive };
            prop_assert_eq!(tier(&name, annotations, &set).tier, tier(&name, without, &set).tier);
        }
    }
}
