//! Whether an error that a server answers with tells of something that passes. The protocol has no member for it, so the server's words
//! decide. Nothing rests on them but whether a call that may be made twice is made again.

use countersign_core::retry::FailureCause;

/// How much of the words is looked at.
const CHARS_MAX: usize = 1_000;

/// What servers say of a cause that passes, in lower case.
const WORDS: [&str; 20] = [
    "timed out",
    "time-out",
    "gateway timeout",
    "request timeout",
    "timeout exceeded",
    "deadline exceeded",
    "etimedout",
    "too many requests",
    "rate limit",
    "rate-limit",
    "temporarily",
    "try again later",
    "service unavailable",
    "bad gateway",
    "overloaded",
    "connection refused",
    "connection reset",
    "econnrefused",
    "econnreset",
    "eai_again",
];

/// Statuses of HTTP that pass. They count only where the words speak of a status.
const STATUSES: [&str; 4] = ["429", "502", "503", "504"];

pub(super) fn cause_of(words: &str) -> FailureCause {
    let words: String = words.chars().take(CHARS_MAX).collect::<String>().to_lowercase();
    let speaks_of_status = words.contains("http") || words.contains("status");
    let has_status = || words.split(|character: char| !character.is_alphanumeric()).any(|word| STATUSES.contains(&word));
    let passes = WORDS.iter().any(|known| words.contains(known)) || speaks_of_status && has_status();
    if passes { FailureCause::Passing } else { FailureCause::Final }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_server_tell_what_passes_from_what_stays() {
        for passing in [
            "Request to api.example.com timed out after 10s",
            "Error: connect ECONNREFUSED 127.0.0.1:5432",
            "HTTP 503 from upstream",
            "upstream answered with status code 429",
            "Too Many Requests",
            "The model is overloaded, try again later",
        ] {
            assert_eq!(cause_of(passing), FailureCause::Passing, "{passing}");
        }
        for lasting in [
            "no such issue",
            "`timeout` must be a positive number",
            "HTTP 404 from upstream",
            "there are 503 rows, and at most 100 can be read",
            "",
        ] {
            assert_eq!(cause_of(lasting), FailureCause::Final, "{lasting}");
        }
        let far = format!("{}timed out", "x".repeat(CHARS_MAX));
        assert_eq!(cause_of(&far), FailureCause::Final, "only so much is looked at");
    }
}
