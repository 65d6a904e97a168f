//! Guesses which action the user meant by one that does not exist.

use super::available;
use crate::shared::*;

/// Adds the nearest action to a failure that says there is no such one.
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
    countersign_core::nearest::nearest(named, known.iter().map(String::as_str)).first().copied()
}
