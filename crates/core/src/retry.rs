//! Whether a call that failed is made again: one table, by what is known of the call and by what a second effect would do.
//! `docs/concepts/idempotency.md` says the same in words.

use crate::action::{Class, Repeatability};

/// What is known of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// Nothing was done: it was not sent, or its source had no time for it.
    NotDone,
    /// It was sent, and nobody saw what became of it.
    Unknown,
    /// The source answered that it failed, for a reason that may pass.
    Passing,
    /// The source answered, or we refused, and would again.
    Final,
}

impl FailureCause {
    pub const ALL: [Self; 4] = [Self::NotDone, Self::Unknown, Self::Passing, Self::Final];

    /// The table: whether the same call may be made again. `class` is that of the call, `repeatability` that of its action.
    pub const fn permits_another(self, class: Class, repeatability: Repeatability) -> bool {
        match (self, class, repeatability) {
            (Self::NotDone, _, _) => true,
            (Self::Unknown | Self::Passing, Class::Read, _) => true,
            (Self::Unknown | Self::Passing, Class::Write | Class::Danger, Repeatability::Repeatable) => true,
            (Self::Unknown | Self::Passing, Class::Write | Class::Danger, Repeatability::NotRepeatable) => false,
            (Self::Final, _, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tier;

    /// How the page names each cause.
    const ROWS: [(&str, FailureCause); 4] = [
        ("nothing was done", FailureCause::NotDone),
        ("sent, outcome unknown", FailureCause::Unknown),
        ("answered: it may pass", FailureCause::Passing),
        ("answered: final", FailureCause::Final),
    ];

    /// The columns of the page, after that of the cause and that of its codes.
    const COLUMNS: [(&[Tier], Repeatability); 4] = [
        (&[Tier::R0, Tier::R1], Repeatability::Repeatable),
        (&[Tier::R0, Tier::R1], Repeatability::NotRepeatable),
        (&[Tier::R2, Tier::R3, Tier::R4], Repeatability::Repeatable),
        (&[Tier::R2, Tier::R3, Tier::R4], Repeatability::NotRepeatable),
    ];

    #[test]
    fn every_cell_of_the_page_is_what_decides() {
        let page = include_str!("../../../docs/concepts/idempotency.md");
        let (_, table) = page.split_once("| what is known |").unwrap();
        assert_eq!(ROWS.map(|(_, cause)| cause), FailureCause::ALL);
        for (name, cause) in ROWS {
            let row = table.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap_or_else(|| panic!("no row `{name}`"));
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            // R0 and R1 have one column, whatever their actions declare.
            for (at, (tiers, repeatability)) in [2, 2, 3, 4].into_iter().zip(COLUMNS) {
                for tier in tiers {
                    let permitted = cause.permits_another(tier.class(), repeatability);
                    assert_eq!(cells[at].starts_with("again"), permitted, "{name}, {tier}, {repeatability:?}: {}", cells[at]);
                }
            }
        }
    }
}
