//! Adds and takes away one member of a JSON file that people wrote: comments, trailing commas and layout stay as they are. The file is
//! changed as text, and what comes out must mean exactly what was meant before, but for that member.

use serde_json::Value;
use std::ops::Range;

const INDENT: &str = "  ";
const DEPTH_MAX: usize = 64;

/// The file as plain JSON of the same length: comments and trailing commas are spaces, so every position is the same in both.
fn plain(text: &str) -> Result<String, String> {
    let mut bytes = text.as_bytes().to_vec();
    if text.starts_with('\u{feff}') {
        bytes[..3].fill(b' ');
    }
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1).copied()) {
            (b'"', _) => {
                comma = None;
                at = end_of_string(&bytes, at)?;
                continue;
            }
            (b'/', Some(b'/')) => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |line| at + line);
                blank(&mut bytes[at..end]);
                at = end;
                continue;
            }
            (b'/', Some(b'*')) => {
                let end = text.get(at + 2..).and_then(|rest| rest.find("*/")).ok_or("a comment has no end")?;
                let end = at + 2 + end + 2;
                blank(&mut bytes[at..end]);
                at = end;
                continue;
            }
            (b',', _) => comma = Some(at),
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            (byte, _) if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
}

/// The position after the string that begins at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> Result<usize, String> {
    at += 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Err("a text has no end".to_owned())
}

/// What the file means. An empty file means an empty object.
fn meaning(plain: &str) -> Result<Value, String> {
    if plain.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let read: Value = serde_json::from_str(plain).map_err(|error| error.to_string())?;
    if read.is_object() { Ok(read) } else { Err("it is no JSON object".to_owned()) }
}

/// One member of an object: where its name begins, and where its value is.
struct Member {
    name: String,
    begins: usize,
    value: Range<usize>,
}

/// The members of the object that begins at `at`, in text that is known to be JSON.
fn members(plain: &str, at: usize) -> Result<Vec<Member>, String> {
    let (bytes, mut found) = (plain.as_bytes(), Vec::<Member>::new());
    let mut at = skip(bytes, at + 1);
    while bytes.get(at) == Some(&b'"') {
        let begins = at;
        at = end_of_string(bytes, at)?;
        let name: String = serde_json::from_str(&plain[begins..at]).map_err(|error| error.to_string())?;
        let value = skip(bytes, skip(bytes, at) + 1);
        let end = end_of_value(bytes, value, 0)?;
        if found.iter().any(|other| other.name == name) {
            return Err(format!("`{name}` is in it twice"));
        }
        found.push(Member { name, begins, value: value..end });
        at = skip(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = skip(bytes, at + 1);
        }
    }
    Ok(found)
}

fn skip(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().position(|byte| !byte.is_ascii_whitespace()).map_or(bytes.len(), |space| at + space)
}

fn end_of_value(bytes: &[u8], mut at: usize, depth: usize) -> Result<usize, String> {
    if depth > DEPTH_MAX {
        return Err("it is nested too deeply".to_owned());
    }
    match bytes.get(at) {
        Some(b'"') => end_of_string(bytes, at),
        Some(b'{' | b'[') => {
            at += 1;
            loop {
                match bytes.get(at) {
                    Some(b'}' | b']') => return Ok(at + 1),
                    Some(b'"' | b'{' | b'[') => at = end_of_value(bytes, at, depth + 1)?,
                    Some(_) => at += 1,
                    None => return Err("it ends too early".to_owned()),
                }
            }
        }
        Some(_) => Ok(at + bytes[at..].iter().take_while(|byte| !byte.is_ascii_whitespace() && !b",}]".contains(byte)).count()),
        None => Err("it ends too early".to_owned()),
    }
}

/// The names of what is in the file.
pub(super) fn names(text: &str) -> Result<Vec<String>, String> {
    Ok(meaning(&plain(text)?)?.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect())
}

/// The member `name` of the object `section`, as it is in the file.
pub(super) fn find(text: &str, section: &str, name: &str) -> Result<Option<Value>, String> {
    let mut read = meaning(&plain(text)?)?;
    Ok(read.get_mut(section).and_then(|section| section.get_mut(name)).map(Value::take))
}

