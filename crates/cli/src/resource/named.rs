//! Things by their names, where ids are asked for. A name that several have is no name: their ids are told instead.

use super::Resource;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::style::clean;
use api::Code;
use api::identity::WhoamiResponse;

/// A kind of thing that has names.
pub(crate) trait Named: Resource {
    /// Pages that are looked through, the newest first: of some things there may be very many.
    const PAGES_MAX: usize = usize::MAX;
    /// Whether the caller's own are meant before those of others.
    const HAS_MAKERS: bool = false;

    fn is_id(text: &str) -> bool;
    fn name(&self) -> &str;

    /// What still works is meant before what does not.
    fn works(&self) -> bool {
        true
    }

    fn is_made_by(&self, _principal: &str) -> bool {
        false
    }
}

/// One that was found by its name.
struct Found {
    id: String,
    is_own: bool,
    works: bool,
}

/// The id of a thing that is named, or given by its id.
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
            // Who may not list them can only give an id: the server says what is wrong with this one.
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

/// The same, where none may be named.
pub(crate) async fn maybe_id_of<R: Named>(named: Option<&str>, client: &Client) -> Result<Option<String>, Failure> {
    match named.filter(|named| !named.is_empty()) {
        Some(named) => id_of::<R>(named, client).await.map(Some),
        None => Ok(None),
    }
}

/// A name that is taken already, with the command that lists those there are.
pub(crate) fn taken<R: Resource>(failure: Failure) -> Failure {
    if failure.is(Code::NameTaken) {
        failure.hint(format!("choose another name; countersign {} shows those there are", R::LIST))
    } else {
        failure
    }
}

/// The one of that name: the caller's own before others', and of several the only one that still works.
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

    /// Ids in capitals are the caller's own.
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
        // Never somebody else's because one's own has ended.
        check(&[("a", true), ("B", false)], Ok("B"));
        check(&[("a", false), ("b", false)], Err("2 sessions are named `cli`: they are a, b"));
    }
}
