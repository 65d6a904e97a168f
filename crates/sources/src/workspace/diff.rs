//! The difference between two texts, line by line, for the person who has to approve. Its work and its length are limited.

use crate::limits::{CODE_DIFF_BYTES_MAX, FILE_DIFF_BYTES_MAX};
use serde_json::{Value, json};

/// The largest comparison table. For larger texts, the diff shows one block replaced by another.
const CELLS_MAX: usize = 1_000_000;
/// How many unchanged lines are shown around a change.
const AROUND: usize = 3;

/// How much of a diff is shown.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    bytes_max: usize,
    line_chars_max: usize,
}

impl Room {
    /// For the person who is asked about one call.
    pub(crate) const PREVIEW: Self = Self { bytes_max: FILE_DIFF_BYTES_MAX, line_chars_max: 400 };
    /// For a reviewer of code: no line of it is cut.
    pub(crate) const REVIEW: Self = Self { bytes_max: CODE_DIFF_BYTES_MAX, line_chars_max: usize::MAX };
}

/// The steps from one text to another, line by line.
pub(crate) struct Diff<'t> {
    steps: Vec<Step<'t>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'t> {
    Keep(&'t str),
    Remove(&'t str),
    Add(&'t str),
}

impl<'t> Diff<'t> {
    pub(crate) fn of(old: &'t str, new: &'t str) -> Self {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let before = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
        let after = old[before..].iter().rev().zip(new[before..].iter().rev()).take_while(|(one, other)| one == other).count();
        let (old_end, new_end) = (old.len() - after, new.len() - after);
        let mut steps: Vec<Step<'t>> = old[..before].iter().map(|line| Step::Keep(line)).collect();
        between(&old[before..old_end], &new[before..new_end], &mut steps);
        steps.extend(old[old_end..].iter().map(|line| Step::Keep(line)));
        Self { steps }
    }

    pub(crate) fn added(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Add(_))).count()
    }

    pub(crate) fn removed(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Remove(_))).count()
    }

    /// Adds the line counts and the text of the diff to a preview.
    pub(crate) fn describe(&self, preview: &mut Value) {
        let (shown, is_truncated) = self.shown(Room::PREVIEW);
        preview["added_lines"] = json!(self.added());
        preview["removed_lines"] = json!(self.removed());
        preview["diff"] = json!(shown);
        preview["diff_truncated"] = json!(is_truncated);
    }

    /// As much of the diff's text as is shown, and whether there is more.
    pub(crate) fn shown(&self, room: Room) -> (String, bool) {
        let full = self.text(room);
        let shown = cut(&full, room.bytes_max);
        (shown.to_owned(), shown.len() < full.len())
    }

    /// Changed lines with a few unchanged ones around them, each run of them under the line numbers it begins at.
    fn text(&self, room: Room) -> String {
        let mut text = String::new();
        let (mut old_line, mut new_line) = (1_usize, 1_usize);
        let mut shown_before = false;
        for (position, step) in self.steps.iter().enumerate() {
            let nearby = &self.steps[position.saturating_sub(AROUND)..self.steps.len().min(position + AROUND + 1)];
            let shown = nearby.iter().any(|step| !matches!(step, Step::Keep(_)));
            if shown && !shown_before {
                text.push_str(&format!("@@ -{old_line} +{new_line} @@\n"));
            }
            shown_before = shown;
            let (mark, line) = match step {
                Step::Keep(line) => (' ', line),
                Step::Remove(line) => ('-', line),
                Step::Add(line) => ('+', line),
            };
            if shown {
                push_line(&mut text, mark, line, room.line_chars_max);
            }
            match step {
                Step::Keep(_) => (old_line, new_line) = (old_line + 1, new_line + 1),
                Step::Remove(_) => old_line += 1,
                Step::Add(_) => new_line += 1,
            }
            // What lies beyond will be cut away; enough is written for `cut` to notice.
            if text.len() > 2 * room.bytes_max {
                break;
            }
        }
        text
    }
}

