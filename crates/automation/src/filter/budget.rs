//! What a filter may cost. It is judged for every event, so it is refused when it is saved, not when it is slow.

use super::{Filter, Member, Operator};
use crate::Mistake;
use crate::limits;
use countersign_core::json::escape;

pub(super) const TOO_COMPLEX: &str = "filter_too_complex";
pub(super) const BARE_REGEX_COST: u32 = 32;
/// How many parts are named in a mistake.
const PARTS_NAMED_MAX: usize = 8;

/// What one operator costs, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub pointer: String,
    pub cost: u32,
}

pub(super) fn parts(filter: &Filter) -> Vec<Part> {
    let mut parts = Vec::new();
    each_operator(filter, "", &mut |pointer, operator| parts.push(Part { pointer, cost: cost(operator) }));
    parts
}

/// What is too much in a filter that is otherwise right. Its bytes and its depth are judged while it is read.
pub(super) fn judge(filter: &Filter) -> Vec<Mistake> {
    let parts = parts(filter);
    let (mut values, mut regexes) = (0, 0);
    each_operator(filter, "", &mut |_, operator| match operator {
        Operator::In(listed) | Operator::NotIn(listed) => values += listed.len(),
        Operator::Regex(_) => regexes += 1,
        Operator::Equals(_)
        | Operator::NotEquals(_)
        | Operator::StartsWith(_)
        | Operator::EndsWith(_)
        | Operator::Contains(_)
        | Operator::Gt(_)
        | Operator::Gte(_)
        | Operator::Lt(_)
        | Operator::Lte(_)
        | Operator::Exists(_) => {}
    });
    let cost = parts.iter().map(|part| part.cost).sum::<u32>() as usize;
    [
        ("operators", parts.len(), limits::FILTER_LEAVES_MAX),
        ("listed values", values, limits::FILTER_VALUES_MAX),
        ("regexes", regexes, limits::FILTER_REGEXES_MAX),
        ("cost", cost, limits::FILTER_COST_MAX as usize),
    ]
    .into_iter()
    .filter(|(_, found, max)| found > max)
    .map(|(what, found, max)| too_complex(format!("the filter has {what} {found}, and {max} is the most")).hint(dearest(&parts)))
    .collect()
}

pub(super) fn too_complex(message: String) -> Mistake {
    Mistake::new(TOO_COMPLEX, message)
}

fn dearest(parts: &[Part]) -> String {
    let mut parts: Vec<_> = parts.iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.cost));
    let named = parts.iter().take(PARTS_NAMED_MAX).map(|part| format!("`{}` {}", part.pointer, part.cost)).collect::<Vec<_>>().join(", ");
    let more = parts.len().saturating_sub(PARTS_NAMED_MAX);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("split it into several triggers, or list values with `in`; its dearest parts cost: {named}{more}")
}

fn cost(operator: &Operator) -> u32 {
    match operator {
        Operator::Regex(pattern) if pattern.literals().is_empty() => BARE_REGEX_COST,
        Operator::Regex(_) => 4,
        Operator::Contains(_) => 2,
        Operator::Equals(_)
        | Operator::NotEquals(_)
        | Operator::In(_)
        | Operator::NotIn(_)
        | Operator::StartsWith(_)
        | Operator::EndsWith(_)
        | Operator::Gt(_)
        | Operator::Gte(_)
        | Operator::Lt(_)
        | Operator::Lte(_)
        | Operator::Exists(_) => 1,
    }
}

fn each_operator(filter: &Filter, at: &str, visit: &mut impl FnMut(String, &Operator)) {
    for member in &filter.members {
        match member {
            Member::Field(path, operators) => {
                let name = escape(&path.to_string());
                operators.iter().for_each(|operator| visit(format!("{at}/{name}/{}", operator.name()), operator));
            }
            Member::And(filters) => each_of(filters, &format!("{at}/$and"), visit),
            Member::Or(filters) => each_of(filters, &format!("{at}/$or"), visit),
            Member::Not(filter) => each_operator(filter, &format!("{at}/$not"), visit),
        }
    }
}

fn each_of(filters: &[Filter], at: &str, visit: &mut impl FnMut(String, &Operator)) {
    for (place, filter) in filters.iter().enumerate() {
        each_operator(filter, &format!("{at}/{place}"), visit);
    }
}
