//! The names of tools. A tool has the id of its action, unless the id is longer than a tool's name may be: then its end is replaced by
//! a digest. Either way the name leads back to exactly one action.

use super::caller::Caller;
use super::tools;
use crate::App;
use countersign_core::Action;

/// Characters of a tool's name.
const NAME_CHARS_MAX: usize = 128;
const DIGEST_CHARS: usize = 16;

/// The name of an action's tool.
pub(super) fn of(caller: &Caller, action: &Action) -> String {
    let id = if caller.wishes.source.is_some() { action.id.name() } else { action.id.as_str() };
    shortened(id)
}

/// The id of the action that a caller means by this name. It need not exist.
pub(super) async fn meant(app: &App, caller: &Caller, name: &str) -> String {
    // Only a name that is as long as a name may be can be a shortened one.
    if name.len() == NAME_CHARS_MAX
        && let Some(action) = tools::actions(app, caller).await.iter().find(|action| of(caller, action) == name)
    {
        return action.id.to_string();
    }
    match &caller.wishes.source {
        Some(source) => format!("{source}.{name}"),
        None => name.to_owned(),
    }
}

fn shortened(id: &str) -> String {
    if id.len() <= NAME_CHARS_MAX {
        return id.to_owned();
    }
    let digest = policy::digest::of_text(id).to_string();
    // Ids are ASCII, so every place is between two characters.
    format!("{}-{}", &id[..NAME_CHARS_MAX - DIGEST_CHARS - 1], &digest[..DIGEST_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_id_has_a_name_of_its_own_that_fits() {
        assert_eq!(shortened("files.write_text"), "files.write_text");
        let long = |end: &str| format!("source.{}{end}", "n".repeat(127));
        let (one, other) = (shortened(&long("a")), shortened(&long("b")));
        assert_eq!((one.len(), other.len()), (NAME_CHARS_MAX, NAME_CHARS_MAX));
        assert_ne!(one, other);
        assert!(one.starts_with("source.nnn"));
    }
}
