//! Scans a definition for text that does more than describe its action. Agents obey descriptions, so a definition that gives orders, names
//! other actions or imitates another action is shown to a person before it is used.

use super::findings::{Finding, Findings, Rule, Severity};
use super::text::{self, Part, Path};
use super::{hidden, instruction, unseen};
use countersign_core::action::PROTOCOL_ACTIONS;
use countersign_core::{Action, ActionId};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

pub(super) const SECRET_PATH: Rule =
    Rule { id: "safety.secret_path", severity: Severity::Asks, message: "the definition names a file that holds secrets" };
pub(super) const OTHER_ACTION: Rule =
    Rule { id: "safety.other_action", severity: Severity::Asks, message: "which is an action of another source" };
const SHADOWED_NAME: Rule = Rule {
    id: "safety.shadowed_name",
    severity: Severity::Asks,
    message: "is an action of another source with the same name; an agent may take one for the other",
};
pub(super) const HOMOGLYPH_NAME: Rule =
    Rule { id: "safety.homoglyph_name", severity: Severity::Asks, message: "a name looks like another one and is spelt differently" };
pub(super) const UNREADABLE: Rule = Rule {
    id: "safety.unreadable_definition",
    severity: Severity::Asks,
    message: "the definition cannot be read as JSON, so it could not be looked at",
};

/// The actions of other sources, indexed once so that many definitions can be compared with them.
#[derive(Default)]
pub struct Others {
    /// Every action by its id in each of its spellings.
    ids: HashMap<String, ActionId>,
    /// The actions whose name has more than one word, by name. Names like `search` and `list` are common; a longer name that matches was
    /// probably copied. Requests of MCP are left out: the server of each source has them. Of two with one name, a tool of an MCP server
    /// comes second.
    named: HashMap<String, Named>,
    sources: LookAlikes,
    names: LookAlikes,
    titles: LookAlikes,
}

struct Named {
    id: ActionId,
    is_tool: bool,
}

impl Others {
    pub fn new<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Self {
        let mut others = Self::default();
        for action in actions {
            others.ids.extend(spellings(action).map(|spelling| (spelling, action.id.clone())));
            if crate::words::split(action.id.name()).len() > 1 && !PROTOCOL_ACTIONS.contains(&action.id.name()) {
                let known = others.named.get(action.id.name());
                if known.is_none_or(|known| known.is_tool && !is_tool(action)) {
                    let named = Named { id: action.id.clone(), is_tool: is_tool(action) };
                    others.named.insert(action.id.name().to_owned(), named);
                }
            }
            others.sources.add(action.id.source());
            others.names.add(action.id.name());
            others.titles.add(&action.title);
        }
        others
    }

    /// The action that a word of a text is about, if it is one of these. A name alone may be a word like any other, so it counts where the
    /// text is a sentence.
    fn meant(&self, word: &str, is_sentence: bool, own: &HashSet<&str>) -> Option<&ActionId> {
        let named = || self.named.get(word).filter(|_| is_sentence && !own.contains(word)).map(|named| &named.id);
        self.ids.get(word).or_else(named)
    }
}

/// Whether it is a tool of an MCP server. Two such servers may have tools of one name: often they are the same server, added twice.
fn is_tool(action: &Action) -> bool {
    action.upstream_sha256.is_some()
}

/// Texts, indexed by their outline: what remains when characters that look alike are the same.
#[derive(Default)]
struct LookAlikes(HashMap<String, BTreeSet<String>>);

impl LookAlikes {
    fn add(&mut self, text: &str) {
        for outline in outlines(text) {
            self.0.entry(outline).or_default().insert(text.to_owned());
        }
    }

    /// Whether one of them looks like this text but is a different text.
    fn has_other(&self, text: &str, is_other: impl Fn(&str) -> bool) -> bool {
        outlines(text).iter().filter_map(|outline| self.0.get(outline)).flatten().any(|other| is_other(other))
    }
}

/// What a person must know before the action is first used, and again when its definition has changed. Of `others`, only actions of other
/// sources are compared: the actions of one source belong together and refer to each other.
pub fn scan_definition(action: &Action, others: &[Arc<Action>]) -> Vec<Finding> {
    let (own, others): (Vec<_>, Vec<_>) = others.iter().map(Arc::as_ref).partition(|other| other.id.source() == action.id.source());
    scan_definition_beside(action, &names_of(own), &Others::new(others))
}

/// The names of the actions of a source: what it says about them is about itself.
pub fn names_of<'a>(actions: impl IntoIterator<Item = &'a Action>) -> HashSet<&'a str> {
    actions.into_iter().map(|action| action.id.name()).collect()
}

