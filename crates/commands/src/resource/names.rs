//! Shows people, spaces and grants by name. If the caller may not read the names, ids are shown and nothing fails.

use crate::client::Client;
use crate::output::{Cell, Terminal};
use crate::style::clean;
use api::identity::{SpaceView, UserView};
use api::rules::GrantView;
use std::collections::BTreeMap;

/// Names by id.
#[derive(Debug, Default)]
pub(crate) struct Names {
    people: BTreeMap<String, String>,
    spaces: BTreeMap<String, String>,
    /// What grants cover: they have no other name.
    grants: BTreeMap<String, String>,
}

impl Names {
    /// Loads the names of people if a person reads the output. Programs get ids only.
    pub(crate) async fn load(client: &Client, terminal: &Terminal) -> Self {
        if !terminal.is_for_people() {
            return Self::default();
        }
        let all = client.pages::<UserView>(&["users"], &[]).all().await.unwrap_or_default();
        Self { people: all.into_iter().map(|(user, _)| (user.id, user.name)).collect(), ..Self::default() }
    }

    /// Loads the names of spaces too, for what shows one.
    pub(crate) async fn and_spaces(mut self, client: &Client, terminal: &Terminal) -> Self {
        if terminal.is_for_people() {
            let all = client.pages::<SpaceView>(&["spaces"], &[]).all().await.unwrap_or_default();
            self.spaces.extend(all.into_iter().map(|(space, _)| (space.id, space.name)));
        }
        self
    }

    /// Looks up what a grant covers too, for a call that one replaced the approval of.
    pub(crate) async fn and_grant(mut self, grant: Option<&str>, client: &Client, terminal: &Terminal) -> Self {
        if let Some(id) = grant.filter(|_| terminal.is_for_people())
            && let Ok(answer) = client.get::<GrantView>(&["grants", id], &[]).await
        {
            self.grants.insert(id.to_owned(), answer.read.covers);
        }
        self
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

    /// Who requested something, for tables: an agent by the title of its session, anybody else as `cell` shows them.
    pub(crate) fn requester(&self, principal: &str, session_title: Option<&str>) -> Cell {
        titled(principal, session_title).unwrap_or_else(|| self.cell(principal))
    }

    /// `main (spc_…4x0abc)`, or the id alone.
    pub(crate) fn space(&self, id: &str) -> Cell {
        self.spaces.get(id).map_or_else(|| Cell::text(id), |name| Cell::shown(format!("{name} ({})", short(id)), id))
    }

    /// `grt_… for files.*`, or the id alone. The id is whole: a grant is shown and revoked by it.
    pub(crate) fn grant(&self, id: &str) -> Cell {
        self.grants.get(id).map_or_else(|| Cell::text(id), |covers| Cell::shown(format!("{id} for {covers}"), id))
    }

    fn find(&self, principal: &str) -> Option<&str> {
        self.people.get(principal.strip_prefix("user:").unwrap_or(principal)).map(String::as_str)
    }
}

/// An agent by the title of its session, if that has one.
pub(super) fn titled(principal: &str, session_title: Option<&str>) -> Option<Cell> {
    let title = session_title.filter(|title| principal.starts_with("agent:") && !title.trim().is_empty())?;
    Some(Cell::shown(title, principal))
}

/// The kind and the end of an id: enough to tell it from others.
fn short(id: &str) -> String {
    let end = |rest: &str| rest.get(rest.len().checked_sub(6)?..).map(str::to_owned);
    id.split_once('_').and_then(|(kind, rest)| Some(format!("{kind}_…{}", end(rest)?))).unwrap_or_else(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str, name: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(id.to_owned(), name.to_owned())])
    }

    #[test]
    fn a_person_has_a_name_and_everybody_else_an_id() {
        let names = Names { people: of("usr_1", "robin"), ..Names::default() };
        for (principal, name) in [("user:usr_1", "robin"), ("usr_1", "robin"), ("user:usr_2", "user:usr_2"), ("agent:usr_1", "agent:usr_1")]
        {
            assert_eq!(names.name(principal), name);
        }
        assert_eq!(names.cell("user:usr_1"), Cell::shown("robin", "user:usr_1"));
    }

    #[test]
    fn an_agent_is_called_by_the_title_of_its_session() {
        let names = Names { people: of("usr_1", "robin"), ..Names::default() };
        assert_eq!(names.requester("agent:ses_1", Some("release bot")), Cell::shown("release bot", "agent:ses_1"));
        assert_eq!(names.requester("agent:ses_1", Some(" ")), Cell::principal("agent:ses_1"));
        // A person works in a session that is named after their machine.
        assert_eq!(names.requester("user:usr_1", Some("cli@host")), Cell::shown("robin", "user:usr_1"));
    }

    #[test]
    fn a_space_and_a_grant_have_their_ids_beside_their_names() {
        let names = Names { spaces: of("spc_01k9z6m4x0abc", "main"), grants: of("grt_1", "files.*"), ..Names::default() };
        assert_eq!(names.space("spc_01k9z6m4x0abc"), Cell::shown("main (spc_…4x0abc)", "spc_01k9z6m4x0abc"));
        assert_eq!(names.space("spc_2"), Cell::text("spc_2"));
        assert_eq!(names.grant("grt_1"), Cell::shown("grt_1 for files.*", "grt_1"));
        assert_eq!(names.grant("grt_2"), Cell::text("grt_2"));
    }
}
