//! Whether a key says that its value is a secret. Only whole words count: `max_tokens`, `author` and `keyboard` do not.

use crate::words;
use std::collections::HashSet;
use std::sync::LazyLock;

/// What a key says about its value. Ordered: the stronger of two statements is their `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holds {
    /// The key says nothing; the value is judged by its own form.
    Anything,
    /// A text under the key, or in an array under it, is a secret.
    Secret,
    /// Every text under the key, at any depth, is a secret.
    Secrets,
}

/// Judges a key by its words.
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

/// Words that mean a secret wherever they stand in the key.
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

/// Words for collections of secrets, whose members can have any name, such as `cookies: {"sid": "…"}`.
static COLLECTIONS: Words = Words::new(|| words_of("cookies secrets credentials passwords passphrases"));

/// Words that mean a secret only after one of the words beside them.
const AFTER: &[(&str, &str)] = &[
    ("key", "api private access secret signing encryption decryption master auth account shared ssh"),
    ("keys", "api private access secret signing encryption master auth"),
    ("tokens", "api access auth refresh bearer session secret service bot"),
    ("auth", "basic bearer"),
    ("code", "mfa recovery backup"),
    ("codes", "mfa recovery backup"),
    ("phrase", "seed recovery pass"),
];

/// After one of these words, `token` means a position or a piece of text.
static PLACES: Words = Words::new(|| {
    words_of(
        "
    page next previous prev continuation pagination sync resume cancellation stop start end eos bos pad unk cls sep mask special max
    min per design
",
    )
});

/// A key that ends with one of these words describes a secret and does not contain it.
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

/// A key that begins with one of these words asks a question.
static QUESTIONS: Words = Words::new(|| words_of("is has had needs requires show hide supports"));

fn is_about(words: &[&str]) -> bool {
    let ends_about = match words {
        // In some systems the id of a secret is one half of a credential.
        [.., "secret", "id"] => false,
        [.., last] => ABOUT.contains(last),
        [] => true,
    };
    ends_about || words.first().is_some_and(|first| QUESTIONS.contains(first))
}

fn is_secret(word: &str, before: Option<&str>) -> bool {
    match (word, before) {
        ("token", Some(before)) if PLACES.contains(before) => false,
        // Alone, `pwd` is the working directory of a shell.
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
