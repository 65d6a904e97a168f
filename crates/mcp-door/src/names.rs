//! The names of tools. A tool has the id of its action, or with a single source the name in it. Where that cannot be a tool's name, its end
//! is replaced by a digest of all of it: if it is too long, if it is the name of a tool of our own, or if it looks like such a digest.
//! Either way the name leads back to exactly one action.

use super::caller::Caller;
use super::{actions, meta_tools};
use crate::limits::MCP_TOOL_NAME_CHARS_MAX;
use countersign_core::Action;
use operations::App;

const DIGEST_CHARS: usize = 16;

/// The name of an action's tool.
pub(super) fn of(caller: &Caller, action: &Action) -> String {
    name_of(if caller.wishes.source.is_some() { action.id.name() } else { action.id.as_str() })
}

/// The id of the action that a caller means by this name. It need not exist.
pub(super) async fn meant(app: &App, caller: &Caller, name: &str) -> String {
    if has_digest(name)
        && let Some(action) = actions::tools(app, caller).await.iter().find(|action| of(caller, action) == name)
    {
        return action.id.to_string();
    }
    match &caller.wishes.source {
        Some(source) => format!("{source}.{name}"),
        None => name.to_owned(),
    }
}

fn name_of(id: &str) -> String {
    if id.len() <= MCP_TOOL_NAME_CHARS_MAX && !meta_tools::NAMES.contains(&id) && !has_digest(id) {
        return id.to_owned();
    }
    let digest = policy::digest::of_text(id).to_string();
    // Ids are ASCII, so every place is between two characters.
    let begin = &id[..id.len().min(MCP_TOOL_NAME_CHARS_MAX - DIGEST_CHARS - 1)];
    format!("{begin}-{}", &digest[..DIGEST_CHARS])
}

/// Whether a name ends as one of those that were changed. No other name does.
fn has_digest(name: &str) -> bool {
    let end = name.rsplit_once('-').map(|(_, end)| end);
    end.is_some_and(|end| end.len() == DIGEST_CHARS && end.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_id_has_a_name_of_its_own_that_fits() {
        assert_eq!(name_of("files.write_text"), "files.write_text");
        let long = |end: &str| format!("source.{}{end}", "n".repeat(127));
        let ours = meta_tools::NAMES.map(str::to_owned);
        // A source that knows how names are changed, and takes those of others.
        let forged: Vec<_> = ours.iter().cloned().chain([long("a")]).map(|id| name_of(&id)).collect();
        let ids: Vec<_> = ours.into_iter().chain([long("a"), long("b"), "n".repeat(MCP_TOOL_NAME_CHARS_MAX)]).chain(forged).collect();
        let names: HashSet<_> = ids.iter().map(|id| name_of(id)).collect();
        assert_eq!(names.len(), ids.len(), "{names:#?}");
        for name in &names {
            assert!(name.len() <= MCP_TOOL_NAME_CHARS_MAX && !meta_tools::NAMES.contains(&name.as_str()), "{name}");
            // With what some clients put before it, it still fits.
            assert!(format!("mcp__countersign__{name}").len() <= 128, "{name}");
        }
        assert!(name_of(&long("a")).starts_with("source.nnn"));
        assert!(name_of("get_invocation").starts_with("get_invocation-"));
    }
}
