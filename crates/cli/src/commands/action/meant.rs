//! Guesses which action the user meant by one that does not exist.

use super::available;
use crate::shared::*;
use api::Code;

/// The lowest similarity at which a guess is offered. A worse guess would only confuse.
const LIKENESS_MIN: f64 = 0.85;

/// Adds the most similar action to the hint, if the failure says that there is no such action.
pub(crate) async fn with_guess(failure: Failure, named: &str, client: &Client) -> Failure {
    if failure.is(Code::UnknownAction) { guess(failure, named, client).await } else { failure }
}

/// Like `with_guess`, for a failure that is already known to be about an unknown action.
pub(crate) async fn guess(failure: Failure, named: &str, client: &Client) -> Failure {
    match nearest(named, &known(client).await) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`? all of them: countersign action list")),
        None => failure,
    }
}

/// The ids of all actions that the caller may list; empty if the list cannot be read.
pub(crate) async fn known(client: &Client) -> Vec<String> {
    let listed = available(None, client).await.map(|answer| answer.read.sources).unwrap_or_default();
    listed.into_iter().flat_map(|source| source.actions).map(|action| action.id).collect()
}

/// The action most similar to `named`, other than `named` itself.
pub(crate) fn nearest<'a>(named: &str, known: &'a [String]) -> Option<&'a str> {
    let like = |id: &&String| strsim::jaro_winkler(named, id);
    let best = known.iter().max_by(|one, other| like(one).total_cmp(&like(other)))?;
    (like(&best) >= LIKENESS_MIN && best != named).then_some(best.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_guessed_and_anything_else_is_not() {
        let known = ["files.list", "files.read_text", "files.write_text", "http.get"].map(str::to_owned);
        for (named, expected) in [
            ("files.write_txt", Some("files.write_text")),
            ("file.list", Some("files.list")),
            ("http.gte", Some("http.get")),
            ("calendar.book", None),
            ("files.list", None),
            ("", None),
        ] {
            assert_eq!(nearest(named, &known), expected, "{named}");
        }
        assert_eq!(nearest("files.list", &[]), None);
    }
}
