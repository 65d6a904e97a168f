//! Splits a key into words: `snake_case`, `kebab-case`, `camelCase` and mixtures of them.

pub(crate) fn split(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = key.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(character) = characters.next() {
        let after = characters.peek().copied();
        if !character.is_alphanumeric() || before.is_some_and(|before| starts_word(before, character, after)) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
        before = Some(character);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A word starts at the capital in `apiKey`, at the last capital of an acronym as in `APIKey`, and where digits begin or end.
fn starts_word(before: char, character: char, after: Option<char>) -> bool {
    (before.is_lowercase() && character.is_uppercase())
        || (before.is_uppercase() && character.is_uppercase() && after.is_some_and(char::is_lowercase))
        || (before.is_ascii_digit() != character.is_ascii_digit())
}
