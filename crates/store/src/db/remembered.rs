//! A cache of answers that every call needs and that hardly ever change: whose token this is, which session, which mode.
//! An answer is kept until a row of the tables it was read from is written in its org, by this process or by another one.
//!
//! SECURITY: a revoked token must stop working at once. So invalidation is not left to the authors of statements: the writer reads from
//! every statement which table of which org it changes (`note_changes`), and forgets the answers before it tells the caller that the
//! change is done. A statement that it cannot parse counts as a change of everything.

use super::Val;
use countersign_core::{OrgId, SessionId};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// The most answers kept at once. Beyond that all are dropped, and read again when they are needed.
const ANSWERS_MAX: usize = 10_000;

/// A batch with more changes than this, such as a backup that is restored, counts as a change of everything.
const CHANGES_MAX: usize = 1_024;

/// The tables that remembered answers are read from.
const TABLES: [&str; 20] = [
    "allowed",
    "automations",
    "breakers",
    "canaries",
    "channels",
    "consents",
    "crossings",
    "modes",
    "orgs",
    "pins",
    "policies",
    "prices",
    "secrets",
    "session_labels",
    "sessions",
    "sources",
    "spaces",
    "switches",
    "tokens",
    "users",
];

/// The one of them whose rows are told apart. Each run of an automation begins and ends a session: the answers about all others stay.
const SESSIONS: &str = "sessions";

/// The sessions of an org are put into so many groups, and a change of one counts for its group: this takes the same memory however many there are.
const GROUPS: usize = 64;

fn group_of(session: &SessionId) -> usize {
    let mut hasher = DefaultHasher::new();
    session.as_str().hash(&mut hasher);
    (hasher.finish() % GROUPS as u64) as usize
}

/// What an answer is about.
pub(crate) struct About {
    /// An answer without an org is forgotten when any org changes.
    pub(crate) org: Option<OrgId>,
    pub(crate) sessions: ReadSessions,
}

impl About {
    pub(super) fn of(org: &OrgId) -> Self {
        Self { org: Some(org.clone()), sessions: ReadSessions::Any }
    }
}

/// Which sessions an answer was read from, if its query names their table.
pub(crate) enum ReadSessions {
    Any,
    /// One or none. Its id is in the parameters of the query, or in a row of another remembered table.
    Only(Option<SessionId>),
}

/// One change to the tables above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// `None`: rows of every org.
    org: Option<OrgId>,
    /// `None`: every table.
    table: Option<&'static str>,
    /// The only session that it changes, in the table of sessions.
    session: Option<SessionId>,
}

impl Change {
    const ANYTHING: Self = Self { org: None, table: None, session: None };

    /// The text by which one server tells the others. It holds no character that needs quoting.
    pub(super) fn to_notice(&self) -> String {
        let mut notice = format!("{} {}", self.org.as_ref().map_or("*", OrgId::as_str), self.table.unwrap_or("*"));
        if let Some(session) = &self.session {
            notice.push(' ');
            notice.push_str(session.as_str());
        }
        notice
    }

    /// A notice that does not parse counts as a change of everything.
    pub(super) fn from_notice(notice: &str) -> Self {
        let mut words = notice.split(' ');
        let (org, table) = (words.next().unwrap_or_default(), words.next().and_then(known));
        let session = words.next().and_then(|session| SessionId::parse(session).ok());
        match (OrgId::parse(org), table) {
            (Ok(org), Some(table)) => Self { org: Some(org), table: Some(table), session },
            (Err(_), Some(table)) => Self { org: None, table: Some(table), session: None },
            (_, None) => Self::ANYTHING,
        }
    }
}

fn known(table: &str) -> Option<&'static str> {
    TABLES.into_iter().find(|known| *known == table)
}

/// Adds the changes that this statement makes to the remembered tables.
pub(super) fn note_changes(changes: &mut Vec<Change>, sql: &str, params: &[Val]) {
    let mut note = |change: Change| {
        if changes.len() >= CHANGES_MAX {
            *changes = vec![Change::ANYTHING];
        }
        if !changes.contains(&Change::ANYTHING) && !changes.contains(&change) {
            changes.push(change);
        }
    };
    let statement = without_comment(sql);
    let mut words = statement.split_ascii_whitespace();
    let table = match (words.next(), words.next()) {
        (Some("SELECT"), _) => return,
        (Some("INSERT"), Some("INTO")) | (Some("DELETE"), Some("FROM")) => words.next(),
        (Some("UPDATE"), table) => table,
        // A `WITH` may hold several statements. Every remembered table it names counts as changed, in every org.
        (Some("WITH"), _) => {
            let tables = words_of(statement).filter_map(known);
            return tables.for_each(|table| note(Change { org: None, table: Some(table), session: None }));
        }
        _ => None,
    };
    match table.filter(|table| table.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')) {
        None => note(Change::ANYTHING),
        Some(table) => {
            if let Some(table) = known(table) {
                let session = (table == SESSIONS).then(|| session_of(statement, params)).flatten();
                note(Change { org: org_of(statement, params), table: Some(table), session });
            }
        }
    }
}

