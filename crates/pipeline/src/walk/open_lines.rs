//! The callers who wait on this server, by what they asked for. That a caller has gone is known here at once, and in the store a moment later.

use crate::line::Line;
use countersign_core::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Every open line of this server whose call may be asked for again.
#[derive(Default)]
pub(crate) struct OpenLines(Mutex<HashMap<Digest, Vec<Line>>>);

impl OpenLines {
    /// Adds a line, and returns the others with the same identity.
    pub(crate) fn add(&self, line: &Line, identity: Digest) -> Vec<Line> {
        // A call that is decided again may have become another one.
        self.remove(line);
        line.asks_for(identity);
        let mut all = self.0.lock();
        let same = all.entry(identity).or_default();
        let others = same.clone();
        same.push(line.clone());
        others
    }

    /// Removes a line of which the store knows everything, or needs to know nothing.
    pub(crate) fn remove(&self, line: &Line) {
        let Some(identity) = line.identity() else { return };
        let mut all = self.0.lock();
        if let Some(same) = all.get_mut(&identity) {
            same.retain(|other| other.id() != line.id());
            if same.is_empty() {
                all.remove(&identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_what_it_asks_for_until_it_is_removed() {
        let (lines, identity, other) = (OpenLines::default(), Digest::new([1; 32]), Digest::new([2; 32]));
        let [first, second, third] = ["first", "second", "third"].map(|id| Line::new(id.into()));
        assert_eq!(lines.add(&first, identity).len(), 0);
        assert_eq!(lines.add(&second, other).len(), 0, "another call");
        let found = lines.add(&second, identity);
        assert_eq!(found.iter().map(Line::id).collect::<Vec<_>>(), ["first"], "it has become the same call");
        lines.remove(&first);
        lines.remove(&second);
        assert_eq!(lines.add(&third, identity).len(), 0);
        lines.remove(&third);
        assert_eq!(lines.0.lock().len(), 0);
    }
}
