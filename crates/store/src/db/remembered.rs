//! Answers that every call needs and that hardly ever change: whose token this is, which session, which mode.
//! They are kept until any row they could have come from is written, by this process or by another one.
//!
//! SECURITY: a revoked token must stop working at once. So forgetting is not left to whoever writes a statement: the writer
//! looks at every statement it runs (`changes_remembered`), and forgets before it answers the one who made the change.

use super::Val;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Answers kept at once; beyond that all are dropped, and asked for again as they are needed.
const ANSWERS_MAX: usize = 10_000;

/// The tables remembered answers are read from.
const TABLES: [&str; 13] = [
    "breakers",
    "orgs",
    "spaces",
    "users",
    "sessions",
    "tokens",
    "modes",
    "switches",
    "pins",
    "policies",
    "consents",
    "crossings",
    "session_labels",
];

/// Whether a statement that changes rows may change a remembered answer. The table is among its first words.
pub(super) fn changes_remembered(sql: &str) -> bool {
    let sql = sql.strip_prefix("/*").and_then(|rest| rest.split_once("*/")).map_or(sql, |(_, statement)| statement);
    sql.split_ascii_whitespace().take(3).any(|word| TABLES.contains(&word))
}

pub(crate) struct Remembered {
    /// Grows whenever answers may have changed: one that was read before that is never used after it.
    generation: AtomicU64,
    answers: Mutex<Answers>,
    /// The version of each org's rules that was last read, by the parameters it was asked with.
    versions: Mutex<HashMap<Vec<Val>, i64>>,
}

struct Answers {
    /// The generation all of them were read in.
    of: u64,
    /// By statement, then by its parameters.
    by_question: HashMap<StatementId, HashMap<Vec<Val>, Answer>>,
    count: usize,
    trust: Trust,
}

/// What the rows were read as. Each statement is read as one type, so the type is always the one asked for.
type Answer = Arc<dyn Any + Send + Sync>;

/// Where the statement's text stands in the program, which is quicker to compare than the text.
type StatementId = (usize, usize);

fn id_of(sql: &'static str) -> StatementId {
    (sql.as_ptr().addr(), sql.len())
}

/// Whether we would hear of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    Informed,
    Uninformed,
}

impl Remembered {
    pub(super) fn new(trust: Trust) -> Self {
        let answers = Answers { of: 0, by_question: HashMap::new(), count: 0, trust };
        Self { generation: AtomicU64::new(0), answers: Mutex::new(answers), versions: Mutex::default() }
    }

    /// To be taken before the question is asked of the database.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn recall<T: Send + Sync + 'static>(&self, sql: &'static str, params: &[Val]) -> Option<Arc<T>> {
        let generation = self.generation();
        let answers = self.answers.lock();
        if answers.of != generation {
            return None;
        }
        let answer = answers.by_question.get(&id_of(sql))?.get(params)?;
        Arc::clone(answer).downcast().ok()
    }

    /// Keeps what was answered to a question asked in `generation`, unless something has changed since.
    pub(super) fn keep<T: Send + Sync + 'static>(&self, generation: u64, sql: &'static str, params: &[Val], answer: &Arc<T>) {
        let mut answers = self.answers.lock();
        if answers.trust == Trust::Uninformed || generation != self.generation() {
            return;
        }
        if answers.of != generation || answers.count >= ANSWERS_MAX {
            answers.by_question.clear();
            answers.count = 0;
            answers.of = generation;
        }
        answers.count += 1;
        let answer: Answer = Arc::<T>::clone(answer);
        answers.by_question.entry(id_of(sql)).or_default().insert(params.to_vec(), answer);
    }

    /// Takes note of the version of the rules that the database has told. If it is another than before, whatever is remembered
    /// may be older than it: another server changed something and we have not heard of it yet. Returns the generation from here on.
    pub(super) fn note_version(&self, params: &[Val], version: i64) -> u64 {
        let before = self.versions.lock().insert(params.to_vec(), version);
        if before != Some(version) {
            self.forget();
        }
        self.generation()
    }

    pub(super) fn forget(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether we hear of changes others make begins or ends. Nothing is carried across.
    pub(super) fn trust(&self, trust: Trust) {
        self.answers.lock().trust = trust;
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = "SELECT name FROM users WHERE org_id = $1";

    fn asked(remembered: &Remembered, name: &str) {
        let generation = remembered.generation();
        remembered.keep(generation, SQL, &[Val::from("org")], &Arc::new(name.to_owned()));
    }

    fn recalled(remembered: &Remembered) -> Option<Arc<String>> {
        remembered.recall(SQL, &[Val::from("org")])
    }

    #[test]
    fn an_answer_is_used_until_something_changes() {
        let remembered = Remembered::new(Trust::Informed);
        assert_eq!(recalled(&remembered), None);
        asked(&remembered, "ada");
        assert_eq!(recalled(&remembered), Some(Arc::new("ada".to_owned())));
        assert_eq!(remembered.recall::<String>(SQL, &[Val::from("other")]), None);
        remembered.forget();
        assert_eq!(recalled(&remembered), None);
    }

    #[test]
    fn an_answer_read_before_a_change_is_not_kept_after_it() {
        let remembered = Remembered::new(Trust::Informed);
        let generation = remembered.generation();
        remembered.forget();
        remembered.keep(generation, SQL, &[Val::from("org")], &Arc::new("ada".to_owned()));
        assert_eq!(recalled(&remembered), None);
    }

    #[test]
    fn nothing_is_remembered_across_a_new_version_of_the_rules() {
        let remembered = Remembered::new(Trust::Informed);
        let org = [Val::from("org")];
        let generation = remembered.note_version(&org, 1);
        asked(&remembered, "ada");
        assert_eq!(remembered.note_version(&org, 1), generation);
        assert!(recalled(&remembered).is_some());
        assert_ne!(remembered.note_version(&org, 2), generation);
        assert_eq!(recalled(&remembered), None);
    }

    #[test]
    fn who_would_not_hear_of_a_change_remembers_nothing() {
        let remembered = Remembered::new(Trust::Uninformed);
        asked(&remembered, "ada");
        assert_eq!(recalled(&remembered), None);
        remembered.trust(Trust::Informed);
        asked(&remembered, "ada");
        assert!(recalled(&remembered).is_some());
        remembered.trust(Trust::Uninformed);
        assert_eq!(recalled(&remembered), None);
    }

    #[test]
    fn every_way_to_change_a_remembered_table_is_seen() {
        for table in TABLES {
            assert!(changes_remembered(&format!("INSERT INTO {table} (org_id) VALUES ($1)")));
            assert!(changes_remembered(&format!("UPDATE {table} SET name = $1 WHERE org_id = $2")));
            assert!(changes_remembered(&format!("/* every org */ DELETE FROM {table}")));
        }
        assert!(!changes_remembered("INSERT INTO entries (org_id) VALUES ($1)"));
        assert!(!changes_remembered("UPDATE invocations SET status = $1 WHERE org_id = $2"));
    }
}