/// The file with one more member in the object `section`, which is made if it is not there.
pub(super) fn insert(text: &str, section: &str, name: &str, value: &Value) -> Result<String, String> {
    let plain = plain(text)?;
    let mut expected = meaning(&plain)?;
    let sections = expected.as_object_mut().ok_or("it is no JSON object")?;
    let inside = sections.entry(section).or_insert_with(|| Value::Object(serde_json::Map::new()));
    let inside = inside.as_object_mut().ok_or_else(|| format!("`{section}` in it is no object"))?;
    if inside.insert(name.to_owned(), value.clone()).is_some() {
        return Err(format!("`{section}` has `{name}` already"));
    }
    let changed = if plain.trim().is_empty() {
        format!("{}\n", pretty(&expected, ""))
    } else {
        let root = skip(plain.as_bytes(), 0);
        let sections = members(&plain, root)?;
        match sections.iter().find(|member| member.name == section) {
            Some(member) => with(text, member.value.start, &members(&plain, member.value.start)?, name, value, 2),
            None => with(text, root, &sections, section, &serde_json::json!({ name: value }), 1),
        }
    };
    checked(changed, &expected)
}

/// The file without that member; the section stays.
pub(super) fn remove(text: &str, section: &str, name: &str) -> Result<String, String> {
    let plain = plain(text)?;
    let mut expected = meaning(&plain)?;
    let inside = expected.get_mut(section).and_then(Value::as_object_mut);
    inside.and_then(|inside| inside.remove(name)).ok_or_else(|| format!("`{section}` has no `{name}`"))?;
    let sections = members(&plain, skip(plain.as_bytes(), 0))?;
    let section = sections.iter().find(|member| member.name == section).ok_or("the section is not there")?;
    checked(without(text, &plain, &section.value, name)?, &expected)
}

/// The file without that section, if nothing is in it, not even a comment.
pub(super) fn remove_empty(text: &str, section: &str) -> Result<String, String> {
    let plain = plain(text)?;
    let mut expected = meaning(&plain)?;
    let root = skip(plain.as_bytes(), 0);
    let sections = if plain.trim().is_empty() { Vec::new() } else { members(&plain, root)? };
    let Some(found) = sections.iter().find(|member| member.name == section) else { return Ok(text.to_owned()) };
    if text.get(found.value.start + 1..found.value.end - 1).is_none_or(|inside| !inside.trim().is_empty()) {
        return Ok(text.to_owned());
    }
    expected.as_object_mut().and_then(|sections| sections.remove(section));
    checked(without(text, &plain, &(root..end_of_value(plain.as_bytes(), root, 0)?), section)?, &expected)
}

/// The text without a member of the object that is there.
fn without(text: &str, plain: &str, object: &Range<usize>, name: &str) -> Result<String, String> {
    let all = members(plain, object.start)?;
    let at = all.iter().position(|member| member.name == name).ok_or("the member is not there")?;
    let gone = &all[at];
    // The comma before it goes too, or the one after it if it is the first.
    let between = match (at.checked_sub(1).and_then(|before| all.get(before)), all.get(at + 1)) {
        (Some(before), _) => before.value.end..gone.begins,
        (None, Some(after)) => gone.value.end..after.begins,
        (None, None) => 0..0,
    };
    let comma = plain[between.clone()].find(',').map(|comma| between.start + comma);
    let begins = line_begin(text, gone.begins);
    let mut changed = String::new();
    for (at, byte) in text.char_indices() {
        if Some(at) != comma && !(begins..gone.value.end).contains(&at) {
            changed.push(byte);
        }
    }
    if all.len() == 1 {
        let inside = object.start + 1..object.end - 1 - (gone.value.end - begins);
        if changed.get(inside.clone()).is_some_and(|rest| rest.trim().is_empty()) {
            changed.replace_range(inside, "");
        }
    }
    Ok(changed)
}

/// The text with a member behind the last of an object that begins at `open`.
fn with(text: &str, open: usize, members: &[Member], name: &str, value: &Value, depth: usize) -> String {
    let usual = INDENT.repeat(depth);
    let (at, indent) = match members.last() {
        Some(last) => (last.value.end, indent_of(text, last.begins).unwrap_or(&usual)),
        None => (open + 1, usual.as_str()),
    };
    let member = format!("\n{indent}{}: {}", Value::from(name), pretty(value, indent));
    let (before, after) = text.split_at(at);
    match members.last() {
        Some(_) => format!("{before},{member}{after}"),
        None => format!("{before}{member}\n{}{after}", INDENT.repeat(depth - 1)),
    }
}

/// The white space before this position, if nothing else is before it in its line.
fn indent_of(text: &str, at: usize) -> Option<&str> {
    let before = text[..at].rsplit('\n').next()?;
    before.chars().all(|letter| letter == ' ' || letter == '\t').then_some(before)
}