/// The same, for a caller that scans many definitions. All `others` are compared; `own` are the names in the source of the action.
pub fn scan_definition_beside(action: &Action, own: &HashSet<&str>, others: &Others) -> Vec<Finding> {
    let mut findings = Findings::default();
    let Ok(definition) = serde_json::to_value(action) else {
        findings.add(&UNREADABLE, String::new);
        return findings.into_vec();
    };
    hidden::scan(&definition, &mut findings);
    words_of(&definition, &mut findings);
    references(action, own, others, &definition, &mut findings);
    names(action, others, &mut findings);
    asking(findings)
}

/// The same for the guide of a source that its server wrote. Agents read it before they call any action of the source.
pub fn scan_guide(guide: &str, others: &Others) -> Vec<Finding> {
    let mut findings = Findings::default();
    let definition = json!({ "guide": guide });
    hidden::scan(&definition, &mut findings);
    words_of(&definition, &mut findings);
    if let Some((word, other)) = tokens(guide).find_map(|token| Some((token, others.ids.get(token)?))) {
        findings.add_naming(&OTHER_ACTION, word, other, || "/guide".to_owned());
    }
    asking(findings)
}

/// A definition is used again and again, so a person looks also at findings that would only label an output.
fn asking(findings: Findings) -> Vec<Finding> {
    let mut findings = findings.into_vec();
    for finding in &mut findings {
        finding.severity = finding.severity.max(Severity::Asks);
    }
    findings
}

fn words_of(definition: &Value, findings: &mut Findings) {
    text::each(definition, &mut |path, _, text| {
        for rule in instruction::look(text) {
            findings.add(rule, || path.pointer());
        }
        let names_secret = SECRET_PATHS.as_ref().map_or(true, |paths| paths.is_match(text));
        if names_secret {
            findings.add(&SECRET_PATH, || path.pointer());
        }
        // Control characters steer a terminal and are not visible in it.
        if text.chars().any(|character| character.is_control() && !matches!(character, '\n' | '\r' | '\t')) {
            findings.add(&hidden::HIDDEN_UNICODE, || path.pointer());
        }
    });
}

static SECRET_PATHS: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(?:~|\$HOME|%USERPROFILE%|/home/[\w.-]+|/root|/Users/[\w.-]+)?[/\\]?\.(?:ssh|gnupg|aws|kube|docker|azure)[/\\]",
        r"|(?:~|\$HOME|/home/[\w.-]+|/root|/Users/[\w.-]+)/\.(?:ssh|gnupg|aws|kube|docker|config|cursor|claude)(?:\W|\z)",
        r"|(?-u:\b)id_(?:rsa|dsa|ecdsa|ed25519)(?-u:\b)",
        r"|/etc/(?:passwd|shadow|sudoers)(?-u:\b)|/proc/(?:self|\d+)/environ(?-u:\b)|/var/run/secrets(?-u:\b)|/run/secrets(?-u:\b)",
        r"|(?:\A|[\s`'\x22(/\\])\.(?:env(?:\.(?:local|production|prod|development|staging))?|netrc|npmrc|pypirc|pgpass|git-credentials|htpasswd|bash_history|zsh_history)(?:[\s`'\x22),;:]|\.?\z|\.\s)",
        r"|(?-u:\b)(?:claude_desktop_config|mcp_settings)\.json(?-u:\b)|\.cursor[/\\]mcp\.json(?-u:\b)|(?-u:\b)wallet\.dat(?-u:\b)|(?-u:\b)login\.keychain",
    ))
});

/// Fields with names that the source must state. They are checked by the code that uses them.
const STATED: [&str; 5] = ["id", "requires", "idempotency_key_fields", "version", "preview_reads"];

fn references(action: &Action, own: &HashSet<&str>, others: &Others, definition: &Value, findings: &mut Findings) {
    let Value::Object(fields) = definition else { return };
    for (field, value) in fields.iter().filter(|(field, _)| !STATED.contains(&field.as_str())) {
        text::each(value, &mut |path: &Path, part, text| {
            // A name that stands alone may be the name of something in this definition; in a sentence it refers to the other action.
            let is_sentence = part == Part::Content && text.trim().contains(char::is_whitespace);
            let meant = tokens(text).find_map(|token| Some((token, others.meant(token, is_sentence && token != action.id.name(), own)?)));
            if let Some((word, other)) = meant {
                findings.add_naming(&OTHER_ACTION, word, other, || format!("/{field}{}", path.pointer()));
            }
        });
    }
}