/// The longest common subsequence of lines, by dynamic programming. If the table would be too large, one block replaces another.
fn between<'t>(old: &[&'t str], new: &[&'t str], steps: &mut Vec<Step<'t>>) {
    if old.len().saturating_mul(new.len()) > CELLS_MAX {
        steps.extend(old.iter().map(|line| Step::Remove(line)));
        steps.extend(new.iter().map(|line| Step::Add(line)));
        return;
    }
    // common[i][j] is the number of lines that `old[i..]` and `new[j..]` have in common. It is at most 1000, because the number of cells is
    // limited.
    let width = new.len() + 1;
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            steps.push(Step::Keep(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            steps.push(Step::Remove(old[i]));
            i += 1;
        } else {
            steps.push(Step::Add(new[j]));
            j += 1;
        }
    }
}

fn push_line(text: &mut String, mark: char, line: &str, line_chars_max: usize) {
    let (content, end) = line.strip_suffix('\n').map_or((line, "\n\\ no newline at the end\n"), |content| (content, "\n"));
    text.push(mark);
    match content.char_indices().nth(line_chars_max) {
        Some((cut, _)) => {
            text.push_str(&content[..cut]);
            text.push('…');
        }
        None => text.push_str(content),
    }
    text.push_str(end);
}

/// The whole lines that fit.
fn cut(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = text.as_bytes()[..bytes_max].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(Diff::of(old, new).text(Room::PREVIEW), expected);
    }

    #[test]
    fn a_change_is_shown_with_what_surrounds_it() {
        check("a\n", "a\n", "");
        check("", "a\nb\n", "@@ -1 +1 @@\n+a\n+b\n");
        check("a\nb\n", "", "@@ -1 +1 @@\n-a\n-b\n");
        check("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\nfive\n6\n7\n", "@@ -2 +2 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n");
        check("a", "a\n", "@@ -1 +1 @@\n-a\n\\ no newline at the end\n+a\n");
        let old: String = (1..=30).map(|line| format!("{line}\n")).collect();
        let new = old.replacen("\n6\n", "\nsix\n", 1).replacen("\n26\n", "\n", 1);
        check(&old, &new, "@@ -3 +3 @@\n 3\n 4\n 5\n-6\n+six\n 7\n 8\n 9\n@@ -23 +23 @@\n 23\n 24\n 25\n-26\n 27\n 28\n 29\n");
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line_and_marked() {
        let mut preview = json!({});
        let new = "some words on a line\n".repeat(20_000);
        Diff::of("", &new).describe(&mut preview);
        let text = preview["diff"].as_str().unwrap();
        assert!(text.len() <= FILE_DIFF_BYTES_MAX && text.ends_with('\n'));
        assert_eq!((&preview["added_lines"], &preview["diff_truncated"]), (&json!(20_000), &json!(true)));
        Diff::of("", &"é".repeat(100_000)).describe(&mut preview);
        assert!(preview["diff"].as_str().unwrap().len() <= FILE_DIFF_BYTES_MAX);
    }

    #[test]
    fn texts_too_large_to_compare_are_one_block_for_another() {
        let old: String = (0..2_000).map(|line| format!("old {line}\n")).collect();
        let new: String = (0..2_000).map(|line| format!("new {line}\n")).collect();
        let diff = Diff::of(&old, &new);
        assert_eq!((diff.removed(), diff.added()), (2_000, 2_000));
    }

    proptest! {
        #[test]
        fn the_steps_always_lead_from_the_old_text_to_the_new(old in "[ab\n]{0,60}", new in "[ab\n]{0,60}") {
            let diff = Diff::of(&old, &new);
            let mut from = String::new();
            let mut to = String::new();
            for step in &diff.steps {
                match step {
                    Step::Keep(line) => { from.push_str(line); to.push_str(line); }
                    Step::Remove(line) => from.push_str(line),
                    Step::Add(line) => to.push_str(line),
                }
            }
            prop_assert_eq!(diff.added() == 0 && diff.removed() == 0, old == new);
            prop_assert_eq!((from, to), (old, new));
        }
    }
}
