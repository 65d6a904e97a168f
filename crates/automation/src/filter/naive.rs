//! What a filter means. This evaluator is the specification: the matcher has to give the same answers, only sooner.

use super::{Filter, Member, Number, Operator, ScalarRef};
use serde_json::Value;

/// What is left of a path, and what is to be true of the value there.
pub(crate) type Condition<'f, T> = (&'f [Box<str>], T);

pub fn matches(filter: &Filter, event: &Value) -> bool {
    let fields = filter.members.iter().filter_map(|member| match member {
        Member::Field(path, operators) => Some((path.names(), operators.as_slice())),
        Member::And(_) | Member::Or(_) | Member::Not(_) => None,
    });
    together(Some(event), &fields.collect::<Vec<_>>(), &alone)
        && filter.members.iter().all(|member| match member {
            Member::Field(..) => true,
            Member::And(filters) => filters.iter().all(|filter| matches(filter, event)),
            Member::Or(filters) => filters.iter().any(|filter| matches(filter, event)),
            Member::Not(filter) => !matches(filter, event),
        })
}

/// The conditions of one filter object, seen from `value`. Those that go on through one array speak of the same element of it; one that is by
/// itself is judged by `alone`. Paths differ from each other.
pub(crate) fn together<'f, T: Copy>(
    value: Option<&Value>,
    conditions: &[Condition<'f, T>],
    alone: &impl Fn(Option<&Value>, Condition<'f, T>) -> bool,
) -> bool {
    match value {
        Some(value) if conditions.len() > 1 => {
            let (here, below): (Vec<_>, Vec<_>) = conditions.iter().partition(|(path, _)| path.is_empty());
            here.iter().all(|condition| alone(Some(value), *condition)) && through(value, &below, alone)
        }
        Some(_) | None => conditions.iter().all(|condition| alone(value, *condition)),
    }
}

fn through<'f, T: Copy>(value: &Value, conditions: &[Condition<'f, T>], alone: &impl Fn(Option<&Value>, Condition<'f, T>) -> bool) -> bool {
    match (value, conditions) {
        (_, [] | [_]) => conditions.iter().all(|condition| alone(Some(value), *condition)),
        (Value::Array(elements), _) if elements.is_empty() => together(None, conditions, alone),
        (Value::Array(elements), _) => elements.iter().any(|element| through(element, conditions, alone)),
        (_, [(path, _), ..]) => {
            let (same, others): (Vec<_>, Vec<_>) = conditions.iter().partition(|(other, _)| other.first() == path.first());
            let rest: Vec<_> = same.iter().map(|(path, test)| (path.get(1..).unwrap_or_default(), *test)).collect();
            together(path.first().and_then(|name| value.get(&**name)), &rest, alone) && through(value, &others, alone)
        }
    }
}

/// One test: some value satisfies all of its positive operators, and none is what a negated one excludes.
fn alone(value: Option<&Value>, (path, operators): Condition<'_, &[Operator]>) -> bool {
    let (mut exists, mut scalars) = (false, Vec::new());
    value.into_iter().for_each(|value| collect(value, path, &mut exists, &mut scalars));
    let (positive, others): (Vec<_>, Vec<_>) = operators.iter().partition(|operator| operator.is_positive());
    (positive.is_empty() || scalars.iter().any(|scalar| positive.iter().all(|operator| holds(operator, *scalar))))
        && others.iter().all(|operator| {
            if let Operator::Exists(wanted) = operator { exists == *wanted } else { !scalars.iter().any(|scalar| holds(operator, *scalar)) }
        })
}

/// Everything at a path, through all arrays on the way and at its end.
fn collect<'e>(value: &'e Value, path: &[Box<str>], exists: &mut bool, scalars: &mut Vec<ScalarRef<'e>>) {
    *exists |= path.is_empty();
    match (value, path) {
        (Value::Array(elements), _) => elements.iter().for_each(|element| collect(element, path, exists, scalars)),
        (_, []) => scalars.extend(ScalarRef::of(value)),
        (_, [name, rest @ ..]) => value.get(&**name).into_iter().for_each(|value| collect(value, rest, exists, scalars)),
    }
}

/// Of a negated operator: whether its positive holds.
fn holds(operator: &Operator, scalar: ScalarRef<'_>) -> bool {
    let text = |test: &dyn Fn(&str) -> bool| matches!(scalar, ScalarRef::Text(text) if test(text));
    let number = |test: &dyn Fn(&Number) -> bool| matches!(scalar, ScalarRef::Number(number) if test(&number));
    match operator {
        Operator::Equals(wanted) | Operator::NotEquals(wanted) => scalar == wanted.as_ref(),
        Operator::In(listed) | Operator::NotIn(listed) => listed.iter().any(|wanted| scalar == wanted.as_ref()),
        Operator::StartsWith(start) => text(&|text| text.starts_with(start.as_str())),
        Operator::EndsWith(end) => text(&|text| text.ends_with(end.as_str())),
        Operator::Contains(part) => text(&|text| text.contains(part.as_str())),
        Operator::Regex(pattern) => text(&|text| pattern.is_match(text)),
        Operator::Gt(bound) => number(&|number| number > bound),
        Operator::Gte(bound) => number(&|number| number >= bound),
        Operator::Lt(bound) => number(&|number| number < bound),
        Operator::Lte(bound) => number(&|number| number <= bound),
        Operator::Exists(_) => true,
    }
}