fn without_comment(sql: &str) -> &str {
    sql.strip_prefix("/*").and_then(|rest| rest.split_once("*/")).map_or(sql, |(_, statement)| statement)
}

/// The one org whose rows a statement changes, if the statement names it in one of our two usual forms.
fn org_of(statement: &str, params: &[Val]) -> Option<OrgId> {
    let place = match statement.split_once("WHERE ") {
        Some((_, condition)) => condition.strip_prefix("org_id = $")?.split(|byte: char| !byte.is_ascii_digit()).next()?.parse().ok()?,
        None => {
            let (columns, values) = statement.split_once("VALUES ")?;
            let is_first = columns.split_once('(')?.1.starts_with("org_id,") && values.starts_with("($1,");
            is_first.then_some(1_usize)?
        }
    };
    org_in(params.get(place.checked_sub(1)?)?)
}

/// The one session that a statement changes, if the statement names it in one of our two usual forms.
fn session_of(statement: &str, params: &[Val]) -> Option<SessionId> {
    // The session that it names may be the one it reads.
    if words_of(statement).any(|word| word == "SELECT") {
        return None;
    }
    let is_digit = |letter: char| letter.is_ascii_digit();
    let place = match statement.split_once("WHERE ") {
        Some((_, condition)) => {
            let rest = condition.strip_prefix("org_id = $")?.trim_start_matches(is_digit).strip_prefix(" AND id = $")?;
            let others = rest.trim_start_matches(is_digit);
            let place = rest.strip_suffix(others)?;
            (!words_of(others).any(|word| word == "OR")).then(|| place.parse().ok())??
        }
        None => {
            let (columns, values) = statement.split_once("VALUES ")?;
            let is_second = columns.split_once('(')?.1.starts_with("org_id, id,") && values.starts_with("($1, $2,");
            let is_one = values.matches('(').count() == 1;
            (is_second && is_one).then_some(2_usize)?
        }
    };
    match params.get(place.checked_sub(1)?)? {
        Val::Text(text) => SessionId::parse(text).ok(),
        Val::Null | Val::Int(_) | Val::Bytes(_) => None,
    }
}

fn org_in(value: &Val) -> Option<OrgId> {
    match value {
        Val::Text(text) => OrgId::parse(text).ok(),
        Val::Null | Val::Int(_) | Val::Bytes(_) => None,
    }
}

fn words_of(statement: &str) -> impl Iterator<Item = &str> {
    statement.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// The remembered tables that a query reads, as bits; `None` if it also reads another table, whose changes are not noted.
fn tables_of(sql: &str) -> Option<u32> {
    let mut tables = 0;
    let mut is_table = false;
    for word in words_of(without_comment(sql)) {
        match TABLES.iter().position(|table| *table == word) {
            Some(at) => tables |= 1 << at,
            // `FROM (SELECT …`: the table comes later.
            None if is_table && word != "SELECT" => return None,
            None => {}
        }
        is_table = matches!(word, "FROM" | "JOIN");
    }
    Some(tables)
}

pub(crate) struct Remembered(Mutex<State>);

struct State {
    /// The number of changes so far.
    clock: u64,
    /// When each table was last changed, by `clock`, with one row per org. Row 0 records the changes of every org; an answer that belongs
    /// to no known org is checked against it.
    changed: Vec<Changed>,
    /// The index of each org's row in `changed`.
    orgs: HashMap<OrgId, usize>,
    /// Keyed by statement, then by its parameters.
    answers: HashMap<StatementId, Asked>,
    count: usize,
    trust: Trust,
    /// The version of each org's rules as last read.
    versions: HashMap<OrgId, i64>,
}

#[derive(Clone)]
struct Changed {
    tables: [u64; TABLES.len()],
    /// The same of each group of sessions.
    sessions: Box<[u64; GROUPS]>,
}

/// One statement and its answers.
struct Asked {
    /// The tables it reads, as bits.
    tables: u32,
    by_params: HashMap<Vec<Val>, Answer>,
}

struct Answer {
    /// The parsed rows. Each statement is always parsed into the same type, so the downcast in `recall` succeeds.
    value: Arc<dyn Any + Send + Sync>,
    /// The value of `clock` before the query ran. Later changes may be missing from the answer.
    asked_at: u64,
    /// The index of its org's row in `changed`.
    org: usize,
    /// The group of the one session that it was read from. `Some(None)`: it was read from none.
    session: Option<Option<usize>>,
}

/// The address and length of the statement's text in the program, which are quicker to compare than the text.
type StatementId = (usize, usize);

fn id_of(sql: &'static str) -> StatementId {
    (sql.as_ptr().addr(), sql.len())
}

/// Whether this server is told of changes that others make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    Informed,
    Uninformed,
}

