//! The known names that are most like one that is not known. What strangers send is compared here and nowhere else.
//!
//! SECURITY: the likeness of two texts costs the product of their lengths. So only the beginning of each is compared, and only so many
//! candidates: those whose letters allow the most likeness, which is counted in one pass over each.

use crate::limits::{HINT_CANDIDATES_MAX, HINT_CHARS_MAX};

/// How many names are suggested for one that does not exist.
pub const SUGGESTIONS_MAX: usize = 3;

/// Likeness below which a suggestion would only confuse.
pub const LIKENESS_MIN: f64 = 0.85;

/// The part of what two names lack in likeness that an equal beginning makes up for, at most.
const PREFIX_BONUS_MAX: f64 = 0.4;

/// The known names that are most like one that is not known, the best first.
pub fn nearest<'a>(named: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let near = ranked(named, known, LIKENESS_MIN, str::to_owned);
    near.into_iter().map(|(_, name)| name).filter(|name| *name != named).take(SUGGESTIONS_MAX).collect()
}

/// The known names that are at least so like one, with their likeness from 0 to 1, the best first; of equal ones, the one that came first.
/// Both sides are compared in their `plain` form.
pub fn ranked<'a>(
    named: &str,
    known: impl IntoIterator<Item = &'a str>,
    likeness_min: f64,
    plain: impl Fn(&str) -> String,
) -> Vec<(f64, &'a str)> {
    let named = plain(beginning(named));
    let likeness = |name: &'a str| (strsim::jaro_winkler(&named, &plain(beginning(name))), name);
    let mut near: Vec<_> = candidates(&named, known, likeness_min, &plain).into_iter().map(likeness).collect();
    near.retain(|(likeness, _)| *likeness >= likeness_min);
    near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    near
}

/// The names that can be so like the one that is meant, at most `HINT_CANDIDATES_MAX` of them, in their order.
fn candidates<'a>(
    named: &str,
    known: impl IntoIterator<Item = &'a str>,
    likeness_min: f64,
    plain: &impl Fn(&str) -> String,
) -> Vec<&'a str> {
    let letters = Letters::of(named);
    let most = |(at, name): (usize, &'a str)| (letters.likeness_max(&plain(beginning(name))), at, name);
    let mut possible: Vec<_> = known.into_iter().enumerate().map(most).filter(|(most, _, _)| *most >= likeness_min).collect();
    possible.sort_by(|(one, first, _), (other, second, _)| other.total_cmp(one).then(first.cmp(second)));
    possible.truncate(HINT_CANDIDATES_MAX);
    possible.sort_by_key(|(_, at, _)| *at);
    possible.into_iter().map(|(_, _, name)| name).collect()
}

/// The part of a name that is compared.
fn beginning(name: &str) -> &str {
    name.char_indices().nth(HINT_CHARS_MAX).map_or(name, |(end, _)| &name[..end])
}

/// How often each letter is in a name; letters that share their lowest byte count as one, which only makes more of them alike.
struct Letters {
    counts: [u8; 256],
    chars: u32,
}

impl Letters {
    fn of(name: &str) -> Self {
        let mut letters = Self { counts: [0; 256], chars: 0 };
        for letter in name.chars() {
            let count = &mut letters.counts[low_byte(letter)];
            *count = count.saturating_add(1);
            letters.chars += 1;
        }
        letters
    }

    /// What the likeness of a name to this one can be at most, as if all letters that both have stood in the same order.
    fn likeness_max(&self, other: &str) -> f64 {
        let mut left = self.counts;
        let (mut shared, mut chars) = (0_u32, 0_u32);
        for letter in other.chars() {
            chars += 1;
            let left = &mut left[low_byte(letter)];
            if *left > 0 {
                *left -= 1;
                shared += 1;
            }
        }
        if shared == 0 {
            return if self.chars == 0 && chars == 0 { 1.0 } else { 0.0 };
        }
        let (shared, of_this, of_other) = (f64::from(shared), f64::from(self.chars), f64::from(chars));
        let jaro = (shared / of_this + shared / of_other + 1.0) / 3.0;
        jaro + PREFIX_BONUS_MAX * (1.0 - jaro)
    }
}

const fn low_byte(letter: char) -> usize {
    letter as usize & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_suggested_and_anything_else_is_not() {
        let known = ["files.list", "files.read_text", "files.write_text", "http.get"];
        for (named, expected) in [
            ("files.write_txt", Some("files.write_text")),
            ("file.list", Some("files.list")),
            ("http.gte", Some("http.get")),
            ("calendar.book", None),
            ("", None),
        ] {
            assert_eq!(nearest(named, known).first().copied(), expected, "{named}");
        }
        assert!(!nearest("files.list", known).contains(&"files.list"));
        assert!(nearest("files.list", []).is_empty());
    }

    #[test]
    fn what_is_compared_is_bounded_whatever_is_sent() {
        let known: Vec<String> = (0..5_000).map(|at| format!("files.write_text_{at}{}", "x".repeat(900))).collect();
        let named = format!("files.write_text_7{}", "x".repeat(900_000));
        let compared = std::cell::Cell::new(0);
        let longest = std::cell::Cell::new(0);
        let plain = |name: &str| {
            longest.set(longest.get().max(name.chars().count()));
            name.to_owned()
        };
        let all = known.iter().map(String::as_str);
        assert_eq!(candidates(&plain(beginning(&named)), all.clone(), LIKENESS_MIN, &plain).len(), HINT_CANDIDATES_MAX);
        let ranked = ranked(&named, all.inspect(|_| compared.set(compared.get() + 1)), LIKENESS_MIN, plain);
        assert_eq!((ranked.len(), longest.get()), (HINT_CANDIDATES_MAX, HINT_CHARS_MAX));
        assert_eq!(compared.get(), known.len(), "each name is looked at once");
        assert_eq!(ranked.first().map(|(_, name)| &name[..18]), Some("files.write_text_7"));
    }

    #[test]
    fn nothing_that_is_like_enough_is_left_out_by_its_letters() {
        let names =
            ["files.list", "files.lsit", "iflse.list", "files", "http.get", "a", "", "żółw", "zolw", "aaaa", "aaab", "files.list.all"];
        for one in names {
            for other in names {
                let most = Letters::of(one).likeness_max(other);
                assert!(most >= strsim::jaro_winkler(one, other) - 1e-9, "{one} {other}: {most}");
            }
        }
    }
}