/// The spellings of an id in our interfaces.
fn spellings(action: &Action) -> [String; 3] {
    let (source, name) = (action.id.source(), action.id.name());
    [format!("{source}.{name}"), format!("{source}__{name}"), format!("{source}/{name}")]
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !(character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | '/')))
        .map(|token| token.trim_matches(['.', '-', '/']))
        .filter(|token| !token.is_empty())
}

fn names(action: &Action, others: &Others, findings: &mut Findings) {
    let (source, name, title) = (action.id.source(), action.id.name(), &action.title);
    if others.sources.has_other(source, |other| other != source) || others.names.has_other(name, |other| other != name) {
        findings.add(&HOMOGLYPH_NAME, || "/id".to_owned());
    }
    if let Some(other) = others.named.get(name).filter(|other| !(other.is_tool && is_tool(action))) {
        findings.add_about(&SHADOWED_NAME, &other.id, || "/id".to_owned());
    }
    if mixes_scripts(title) || others.titles.has_other(title, |other| !other.eq_ignore_ascii_case(title)) {
        findings.add(&HOMOGLYPH_NAME, || "/title".to_owned());
    }
    if mixes_scripts(&action.description) {
        findings.add(&HOMOGLYPH_NAME, || "/description".to_owned());
    }
}

/// The outlines of a text, in which characters that look alike are the same, and so are `-` and `_`. `1` and capital `I` look like both `i`
/// and `l`, so there are two outlines.
fn outlines(text: &str) -> [String; 2] {
    ['i', 'l'].map(|one| format!("{one}:{}", outline(text, one)))
}

fn outline(name: &str, one: char) -> String {
    let folded: String = name
        .chars()
        .filter(|character| !unseen::is_unseen(*character))
        .map(|character| latin_twin(character).unwrap_or(character))
        .map(|character| match character {
            '0' => 'o',
            '-' => '_',
            '1' | 'I' | '|' => one,
            character => character.to_ascii_lowercase(),
        })
        .collect();
    folded.replace("rn", "m").replace("vv", "w")
}

/// Whether a word mixes Latin letters with foreign ones that all have a Latin twin.
fn mixes_scripts(text: &str) -> bool {
    text.split(|character: char| !character.is_alphabetic()).any(|word| {
        let (mut latin, mut twins) = (0, 0);
        for character in word.chars() {
            if character.is_ascii() {
                latin += 1;
            } else if latin_twin(character).is_some() {
                twins += 1;
            } else {
                return false;
            }
        }
        latin > 0 && twins > 0
    })
}

/// The Latin letter that looks the same as this Cyrillic, Greek, Armenian or full-width one.
fn latin_twin(character: char) -> Option<char> {
    if let '\u{ff01}'..='\u{ff5e}' = character {
        return char::from_u32(u32::from(character) - 0xfee0);
    }
    TWINS.iter().find(|(twin, _)| *twin == character).map(|(_, latin)| *latin)
}

const TWINS: [(char, char); 50] = [
    ('а', 'a'),
    ('с', 'c'),
    ('ԁ', 'd'),
    ('е', 'e'),
    ('һ', 'h'),
    ('і', 'i'),
    ('ј', 'j'),
    ('о', 'o'),
    ('р', 'p'),
    ('ԛ', 'q'),
    ('ѕ', 's'),
    ('ԝ', 'w'),
    ('х', 'x'),
    ('у', 'y'),
    ('А', 'A'),
    ('В', 'B'),
    ('С', 'C'),
    ('Е', 'E'),
    ('Н', 'H'),
    ('І', 'I'),
    ('Ј', 'J'),
    ('К', 'K'),
    ('М', 'M'),
    ('О', 'O'),
    ('Р', 'P'),
    ('Ѕ', 'S'),
    ('Т', 'T'),
    ('Х', 'X'),
    ('У', 'Y'),
    ('Α', 'A'),
    ('Β', 'B'),
    ('Ε', 'E'),
    ('Ζ', 'Z'),
    ('Η', 'H'),
    ('Ι', 'I'),
    ('Κ', 'K'),
    ('Μ', 'M'),
    ('Ν', 'N'),
    ('Ο', 'O'),
    ('Ρ', 'P'),
    ('Τ', 'T'),
    ('Υ', 'Y'),
    ('Χ', 'X'),
    ('ο', 'o'),
    ('ν', 'v'),
    ('ι', 'i'),
    ('օ', 'o'),
    ('ո', 'n'),
    ('ս', 'u'),
    ('ց', 'g'),
];

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
