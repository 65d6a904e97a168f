//! Shows people by name. If the caller may not read the names, ids are shown and nothing fails.

use crate::client::Client;
use crate::output::{Cell, Terminal};
use crate::style::clean;
use api::identity::UserView;
use std::collections::BTreeMap;

/// People's names by id.
#[derive(Debug, Default)]
pub(crate) struct People(BTreeMap<String, String>);

impl People {
    /// Loads the names if a person reads the output. Programs get ids only.
    pub(crate) async fn load(client: &Client, terminal: &Terminal) -> Self {
        if !terminal.is_for_people() {
            return Self::default();
        }
        let all = client.pages::<UserView>(&["users"], &[]).all().await.unwrap_or_default();
        Self(all.into_iter().map(|(user, _)| (user.id, user.name)).collect())
    }

    /// The person's name, or the principal's id.
    pub(crate) fn name(&self, principal: &str) -> String {
        clean::line(self.find(principal).unwrap_or(principal))
    }

    /// For tables: the name or a short id for people, the whole id for pipes.
    pub(crate) fn cell(&self, principal: &str) -> Cell {
        self.find(principal).map_or_else(|| Cell::principal(principal), |name| Cell::shown(name, principal))
    }

    /// For records, where there is room: the name or the whole id.
    pub(crate) fn whole(&self, principal: &str) -> Cell {
        Cell::shown(self.name(principal), principal)
    }

    fn find(&self, principal: &str) -> Option<&str> {
        self.0.get(principal.strip_prefix("user:").unwrap_or(principal)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_has_a_name_and_everybody_else_an_id() {
        let people = People(BTreeMap::from([("usr_1".to_owned(), "robin".to_owned())]));
        for (principal, name) in [("user:usr_1", "robin"), ("usr_1", "robin"), ("user:usr_2", "user:usr_2"), ("agent:usr_1", "agent:usr_1")]
        {
            assert_eq!(people.name(principal), name);
        }
        assert_eq!(people.cell("user:usr_1"), Cell::shown("robin", "user:usr_1"));
    }
}
