//! Whether a key says that a secret stands under it. Whole words count: `max_tokens`, `author` and `keyboard` say nothing.

use crate::words;
use std::collections::HashSet;
use std::sync::LazyLock;

/// What a key says about the value under it, ordered: the stronger of two opinions is their `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holds {
    /// Nothing is said: the value is judged by its own form.
    Anything,
    /// A text under it, or in an array under it, is a secret.
    Secret,
    /// Every text at any depth under it is a secret.
    Secrets,
}

/// By the words of the key.
pub(super) fn holds(key: &str) -> Holds {
    let mut words = words::split(key);
    while words.last().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
        words.pop();
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_secret = words.iter().enumerate().any(|(at, word)| is_secret(word, at.checked_sub(1).map(|before| words[before])));
    if !is_secret || is_about(&words) {
        Holds::Anything
    } else if words.last().is_some_and(|word| COLLECTIONS.contains(word)) {
        Holds::Secrets
    } else {
        Holds::Secret
    }
}

/// Secrets by themselves, wherever in the key they stand.
static SECRET: Words = Words::new(|| {
    words_of(
        "
    password passwords passwd passcode passphrase passphrases secret secrets token authorization bearer cookie cookies setcookie
    credential credentials jwt otp totp apikey apikeys apitoken apisecret accesskey accesstoken authtoken authkey bearertoken
    clientsecret idtoken oauthtoken privatekey refreshtoken secretkey sessiontoken signingkey encryptionkey masterkey webhooksecret
    sharedsecret
",
    )
});

/// Their members have names of their own choosing, such as `cookies: {"sid": "…"}`.
static COLLECTIONS: Words = Words::new(|| words_of("cookies secrets credentials passwords passphrases"));

/// Secrets only after one of these words.
const AFTER: &[(&str, &str)] = &[
    ("key", "api private access secret signing encryption decryption master auth account shared ssh"),
    ("keys", "api private access secret signing encryption master auth"),
    ("tokens", "api access auth refresh bearer session secret service bot"),
    ("auth", "basic bearer"),
    ("code", "mfa recovery backup"),
    ("codes", "mfa recovery backup"),
    ("phrase", "seed recovery pass"),
];

/// A token after one of these marks a place or a piece of text.
static PLACES: Words = Words::new(|| {
    words_of(
        "
    page next previous prev continuation pagination sync resume cancellation stop start end eos bos pad unk cls sep mask special max
    min per design
",
    )
});

/// A key that ends so speaks about a secret and does not hold it.
static ABOUT: Words = Words::new(|| {
    words_of(
        "
    address algorithm alg arn at audience balance budget consent cost count created date days description domain enabled encoding
    endpoint env exists expiration expired expires expiry field file filename format id ids index issuer kind label length lifetime
    limit limits max method min minutes ms name names path policy position price provider ref required requirements rotation scheme
    scope scopes seconds size source status store strength symbol ttl type types uri url usage updated used uses valid vault version
",
    )
});

/// A key that begins so asks a question.
static QUESTIONS: Words = Words::new(|| words_of("is has had needs requires show hide supports"));

fn is_about(words: &[&str]) -> bool {
    let ends_about = match words {
        // In some places the id of a secret is one half of a credential.
        [.., "secret", "id"] => false,
        [.., last] => ABOUT.contains(last),
        [] => true,
    };
    ends_about || words.first().is_some_and(|first| QUESTIONS.contains(first))
}

fn is_secret(word: &str, before: Option<&str>) -> bool {
    match (word, before) {
        ("token", Some(before)) if PLACES.contains(before) => false,
        // Alone it is the directory a shell is in.
        ("pwd", before) => before.is_some_and(|before| before != "old"),
        (word, before) => {
            SECRET.contains(word)
                || word.ends_with("password")
                || word.ends_with("passwd")
                || before.is_some_and(|before| {
                    AFTER.iter().any(|(after, befores)| *after == word && befores.split(' ').any(|listed| listed == before))
                })
        }
    }
}

type Words = LazyLock<HashSet<&'static str>>;

fn words_of(list: &'static str) -> HashSet<&'static str> {
    list.split_ascii_whitespace().collect()
}
