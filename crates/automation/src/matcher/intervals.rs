//! Ranges of numbers, and which of them have a number in them.

use super::cover::Bound;
use crate::filter::Number;

/// Sorted by where they begin. Ends are places among all numbers that some range names, so that comparing them is cheap and exact.
pub(super) struct Intervals {
    points: Box<[Number]>,
    ranges: Box<[Interval]>,
}

struct Interval {
    first: u32,
    last: u32,
    /// The greatest `last` in the half of the search that this one is the middle of.
    last_max: u32,
    leaf: u32,
}

impl Intervals {
    pub(super) fn of(ranges: &[(Bound, Bound, u32)]) -> Self {
        let mut points: Vec<_> = ranges.iter().flat_map(|(low, high, _)| [low.number(), high.number()]).flatten().collect();
        points.sort_unstable();
        points.dedup();
        let last = 2 * points.len() as u32;
        let mut ranges: Vec<_> = ranges
            .iter()
            .map(|&(low, high, leaf)| Interval {
                first: match low {
                    Bound::Open => 0,
                    Bound::At(number) => place(&points, number),
                    Bound::Beyond(number) => place(&points, number) + 1,
                },
                last: match high {
                    Bound::Open => last,
                    Bound::At(number) => place(&points, number),
                    Bound::Beyond(number) => place(&points, number) - 1,
                },
                last_max: 0,
                leaf,
            })
            .collect();
        ranges.sort_unstable_by_key(|range| range.first);
        find_greatest(&mut ranges);
        Self { points: points.into(), ranges: ranges.into() }
    }

    /// Visits the leaf of every range that has the number.
    pub(super) fn each_with(&self, number: Number, mut visit: impl FnMut(u32)) {
        stab(&self.ranges, place(&self.points, number), &mut visit);
    }
}

/// Points have the odd places, and what lies between, before and after them the even ones.
fn place(points: &[Number], number: Number) -> u32 {
    match points.binary_search(&number) {
        Ok(point) => 2 * point as u32 + 1,
        Err(point) => 2 * point as u32,
    }
}

fn find_greatest(ranges: &mut [Interval]) -> u32 {
    let middle = ranges.len() / 2;
    let (before, rest) = ranges.split_at_mut(middle);
    let Some((range, after)) = rest.split_first_mut() else { return 0 };
    range.last_max = range.last.max(find_greatest(before)).max(find_greatest(after));
    range.last_max
}

fn stab(ranges: &[Interval], place: u32, visit: &mut impl FnMut(u32)) {
    let (before, rest) = ranges.split_at(ranges.len() / 2);
    let Some((range, after)) = rest.split_first() else { return };
    if range.last_max < place {
        return;
    }
    stab(before, place, visit);
    if range.first <= place {
        if place <= range.last {
            visit(range.leaf);
        }
        stab(after, place, visit);
    }
}
