//! What somebody probably meant by an action that does not exist.

use super::available;
use crate::shared::*;
use api::Code;

/// Likeness below which a guess would only confuse.
const LIKENESS_MIN: f64 = 0.85;

/// Adds the nearest action to a failure that says there is no such one.
pub(crate) async fn with_guess(failure: Failure, named: &str, client: &Client) -> Failure {
    if failure.is(Code::UnknownAction) { guess(failure, named, client).await } else { failure }
}

/// The same, for a failure that is known to say so.
pub(crate) async fn guess(failure: Failure, named: &str, client: &Client) -> Failure {
    match nearest(named, &known(client).await) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`? all of them: countersign action list")),
        None => failure,
    }
}

/// Every action there is, as far as it can be learnt.
pub(crate) async fn known(client: &Client) -> Vec<String> {
    let listed = available(None, client).await.map(|answer| answer.read.sources).unwrap_or_default();
    listed.into_iter().flat_map(|source| source.actions).map(|action| action.id).collect()
}

/// The one that is most like it and is another.
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
