//! Recognises secrets by their own form: only those that are certain by their prefix, by what they decode to, or by the text around them.
//! Every pattern runs in linear time. The widest patterns run first, so that no pattern leaves half of a secret that another would match.

use super::Marks;
use super::key::{self, Holds};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::{Captures, Regex, RegexSet};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// The kind of a secret that was recognised by its name: a key of JSON, of a query or of an environment.
pub(crate) const NAMED: &str = "named";

/// The kind of a text that could not be judged.
const UNJUDGED: &str = "unjudged";

/// Replaces every secret that a rule is certain of. Borrowed if there was none.
pub(super) fn redact<'t>(text: &'t str, marks: &mut impl Marks) -> Cow<'t, str> {
    // Most keys and many values end here: they are too short for a token, and have none of the characters that surround shorter secrets.
    if text.len() < TOKEN_BYTES_MIN && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return Cow::Borrowed(text);
    }
    let Ok(Rules { any, rules }) = &*RULES else {
        // Without the rules, any text could be a secret.
        return Cow::Owned(marks.mark(UNJUDGED, text));
    };
    // One scan for all patterns together; nearly every text ends here.
    if !any.is_match(text) {
        return Cow::Borrowed(text);
    }
    let mut redacted = Cow::Borrowed(text);
    for _ in 0..ROUNDS_MAX {
        let mut is_done = true;
        for rule in rules {
            if let Some(text) = rule.apply(&redacted, marks) {
                redacted = Cow::Owned(text);
                is_done = false;
            }
        }
        if is_done {
            break;
        }
    }
    redacted
}

/// Whether a rule is certain of a secret in the text.
pub(super) fn is_secret(text: &str) -> bool {
    match &*RULES {
        Ok(Rules { any, rules }) => {
            any.is_match(text) && rules.iter().any(|rule| rule.pattern.captures_iter(text).any(|captures| (rule.certain)(&captures)))
        }
        Err(_) => true,
    }
}

/// The length of the shortest secret that is recognised by its prefix alone.
const TOKEN_BYTES_MIN: usize = 15;

/// One replacement can make another rule certain, so the rules run up to this many times.
const ROUNDS_MAX: u32 = 4;

/// A pattern whose group `secret` is replaced wherever `certain` returns true.
struct Rule {
    kind: &'static str,
    pattern: Regex,
    certain: fn(&Captures) -> bool,
}

impl Rule {
    fn apply(&self, text: &str, marks: &mut impl Marks) -> Option<String> {
        let mut redacted = String::new();
        let mut copied = 0;
        for captures in self.pattern.captures_iter(text) {
            let Some(secret) = captures.name("secret").filter(|secret| !marks.is_mark(secret.as_str()) && (self.certain)(&captures)) else {
                continue;
            };
            redacted.push_str(&text[copied..secret.start()]);
            redacted.push_str(&marks.mark(self.kind, secret.as_str()));
            copied = secret.end();
        }
        if copied == 0 {
            return None;
        }
        redacted.push_str(&text[copied..]);
        Some(redacted)
    }
}

struct Rules {
    /// Matches where any of the rules does.
    any: RegexSet,
    rules: Vec<Rule>,
}

static RULES: LazyLock<Result<Rules, regex::Error>> = LazyLock::new(|| {
    let any = RegexSet::new(TABLE.iter().map(|(_, pattern, _)| pattern))?;
    let rules = TABLE.iter().map(|&(kind, pattern, certain)| Ok(Rule { kind, pattern: Regex::new(pattern)?, certain }));
    Ok(Rules { any, rules: rules.collect::<Result<_, _>>()? })
});

type Row = (&'static str, &'static str, fn(&Captures) -> bool);

/// The beginning of a word, also right after an escape such as `\n` in JSON inside a text.
macro_rules! at_word {
    ($pattern:literal) => {
        concat!(r"(?:(?-u:\b)|\\(?:[bfnrt]|u[0-9a-fA-F]{4}))", $pattern)
    };
}

