//! The remembered answers, and every way in which they must be forgotten.

use super::*;
use countersign_core::Timestamp;

const USERS: &str = "SELECT name FROM users WHERE org_id = $1";
const BEARER: &str = "SELECT t.id FROM tokens t LEFT JOIN users u ON u.org_id = t.org_id AND u.id = t.user_id WHERE t.hash = $1";

fn org(number: u8) -> OrgId {
    OrgId::new(Timestamp::from_micros(1), [number; 10])
}

fn change(org: Option<OrgId>, table: &'static str) -> Change {
    Change { org, table: Some(table), session: None }
}

fn asked(remembered: &Remembered, sql: &'static str, org: Option<&OrgId>) {
    let about = About { org: org.cloned(), sessions: ReadSessions::Any };
    remembered.keep(remembered.asked_at(), sql, &[Val::from(org.map(OrgId::as_str))], &about, &Arc::new("ada".to_owned()));
}

fn is_kept(remembered: &Remembered, sql: &'static str, org: Option<&OrgId>) -> bool {
    remembered.recall::<String>(sql, &[Val::from(org.map(OrgId::as_str))]).is_some()
}

#[test]
fn an_answer_is_used_until_its_table_changes_in_its_org() {
    let remembered = Remembered::new(Trust::Informed);
    let (one, other) = (org(1), org(2));
    assert!(!is_kept(&remembered, USERS, Some(&one)));
    asked(&remembered, USERS, Some(&one));
    asked(&remembered, USERS, Some(&other));
    asked(&remembered, BEARER, None);
    remembered.forget(&[change(Some(one.clone()), "modes"), change(None, "spaces")]);
    assert!(is_kept(&remembered, USERS, Some(&one)) && is_kept(&remembered, USERS, Some(&other)) && is_kept(&remembered, BEARER, None));
    remembered.forget(&[change(Some(one.clone()), "users")]);
    assert!(!is_kept(&remembered, USERS, Some(&one)));
    assert!(is_kept(&remembered, USERS, Some(&other)), "another org's answers stay");
    assert!(!is_kept(&remembered, BEARER, None), "an answer of no known org is every org's");
    remembered.forget(&[change(None, "users")]);
    assert!(!is_kept(&remembered, USERS, Some(&other)));
}

#[test]
fn an_answer_read_before_a_change_is_not_used_after_it() {
    let remembered = Remembered::new(Trust::Informed);
    let asked_at = remembered.asked_at();
    remembered.forget(&[change(Some(org(1)), "users")]);
    remembered.keep(asked_at, USERS, &[Val::from(org(1).as_str())], &About::of(&org(1)), &Arc::new("ada".to_owned()));
    assert!(!is_kept(&remembered, USERS, Some(&org(1))));
    // The same holds for an org that was not known before the change.
    let asked_at = remembered.asked_at();
    remembered.forget(&[change(None, "users")]);
    remembered.keep(asked_at, USERS, &[Val::from(org(2).as_str())], &About::of(&org(2)), &Arc::new("ada".to_owned()));
    assert!(!is_kept(&remembered, USERS, Some(&org(2))));
}

#[test]
fn nothing_of_an_org_is_remembered_across_a_new_version_of_its_rules() {
    let remembered = Remembered::new(Trust::Informed);
    let (one, other) = (org(1), org(2));
    remembered.note_version(&one, 1);
    asked(&remembered, USERS, Some(&one));
    asked(&remembered, USERS, Some(&other));
    remembered.note_version(&one, 1);
    assert!(is_kept(&remembered, USERS, Some(&one)));
    remembered.note_version(&one, 2);
    assert!(!is_kept(&remembered, USERS, Some(&one)) && is_kept(&remembered, USERS, Some(&other)));
}

#[test]
fn who_would_not_hear_of_a_change_remembers_nothing() {
    let remembered = Remembered::new(Trust::Uninformed);
    asked(&remembered, USERS, Some(&org(1)));
    assert!(!is_kept(&remembered, USERS, Some(&org(1))));
    remembered.trust(Trust::Informed);
    asked(&remembered, USERS, Some(&org(1)));
    assert!(is_kept(&remembered, USERS, Some(&org(1))));
    remembered.trust(Trust::Uninformed);
    assert!(!is_kept(&remembered, USERS, Some(&org(1))));
}

const SESSION: &str = "SELECT title FROM sessions WHERE org_id = $1 AND id = $2";
const TITLES: &str = "SELECT title FROM sessions WHERE org_id = $1";

