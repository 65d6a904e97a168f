//! Filters of text. What is no text is taken as it would be rendered.

use super::arguments::{Arguments, Given, bounded};
use crate::limits::TEMPLATE_OUTPUT_BYTES_MAX;
use crate::template::json::{failed, text_of, too_large};
use minijinja::Error;

/// Jinja's own: a text this much longer than asked for is not cut, since the end would take as much room.
const LEEWAY: usize = 5;
const LENGTH_DEFAULT: usize = 255;

pub(super) fn upper(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, [])?;
    fits(text_of(&arguments.value)?.to_uppercase())
}

pub(super) fn lower(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, [])?;
    fits(text_of(&arguments.value)?.to_lowercase())
}

/// A few letters become longer in the other case.
fn fits(text: String) -> Result<String, Error> {
    bounded(&text)?;
    Ok(text)
}

pub(super) fn trim(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, ["chars"])?;
    let text = text_of(&arguments.value)?;
    Ok(match arguments.text(0)? {
        None => text.trim().to_owned(),
        Some(chars) => text.trim_matches(|one| chars.contains(one)).to_owned(),
    })
}

pub(super) fn truncate(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, ["length", "killwords", "end", "leeway"])?;
    let text = text_of(&arguments.value)?;
    let length = arguments.count(0, "length")?.unwrap_or(LENGTH_DEFAULT);
    let end = arguments.text(2)?.unwrap_or_else(|| "...".to_owned());
    let leeway = arguments.count(3, "leeway")?.unwrap_or(LEEWAY);
    let room = length.checked_sub(end.chars().count()).ok_or_else(|| failed("`length` is smaller than what is put at the end"))?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take(room).collect();
    let kept = match kept.rsplit_once(' ') {
        Some((words, _)) if !arguments.flag(1)? => words.to_owned(),
        Some(_) | None => kept,
    };
    fits(kept + &end)
}

/// The size is known before anything is made.
pub(super) fn replace(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, ["old", "new", "count"])?;
    let text = text_of(&arguments.value)?;
    let (Some(old), Some(new)) = (arguments.text(0)?, arguments.text(1)?) else { return Err(failed("`replace` needs `old` and `new`")) };
    let most = arguments.count(2, "count")?.unwrap_or(usize::MAX);
    let found = text.matches(old.as_str()).count().min(most);
    let bytes = (text.len() - found * old.len()).saturating_add(found.saturating_mul(new.len()));
    if bytes > TEMPLATE_OUTPUT_BYTES_MAX {
        return Err(too_large("what `replace` would make"));
    }
    Ok(text.replacen(&old, &new, found))
}

/// Letters and digits in lower case, with one `-` for whatever is between them.
pub(super) fn slugify(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, [])?;
    let text = text_of(&arguments.value)?.to_lowercase();
    let words: Vec<_> = text.split(|one: char| !one.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    fits(words.join("-"))
}