const TABLE: &[Row] = &[
    // A key that is cut off is still a key, so it extends to its end marker or to the end of the text.
    (
        "private_key",
        r"(?s)(?<secret>-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z))",
        always,
    ),
    // JSON inside a text, whole or cut off; JSON inside another JSON text; and the form in which Python prints it.
    (NAMED, r#"(?s)"(?<name>[^"\\]{1,64})"\s*:\s*"(?<secret>(?:[^"\\]|\\.)+)(?:"|\z|\\\z)"#, is_named_secret),
    (NAMED, r#"\\+"(?<name>[^"\\]{1,64})\\+"\s*:\s*\\+"(?<secret>(?:[^"\\]|\\+[^"\\])+)"#, is_named_secret),
    (NAMED, r"(?s)'(?<name>[^'\\]{1,64})'\s*:\s*'(?<secret>(?:[^'\\]|\\.)+)(?:'|\z|\\\z)", is_named_secret),
    ("url_credentials", r#"[A-Za-z][A-Za-z0-9+.\-]*://(?<secret>[^\s/?#@:"'<>\\]*:[^\s/?#"'<>]+)@"#, always),
    // Queries, fragments, form bodies, cookies and connection strings. Then lines of an environment, and variables set in front of a
    // command.
    (NAMED, r#"(?:\A|[?&#;]\s?)(?<name>[A-Za-z0-9_.\-\[\]%]{1,64})=(?<secret>[^&;\s#"'<>\\]+)"#, is_named_secret),
    (NAMED, r#"(?m)(?:^|[\s"'])(?:export |set )?(?<name>[A-Z][A-Z0-9_]{1,63})=(?<secret>"[^"\n]*"?|'[^'\n]*'?|[^\s"']+)"#, is_named_secret),
    // An option of a command, and a name and value inside an option: `--token=…`, `--from-literal=password=…`.
    (
        NAMED,
        r#"(?:\A|[\s"'])--(?:[A-Za-z][A-Za-z0-9\-]{0,63}=)?(?<name>[A-Za-z][A-Za-z0-9_.\-]{0,63})=(?<secret>"[^"\n]*"?|'[^'\n]*'?|[^\s"'<>\\]+)"#,
        is_named_secret,
    ),
    // Alone, `pwd` is a directory; in a connection string it is a password.
    (NAMED, r#"(?i);\s?pwd=(?<secret>[^;\s"'<>]+)"#, always),
    (
        "authorization",
        r#"(?i)authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|apikey|negotiate)\s+(?<secret>[A-Za-z0-9._~+/=\-]{6,})"#,
        always,
    ),
    ("cookie", at_word!(r#"(?i:cookie):\s*(?<secret>[A-Za-z0-9_.\-]+=[^\r\n"']+)"#), always),
    ("authorization", at_word!(r"(?i:bearer)\s+(?<secret>[A-Za-z0-9._~+/=\-]{6,})"), is_bearer),
    ("authorization", at_word!(r"(?i:basic)\s+(?<secret>[A-Za-z0-9+/]{4,}={0,2})"), is_basic),
    ("jwt", r"(?<secret>(?<header>ey[A-Za-z0-9_\-]{8,})\.[A-Za-z0-9_\-]{2,}\.[A-Za-z0-9_\-]*(?:\.[A-Za-z0-9_\-]+){0,2})", is_jwt),
    ("aws_key", r"(?<secret>AKIA[A-Z0-9]{16,})", always),
    ("aws_key", at_word!(r"(?<secret>ASIA[A-Z0-9]{16})(?-u:\b)"), always),
    ("github_token", r"(?<secret>gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})", always),
    ("gitlab_token", r"(?<secret>gl(?:pat|ptt|dt|rt|cbt|ft|oas|soat|agent)-[A-Za-z0-9_.\-]{16,})", always),
    ("slack_token", r"(?<secret>xox[a-z]-[A-Za-z0-9\-]{10,}|xapp-[0-9]-[A-Za-z0-9\-]{10,})", always),
    ("slack_webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?<secret>[A-Za-z0-9/]{16,})", always),
    ("stripe_key", at_word!(r"(?<secret>[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,})"), always),
    ("model_key", r"(?<secret>sk-(?:ant|proj|svcacct|or-v1)-[A-Za-z0-9_\-]{8,})", always),
    ("model_key", at_word!(r"(?<secret>sk-[A-Za-z0-9_\-]{18,})"), is_random),
    ("google_key", r"(?<secret>AIza[A-Za-z0-9_\-]{35,}|GOCSPX-[A-Za-z0-9_\-]{20,})", always),
    ("google_key", at_word!(r"(?<secret>ya29\.[A-Za-z0-9_\-]{20,})"), always),
    ("npm_token", r"(?<secret>npm_[A-Za-z0-9]{36,})", always),
    ("pypi_token", r"(?<secret>pypi-[A-Za-z0-9_\-]{50,})", always),
    ("vault_token", at_word!(r"(?<secret>hv[sbr]\.[A-Za-z0-9_\-]{20,})"), always),
    ("sendgrid_key", at_word!(r"(?<secret>SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,})"), always),
    ("linear_key", r"(?<secret>lin_(?:api|oauth)_[A-Za-z0-9]{30,})", always),
    ("sentry_token", r"(?<secret>sntry[su]_[A-Za-z0-9+/=_\-]{30,})", always),
    ("huggingface_token", at_word!(r"(?<secret>hf_[A-Za-z0-9]{30,})"), always),
    ("docker_token", r"(?<secret>dckr_pat_[A-Za-z0-9_\-]{20,})", always),
    ("atlassian_token", r"(?<secret>ATATT3[A-Za-z0-9_=\-]{40,})", always),
    ("age_key", r"(?<secret>AGE-SECRET-KEY-1[A-Z0-9]{50,})", always),
    // Countersign's own tokens.
    ("countersign_token", at_word!(r"(?<secret>cs_[A-Za-z0-9_\-]{16,})"), is_random),
];

fn always(_: &Captures) -> bool {
    true
}

/// The scheme of an authorization is no secret. The text after it is, and has a rule of its own.
fn is_named_secret(captures: &Captures) -> bool {
    let is_scheme =
        ["bearer", "basic", "token", "apikey", "negotiate"].iter().any(|scheme| captures["secret"].eq_ignore_ascii_case(scheme));
    match key::holds(&captures["name"]) {
        Holds::Anything => false,
        Holds::Secret | Holds::Secrets => !is_scheme,
    }
}

/// Ordinary words follow "bearer" too. A token contains a digit or a capital after a small letter, or is longer than a word.
fn is_bearer(captures: &Captures) -> bool {
    let token = captures["secret"].trim_end_matches(['.', '-', '/']);
    token.len() >= 28
        || token.bytes().any(|byte| byte.is_ascii_digit())
        || token.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

/// Ordinary words follow "basic" too. Credentials decode to a name and a password with a colon between them.
fn is_basic(captures: &Captures) -> bool {
    let decoded = BASE64.decode(&captures["secret"]);
    decoded.is_ok_and(|decoded| decoded.contains(&b':') && decoded.iter().all(|byte| !byte.is_ascii_control()))
}

/// The header of a JWT is JSON and names an algorithm. Other characters may stand right before it.
fn is_jwt(captures: &Captures) -> bool {
    let header = &captures["header"];
    header.match_indices("ey").take(8).any(|(at, _)| {
        let decoded = BASE64_URL.decode(&header[at..]).ok();
        let header = decoded.and_then(|decoded| serde_json::from_slice::<Value>(&decoded).ok());
        header.is_some_and(|header| header.get("alg").is_some_and(Value::is_string))
    })
}

/// Whether it looks random, as no name does: a run of sixteen letters and digits with both among them, or a longer text of small letters,
/// capitals and digits.
fn is_random(captures: &Captures) -> bool {
    let secret = &captures["secret"];
    let has = |text: &str, is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    let mixed =
        secret.len() >= 32 && has(secret, u8::is_ascii_lowercase) && has(secret, u8::is_ascii_uppercase) && has(secret, u8::is_ascii_digit);
    mixed || secret.split(['-', '_']).any(|run| run.len() >= 16 && has(run, u8::is_ascii_digit) && has(run, u8::is_ascii_alphabetic))
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
pub(super) const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);