#[test]
fn an_answer_about_one_session_outlives_the_changes_of_others() {
    let remembered = Remembered::new(Trust::Informed);
    let org = org(1);
    let (session, other) = two_sessions();
    let of_session = |session| Change { session, ..change(Some(org.clone()), "sessions") };
    let only = |session| About { org: Some(org.clone()), sessions: ReadSessions::Only(session) };
    let params = [Val::from(org.as_str()), Val::from(session.as_str())];
    let [agent, person] = [Val::from("an agent"), Val::from("a person")].map(|token| [token]);
    let ask = || {
        let answer = Arc::new("ada".to_owned());
        remembered.keep(remembered.asked_at(), SESSION, &params, &only(Some(session.clone())), &answer);
        remembered.keep(remembered.asked_at(), SESSION, &agent, &only(Some(session.clone())), &answer);
        remembered.keep(remembered.asked_at(), SESSION, &person, &only(None), &answer);
        remembered.keep(remembered.asked_at(), TITLES, &params, &About::of(&org), &answer);
    };
    let is_kept = |sql: &'static str, params: &[Val]| remembered.recall::<String>(sql, params).is_some();
    let kept = || (is_kept(SESSION, &params), is_kept(SESSION, &agent), is_kept(SESSION, &person), is_kept(TITLES, &params));
    ask();
    assert_eq!(kept(), (true, true, true, true));
    remembered.forget(&[of_session(Some(other))]);
    assert_eq!(kept(), (true, true, true, false));
    ask();
    remembered.forget(&[of_session(Some(session.clone()))]);
    assert_eq!(kept(), (false, false, true, false), "a person's token names no session");
    for all in [of_session(None), change(None, "sessions"), Change { org: Some(org.clone()), ..Change::ANYTHING }, Change::ANYTHING] {
        ask();
        remembered.forget(&[all]);
        assert_eq!(kept(), (false, false, true, false));
    }
}

/// Two whose changes are told apart.
fn two_sessions() -> (SessionId, SessionId) {
    let session = |number: u8| SessionId::new(Timestamp::from_micros(1), [number; 10]);
    let first = session(0);
    let other = (1..).map(session).find(|other| group_of(other) != group_of(&first)).unwrap();
    (first, other)
}

#[test]
fn a_statement_that_changes_one_session_says_which() {
    let (id, (session, _)) = (org(1), two_sessions());
    let params = [Val::from(id.as_str()), Val::from(session.as_str()), Val::from(1_i64)];
    let sessions = |session: Option<&SessionId>| vec![Change { session: session.cloned(), ..change(Some(id.clone()), "sessions") }];
    for one in [
        "INSERT INTO sessions (org_id, id, title) VALUES ($1, $2, $3)",
        "INSERT INTO sessions (org_id, id, title)\n VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        "UPDATE sessions SET ended_at = $3 WHERE org_id = $1 AND id = $2 AND ended_at IS NULL",
        "DELETE FROM sessions WHERE org_id = $1 AND id = $2",
    ] {
        assert_eq!(changes(one, &params), sessions(Some(&session)), "{one}");
    }
    for several in [
        "INSERT INTO sessions (org_id, id, title) VALUES ($1, $2, $3), ($1, $3, $2)",
        "INSERT INTO sessions (org_id, title, id) VALUES ($1, $3, $2)",
        "INSERT INTO sessions (org_id, id, title) SELECT $1, $2, $3",
        "INSERT INTO sessions (org_id, id, title) SELECT org_id, $3, title FROM sessions WHERE org_id = $1 AND id = $2",
        "UPDATE sessions SET title = (SELECT title FROM sessions WHERE org_id = $1 AND id = $2) WHERE org_id = $1 AND id = $3",
        "UPDATE sessions SET ended_at = $3 WHERE org_id = $1 AND id = $2 OR title = $3",
        "UPDATE sessions SET ended_at = $3 WHERE org_id = $1 AND title = $3 AND id = $2",
        "UPDATE sessions SET ended_at = $3 WHERE org_id = $1 AND id IN ($2)",
        "UPDATE sessions SET ended_at = $3 WHERE org_id = $1",
        "DELETE FROM sessions WHERE org_id = $1 AND id = $3",
        "DELETE FROM sessions WHERE org_id = $1 AND id = $22",
    ] {
        let told = changes(several, &params);
        assert!(told.iter().all(|change| change.session.is_none()) && told.len() == 1, "{several}: {told:?}");
    }
    let mut restored = Vec::new();
    for number in 0..=CHANGES_MAX as i64 + 5 {
        let session = SessionId::new(Timestamp::from_micros(number * 1_000), [1; 10]);
        note_changes(
            &mut restored,
            "INSERT INTO sessions (org_id, id, title) VALUES ($1, $2, $2)",
            &[params[0].clone(), Val::from(session.as_str())],
        );
    }
    assert_eq!(restored, [Change::ANYTHING], "so many are not told apart");
    let other = "UPDATE users SET disabled_at = $3 WHERE org_id = $1 AND id = $2";
    assert_eq!(changes(other, &params), [change(Some(id.clone()), "users")], "only sessions are told apart");
}

