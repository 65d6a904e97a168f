//! The rows that a batch inserts at its end. Many of them go into the same few tables, and a statement costs us and PostgreSQL more than a row:
//! so rows of one table are inserted by one statement where that changes nothing.

use super::super::{Statement, Val};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// So many rows at once, as long as there are as many, then so many. There are few numbers, so that few statements have to be prepared.
const ROWS_AT_ONCE: [usize; 3] = [16, 4, 1];

/// A statement with all its rows.
pub(super) type Gathered<'s> = (Cow<'s, str>, Cow<'s, [Val]>);

/// The statements that do the same. Rows come first, of those tables that no other statement speaks of; the others keep their order.
pub(super) fn gather(statements: &[Statement]) -> Vec<Gathered<'_>> {
    let mut rows: BTreeMap<&str, Vec<&[Val]>> = BTreeMap::new();
    for (sql, params) in statements {
        rows.entry(sql).or_default().push(params);
    }
    let distinct: Vec<&str> = rows.keys().copied().collect();
    rows.retain(|sql, rows| {
        let insert = Insert::read(sql, rows.first().map_or(0, |row| row.len()));
        rows.len() > 1 && insert.is_some_and(|insert| distinct.iter().all(|other| other == sql || !other.contains(insert.table)))
    });
    let mut gathered = Vec::new();
    for (sql, rows) in &rows {
        let mut rest = rows.as_slice();
        for at_once in ROWS_AT_ONCE {
            while let Some((some, others)) = rest.split_at_checked(at_once) {
                let columns = some.first().map_or(0, |row| row.len());
                if let Some(insert) = Insert::read(sql, columns) {
                    gathered.push((Cow::Owned(insert.of_rows(at_once, columns)), Cow::Owned(some.concat())));
                }
                rest = others;
            }
        }
    }
    let others = statements.iter().filter(|(sql, _)| !rows.contains_key(sql));
    gathered.extend(others.map(|(sql, params)| (Cow::Borrowed(*sql), Cow::Borrowed(params.as_slice()))));
    gathered
}

/// A statement that inserts one row and nothing else.
struct Insert<'s> {
    table: &'s str,
    /// Up to the values, and what comes after them.
    before: &'s str,
    after: &'s str,
}

impl<'s> Insert<'s> {
    /// `None` unless its values are its `params`, in their order.
    fn read(sql: &'s str, params: usize) -> Option<Self> {
        let table = sql.split_whitespace().nth(2).filter(|_| sql.starts_with("INSERT "))?;
        let (before, values) = sql.split_once(" VALUES (")?;
        let (values, after) = values.split_once(')')?;
        let is_plain = values == places(0, params) && (after.is_empty() || after.ends_with("DO NOTHING"));
        is_plain.then_some(Self { table, before, after })
    }

    fn of_rows(&self, rows: usize, columns: usize) -> String {
        let values: Vec<_> = (0..rows).map(|row| format!("({})", places(row * columns, columns))).collect();
        format!("{} VALUES {}{}", self.before, values.join(", "), self.after)
    }
}

fn places(before: usize, columns: usize) -> String {
    let places: Vec<_> = (1..=columns).map(|column| format!("${}", before + column)).collect();
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::vals;

    const EVENT: &str = "INSERT INTO events (org_id, seq) VALUES ($1, $2)";
    const STEP: &str = "INSERT INTO run_steps (org_id, step) VALUES ($1, $2) ON CONFLICT (org_id, step) DO NOTHING";
    const ATTEMPT: &str = "INSERT INTO attempts (org_id, state) VALUES ($1, 'dispatched')";
    const SESSION: &str = "INSERT INTO sessions (org_id, id) VALUES ($1, $2)";
    const ENDED: &str = "UPDATE sessions SET ended_at = $1 WHERE org_id = $2";

    fn texts(statements: &[Statement]) -> Vec<(String, usize)> {
        gather(statements).into_iter().map(|(sql, params)| (sql.into_owned(), params.len())).collect()
    }

    #[test]
    fn rows_of_one_table_are_inserted_together() {
        let mut statements: Vec<Statement> = (0..21_i64).map(|seq| (EVENT, vals!["org", seq].into())).collect();
        statements.insert(1, (STEP, vals!["org", 1_i64].into()));
        let gathered = gather(&statements);
        assert_eq!(
            gathered.iter().map(|(_, params)| params.len()).collect::<Vec<_>>(),
            [32, 8, 2, 2],
            "16 rows, 4, 1, and the other table"
        );
        assert!(gathered[0].0.starts_with("INSERT INTO events (org_id, seq) VALUES ($1, $2), ($3, $4), "), "{}", gathered[0].0);
        assert_eq!(gathered[1].0, "INSERT INTO events (org_id, seq) VALUES ($1, $2), ($3, $4), ($5, $6), ($7, $8)");
        let seqs: Vec<Val> = gathered[..3].iter().flat_map(|(_, params)| params.iter().skip(1).step_by(2).cloned()).collect();
        assert_eq!(seqs, (0..21).map(Val::Int).collect::<Vec<_>>(), "each row once, in its order");
    }

    #[test]
    fn what_follows_the_values_is_kept() {
        let step = || (STEP, vals!["org", 1_i64].into());
        let four =
            "INSERT INTO run_steps (org_id, step) VALUES ($1, $2), ($3, $4), ($5, $6), ($7, $8) ON CONFLICT (org_id, step) DO NOTHING";
        assert_eq!(texts(&[step(), step(), step(), step()]), [(four.to_owned(), 8)]);
    }

    #[test]
    fn what_depends_on_the_order_keeps_it() {
        let session = || (SESSION, vals!["org", "ses"].into());
        let ended = || (ENDED, vals![1_i64, "org"].into());
        let attempt = || (ATTEMPT, vals!["org"].into());
        let statements: [Statement; 6] = [session(), ended(), session(), session(), attempt(), attempt()];
        let as_they_are: Vec<_> = statements.iter().map(|(sql, params)| ((*sql).to_owned(), params.len())).collect();
        assert_eq!(texts(&statements), as_they_are, "another statement speaks of the table, or not all values are params");
    }
}
