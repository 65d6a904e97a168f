//! Parts of strings: which of many texts a string contains, in one pass over it.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

pub(super) struct Texts {
    /// Nothing, if there is too much to look for; then every leaf is judged.
    automaton: Option<AhoCorasick>,
    /// The leaves of each text: those up to where the next one's begin.
    begins: Box<[u32]>,
    leaves: Box<[u32]>,
}

impl Texts {
    pub(super) fn of(mut texts: Vec<(&str, u32)>) -> Self {
        texts.sort_unstable();
        let (mut begins, mut distinct) = (Vec::new(), Vec::new());
        for (place, (text, _)) in texts.iter().enumerate() {
            if distinct.last() != Some(text) {
                distinct.push(*text);
                begins.push(place as u32);
            }
        }
        begins.push(texts.len() as u32);
        let automaton = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(&distinct).ok();
        Self { automaton, begins: begins.into(), leaves: texts.iter().map(|(_, leaf)| *leaf).collect() }
    }

    pub(super) fn each_in(&self, string: &str, mut visit: impl FnMut(u32)) {
        let Some(automaton) = &self.automaton else {
            return self.leaves.iter().for_each(|leaf| visit(*leaf));
        };
        for found in automaton.find_overlapping_iter(string) {
            let text = found.pattern().as_usize();
            if let Some(&[begin, end]) = self.begins.get(text..text + 2) {
                self.leaves.get(begin as usize..end as usize).unwrap_or_default().iter().for_each(|leaf| visit(*leaf));
            }
        }
    }
}