impl Remembered {
    pub(super) fn new(trust: Trust) -> Self {
        Self(Mutex::new(State {
            clock: 0,
            changed: vec![Changed { tables: [0; TABLES.len()], sessions: Box::new([0; GROUPS]) }],
            orgs: HashMap::new(),
            answers: HashMap::new(),
            count: 0,
            trust,
            versions: HashMap::new(),
        }))
    }

    /// Must be read before the query is sent to the database.
    pub(super) fn asked_at(&self) -> u64 {
        self.0.lock().clock
    }

    pub(super) fn recall<T: Send + Sync + 'static>(&self, sql: &'static str, params: &[Val]) -> Option<Arc<T>> {
        let state = self.0.lock();
        let asked = state.answers.get(&id_of(sql))?;
        let answer = asked.by_params.get(params)?;
        let changed = state.changed.get(answer.org)?;
        let changed_at = |(table, at): (usize, &u64)| match answer.session {
            Some(group) if TABLES[table] == SESSIONS => group.map_or(0, |group| changed.sessions[group]),
            _ => *at,
        };
        let is_current = |(table, at): (usize, &u64)| asked.tables & 1 << table == 0 || changed_at((table, at)) <= answer.asked_at;
        changed.tables.iter().enumerate().all(is_current).then(|| Arc::clone(&answer.value).downcast().ok())?
    }

    /// Keeps the answer to a query.
    pub(super) fn keep<T: Send + Sync + 'static>(&self, asked_at: u64, sql: &'static str, params: &[Val], about: &About, answer: &Arc<T>) {
        let tables = tables_of(sql);
        debug_assert!(tables.is_some(), "changes of a table that this remembered query reads are not noticed: {sql}");
        let mut state = self.0.lock();
        let Some(tables) = tables.filter(|_| state.trust == Trust::Informed) else {
            return;
        };
        if state.count >= ANSWERS_MAX {
            state.answers.clear();
            state.count = 0;
        }
        let org = about.org.as_ref().map_or(0, |org| state.place_of(org));
        let session = match &about.sessions {
            ReadSessions::Any => None,
            ReadSessions::Only(session) => Some(session.as_ref().map(group_of)),
        };
        let asked = state.answers.entry(id_of(sql)).or_insert_with(|| Asked { tables, by_params: HashMap::new() });
        let value: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(answer);
        if asked.by_params.insert(params.to_vec(), Answer { value, asked_at, org, session }).is_none() {
            state.count += 1;
        }
    }

    /// Notes the version of an org's rules as the database reports it. If it differs from the last one, the remembered answers of the org
    /// may be older than this version: another server changed something and its notice has not arrived yet. So they are forgotten.
    pub(super) fn note_version(&self, org: &OrgId, version: i64) {
        let mut state = self.0.lock();
        if state.versions.insert(org.clone(), version) != Some(version) {
            state.forget(&Change { org: Some(org.clone()), ..Change::ANYTHING });
        }
    }

    pub(super) fn forget(&self, changes: &[Change]) {
        if !changes.is_empty() {
            let mut state = self.0.lock();
            changes.iter().for_each(|change| state.forget(change));
        }
    }

    /// Sets whether this server hears of other servers' changes. Either way, everything remembered so far is forgotten.
    pub(super) fn trust(&self, trust: Trust) {
        let mut state = self.0.lock();
        state.trust = trust;
        state.forget(&Change::ANYTHING);
    }
}

impl State {
    fn place_of(&mut self, org: &OrgId) -> usize {
        if let Some(place) = self.orgs.get(org) {
            return *place;
        }
        // A change of every org also concerned this one, so the new row starts as a copy of row 0.
        self.changed.push(self.changed[0].clone());
        self.orgs.insert(org.clone(), self.changed.len() - 1);
        self.changed.len() - 1
    }

    fn forget(&mut self, change: &Change) {
        self.clock += 1;
        let now = self.clock;
        let place = change.org.as_ref().map(|org| self.place_of(org));
        for (at, changed) in self.changed.iter_mut().enumerate() {
            if at == 0 || place.is_none_or(|place| place == at) {
                for (table, at) in TABLES.iter().zip(&mut changed.tables) {
                    if change.table.is_none_or(|only| only == *table) {
                        *at = now;
                    }
                }
                if change.table.is_none_or(|only| only == SESSIONS) {
                    match change.session.as_ref().map(group_of) {
                        Some(group) => changed.sessions[group] = now,
                        None => changed.sessions.fill(now),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "remembered_tests.rs"]
mod tests;
