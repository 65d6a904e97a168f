//! Looks up things by name where an id is expected. A name that several things have is refused, and the error lists their ids.

use super::Resource;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::style::clean;
use api::Code;
use api::identity::WhoamiResponse;

/// A kind of thing that has a name.
pub(crate) trait Named: Resource {
    /// The number of pages that are searched, the newest first. Some kinds have too many things to search all of them.
    const PAGES_MAX: usize = usize::MAX;
    /// Whether the caller's own things are preferred to those of others.
    const HAS_MAKERS: bool = false;

    fn is_id(text: &str) -> bool;
    fn name(&self) -> &str;

    /// Whether the thing still works. Things that work are preferred to those that do not.
    fn works(&self) -> bool {
        true
    }

    fn is_made_by(&self, _principal: &str) -> bool {
        false
    }
}

/// A thing that has the name.
struct Found {
    id: String,
    is_own: bool,
    works: bool,
}

/// The id of a thing that is given by name or by id.
pub(crate) async fn id_of<R: Named>(named: &str, client: &Client) -> Result<String, Failure> {
    if R::is_id(named) {
        return Ok(named.to_owned());
    }
    let caller = if R::HAS_MAKERS { client.get::<WhoamiResponse>(&["whoami"], &[]).await?.read.principal } else { String::new() };
    let mut found = Vec::new();
    let mut is_all = false;
    let mut pages = client.pages::<R>(R::PATH, &[]);
    for _ in 0..R::PAGES_MAX {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            Ok(None) => {
                is_all = true;
                break;
            }
            // A caller who may not list the things can only give an id. The text is taken as one, and the server says what is wrong with
            // it.
            Err(failure) if failure.exit == Exit::Denied => return Ok(named.to_owned()),
            Err(failure) => return Err(failure),
        };
        let of_name = page.into_iter().filter(|(one, _)| one.name() == named);
        found.extend(of_name.map(|(one, _)| Found { is_own: one.is_made_by(&caller), works: one.works(), id: one.id().to_owned() }));
    }
    only(R::NOUN, named, found).map_err(|failure| match is_all {
        true => failure,
        false => failure.cause("only the newest were looked through: an older one is given by its id"),
    })
}

/// Like `id_of`, for a name that is optional.
pub(crate) async fn maybe_id_of<R: Named>(named: Option<&str>, client: &Client) -> Result<Option<String>, Failure> {
    match named.filter(|named| !named.is_empty()) {
        Some(named) => id_of::<R>(named, client).await.map(Some),
        None => Ok(None),
    }
}

/// Adds to a failure about a taken name the command that lists the existing names.
pub(crate) fn taken<R: Resource>(failure: Failure) -> Failure {
    if failure.is(Code::NameTaken) {
        failure.hint(format!("choose another name; countersign {} shows those there are", R::LIST))
    } else {
        failure
    }
}

/// The thing with this name. The caller's own come first; of several, the one that still works, if it is the only one.
fn only(what: &str, named: &str, mut found: Vec<Found>) -> Result<String, Failure> {
    if found.iter().any(|one| one.is_own) {
        found.retain(|one| one.is_own);
    }
    let works: Vec<_> = found.iter().filter(|one| one.works).collect();
    let meant: Vec<_> = if works.is_empty() { found.iter().collect() } else { works };
    let named = clean::line(named);
    match meant.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(Failure::new(Exit::NotFound, format!("there is no {what} `{named}`")).hint(format!("countersign {what} list"))),
        several => {
            let ids: Vec<_> = several.iter().map(|one| one.id.as_str()).collect();
            Err(Failure::usage(format!("{} {what}s are named `{named}`", several.len()))
                .cause(format!("they are {}", ids.join(", ")))
                .hint(format!("give one of these ids; countersign {what} list tells them apart")))
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// In these tests, ids in capitals are the caller's own.
    fn check(found: &[(&str, bool)], expected: Result<&str, &str>) {
        let is_own = |id: &str| id.chars().all(char::is_uppercase);
        let found = found.iter().map(|(id, works)| Found { id: (*id).to_owned(), is_own: is_own(id), works: *works }).collect();
        let told = only("session", "cli", found)
            .map_err(|failure| [Some(failure.message), failure.cause].into_iter().flatten().collect::<Vec<_>>().join(": "));
        assert_eq!(told.as_ref().map(String::as_str).map_err(String::as_str), expected);
    }

    #[test]
    fn a_name_means_the_only_one_that_has_it() {
        check(&[("a", true)], Ok("a"));
        check(&[("a", false)], Ok("a"));
        check(&[("a", false), ("b", true), ("c", false)], Ok("b"));
        check(&[], Err("there is no session `cli`"));
        check(&[("a", true), ("b", true), ("c", false)], Err("2 sessions are named `cli`: they are a, b"));
        check(&[("a", true), ("B", true), ("c", true)], Ok("B"));
        // Another person's session is not used just because the caller's own has ended.
        check(&[("a", true), ("B", false)], Ok("B"));
        check(&[("a", false), ("b", false)], Err("2 sessions are named `cli`: they are a, b"));
    }
}