fn changes(sql: &str, params: &[Val]) -> Vec<Change> {
    let mut changes = Vec::new();
    note_changes(&mut changes, sql, params);
    changes
}

#[test]
fn every_way_to_change_a_remembered_table_is_seen_with_its_org() {
    let id = org(1);
    let params = [Val::from("first"), Val::from(id.as_str())];
    let reversed = [Val::from(id.as_str()), Val::from("second")];
    for table in TABLES {
        let (in_org, in_all) = (vec![change(Some(id.clone()), table)], vec![change(None, table)]);
        assert_eq!(changes(&format!("INSERT INTO {table} (org_id, id) VALUES ($1, $2) ON CONFLICT DO NOTHING"), &reversed), in_org);
        assert_eq!(changes(&format!("UPDATE {table} SET name = $1\n  WHERE org_id = $2 AND id = $3"), &params), in_org);
        assert_eq!(changes(&format!("/* why */ DELETE FROM {table} WHERE org_id = $1 AND id = $2"), &reversed), in_org);
        // These statements do not limit themselves to one org in a form we recognise, so they count as a change in every org.
        assert_eq!(changes(&format!("/* every org */ DELETE FROM {table}"), &[]), in_all);
        assert_eq!(changes(&format!("DELETE FROM {table} WHERE org_id <> $1"), &reversed), in_all);
        assert_eq!(changes(&format!("UPDATE {table} SET a = 1 WHERE id IN (SELECT id FROM x WHERE org_id = $1)"), &reversed), in_all);
        assert_eq!(changes(&format!("INSERT INTO {table} (id, org_id) VALUES ($1, $2)"), &params), in_all);
        assert_eq!(changes(&format!("INSERT INTO {table} (org_id, id) SELECT $1, $2"), &reversed), in_all);
        // The change is not at the beginning of the statement.
        let deep =
            format!("WITH gone AS (DELETE FROM {table} WHERE org_id = $1 RETURNING id) UPDATE invocations SET a = 1 WHERE org_id = $1");
        assert_eq!(changes(&deep, &reversed), in_all);
        // A statement that cannot be parsed counts as a change of everything.
        for unread in
            [format!("INSERT OR REPLACE INTO {table} VALUES ($1)"), format!("UPDATE \"{table}\" SET a = 1"), format!("DROP TABLE {table}")]
        {
            assert_eq!(changes(&unread, &reversed), [Change::ANYTHING], "{unread}");
        }
        assert_eq!(changes(&format!("SELECT id FROM {table} WHERE org_id = $1 FOR UPDATE"), &reversed), []);
    }
    assert_eq!(changes("INSERT INTO entries (org_id) VALUES ($1)", &reversed), []);
    assert_eq!(changes("UPDATE invocations SET status = $1 WHERE org_id = $2", &params), []);
}

#[test]
fn a_change_is_told_to_other_servers_as_it_is() {
    let one = Change { session: Some(two_sessions().0), ..change(Some(org(1)), "sessions") };
    for change in [change(Some(org(1)), "modes"), change(None, "tokens"), one, Change::ANYTHING] {
        assert_eq!(Change::from_notice(&change.to_notice()), change);
    }
    // Notices sent by hand, or by another version.
    for notice in ["", "modes", "org_x y", "* new_table"] {
        assert_eq!(Change::from_notice(notice), Change::ANYTHING, "{notice}");
    }
}

#[test]
fn a_query_is_forgotten_with_each_table_it_reads() {
    let bits =
        |tables: &[&str]| TABLES.iter().enumerate().filter(|(_, table)| tables.contains(table)).fold(0, |bits, (at, _)| bits | 1 << at);
    assert_eq!(tables_of(USERS), Some(bits(&["users"])));
    assert_eq!(tables_of(BEARER), Some(bits(&["tokens", "users"])));
    assert_eq!(
        tables_of("SELECT id, (SELECT name FROM spaces) FROM sessions s, modes WHERE org_id = $1"),
        Some(bits(&["modes", "sessions", "spaces"]))
    );
}

#[test]
#[should_panic(expected = "are not noticed")]
fn remembering_a_table_whose_changes_nobody_notices_fails() {
    asked(&Remembered::new(Trust::Informed), "SELECT id FROM sessions WHERE id IN (SELECT session_id FROM invocations)", None);
}
