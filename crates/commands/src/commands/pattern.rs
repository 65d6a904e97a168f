//! Names with `*` in them, which stand for several: `playwright.*`, `get_*`. They are for what is there now, and for nothing that comes later.

use crate::shared::*;
use api::action::AvailableResponse;

pub(super) fn is_one(name: &str) -> bool {
    name.contains('*')
}

/// Whether the name is one that the pattern stands for. A `*` stands for any text, also for none.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(head) else { return false };
    name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| fits(rest, &name[at..]))
}

/// The ids of the actions that the pattern stands for.
pub(super) async fn actions(pattern: &str, client: &Client) -> Result<Vec<String>, Failure> {
    let available = client.get::<AvailableResponse>(&["actions"], &[]).await?.read;
    let all = available.sources.into_iter().flat_map(|source| source.actions).map(|action| action.id);
    let found: Vec<_> = all.filter(|id| fits(pattern, id)).collect();
    if found.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("`{}` stands for no action that there is", clean::line(pattern)))
            .hint("countersign action list"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("kit.*", "kit.look", true),
            ("kit.*", "kit2.look", false),
            ("*", "kit.look", true),
            ("get_*_by_*", "get_issue_by_id", true),
            ("get_*_by_*", "get_issue", false),
            ("*_issue", "get_issue", true),
            ("*_issue", "get_issues", false),
            ("look", "look", true),
            ("look", "looks", false),
            ("ä*", "äö", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