/// Where the white space before this position begins, with the line break before it.
fn line_begin(text: &str, at: usize) -> usize {
    let Some(indent) = indent_of(text, at) else { return at };
    let line = at - indent.len();
    let before = &text[..line];
    before.strip_suffix("\r\n").or_else(|| before.strip_suffix('\n')).map_or(line, str::len)
}

fn pretty(value: &Value, indent: &str) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    text.replace('\n', &format!("\n{indent}"))
}

fn checked(changed: String, expected: &Value) -> Result<String, String> {
    match plain(&changed).and_then(|plain| meaning(&plain)) {
        Ok(read) if read == *expected => Ok(changed),
        Ok(_) | Err(_) => Err("its layout cannot be changed safely".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is added can be taken away again, and everything else is as it was.
    #[track_caller]
    fn check(before: &str, expected: &str) {
        let value = json!({ "command": "x" });
        let added = insert(before, "servers", "cs", &value).unwrap();
        assert_eq!(added, expected);
        assert_eq!(find(&added, "servers", "cs").unwrap(), Some(value));
        assert_eq!(remove(&added, "servers", "cs").unwrap(), before);
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        check(
            "{\n  // ours\n  \"servers\": {\n    \"a\": { \"x\": \"//no comment,}\" }, // the first\n    /* and */ \"b\": [1, 2,], // last\n  },\n}\n",
            "{\n  // ours\n  \"servers\": {\n    \"a\": { \"x\": \"//no comment,}\" }, // the first\n    /* and */ \"b\": [1, 2,],\n    \"cs\": {\n      \"command\": \"x\"\n    }, // last\n  },\n}\n",
        );
        check(
            "{\n\t\"servers\": {\n\t\t\"a\": 1\n\t}\n}",
            "{\n\t\"servers\": {\n\t\t\"a\": 1,\n\t\t\"cs\": {\n\t\t  \"command\": \"x\"\n\t\t}\n\t}\n}",
        );
        check("{\"servers\":{}}", "{\"servers\":{\n    \"cs\": {\n      \"command\": \"x\"\n    }\n  }}");
    }

    #[test]
    fn a_section_that_is_missing_is_made_and_stays() {
        for (before, after) in [
            ("", "{\n  \"servers\": {}\n}\n"),
            ("{}", "{\n  \"servers\": {}\n}"),
            ("{\n  \"a\": 1 // one\n}\n", "{\n  \"a\": 1,\n  \"servers\": {} // one\n}\n"),
        ] {
            let added = insert(before, "servers", "cs", &json!(1)).unwrap();
            assert_eq!(find(&added, "servers", "cs").unwrap(), Some(json!(1)), "{added}");
            assert_eq!(remove(&added, "servers", "cs").unwrap(), after);
        }
    }

    #[test]
    fn a_section_goes_if_nothing_is_left_in_it() {
        for (before, after) in [
            (
                "{\n  \"$schema\": \"x\",\n  // mine\n  \"a\": 1,\n  \"servers\": {},\n}\n",
                "{\n  \"$schema\": \"x\",\n  // mine\n  \"a\": 1,\n}\n",
            ),
            ("{ \"servers\": {}, \"a\": 1 }", "{  \"a\": 1 }"),
            ("{ \"servers\": {} }", "{}"),
            ("{ \"servers\": { /* soon */ } }", "{ \"servers\": { /* soon */ } }"),
            ("{ \"servers\": { \"b\": 1 } }", "{ \"servers\": { \"b\": 1 } }"),
            ("{ \"a\": 1 }", "{ \"a\": 1 }"),
            ("", ""),
        ] {
            assert_eq!(remove_empty(before, "servers").unwrap(), after, "{before}");
        }
    }

    #[test]
    fn an_entry_before_others_is_taken_away_alone() {
        let text = "{ \"servers\": {\n  \"cs\": 1, // mine\n  \"b\": 2\n} }";
        assert_eq!(remove(text, "servers", "cs").unwrap(), "{ \"servers\": { // mine\n  \"b\": 2\n} }");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in [
            "{",
            "[]",
            "{\"a\": }",
            "{\"a\": \"}",
            "{} /*",
            "{\"servers\": []}",
            "{\"servers\": {\"cs\": 1}}",
            "{\"a\":1,\"a\":2,\"servers\":{}}",
        ] {
            assert!(insert(text, "servers", "cs", &json!(1)).is_err(), "{text}");
        }
        assert!(remove("{\"servers\": {}}", "servers", "cs").is_err());
        assert!(insert(&format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100)), "servers", "cs", &json!(1)).is_err());
    }
}
