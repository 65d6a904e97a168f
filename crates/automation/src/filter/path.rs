//! Where in an event a test looks: names from the event's root, with dots between them.

use std::fmt;

/// At least one name, none of them empty. A dot in a name is written `\.`, a backslash `\\`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path(Vec<Box<str>>);

impl Path {
    /// The path, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut names = Vec::new();
        let mut name = String::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '.' if name.is_empty() => return Err("has an empty name"),
                '.' => names.push(std::mem::take(&mut name).into_boxed_str()),
                '\\' => match characters.next() {
                    Some(escaped @ ('.' | '\\')) => name.push(escaped),
                    Some(_) | None => return Err(r"has a backslash that is neither `\.` nor `\\`"),
                },
                other => name.push(other),
            }
        }
        if name.is_empty() {
            return Err("has an empty name");
        }
        names.push(name.into_boxed_str());
        Ok(Self(names))
    }

    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(".")?;
            }
            f.write_str(&name.replace('\\', r"\\").replace('.', r"\."))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_and_written() {
        for (text, expected) in [
            ("a", Ok(vec!["a"])),
            ("a.b", Ok(vec!["a", "b"])),
            (r"a\.b.c", Ok(vec!["a.b", "c"])),
            (r"a\\.b", Ok(vec![r"a\", "b"])),
            ("", Err("has an empty name")),
            (".a", Err("has an empty name")),
            ("a..b", Err("has an empty name")),
            ("a.", Err("has an empty name")),
            (r"a\", Err(r"has a backslash that is neither `\.` nor `\\`")),
            (r"a\n", Err(r"has a backslash that is neither `\.` nor `\\`")),
        ] {
            let read = Path::parse(text);
            let names = read.as_ref().map(|path| path.names().iter().map(|name| &**name).collect::<Vec<_>>());
            assert_eq!(names.map_err(|said| *said), expected, "{text}");
            if let Ok(path) = read {
                assert_eq!(path.to_string(), text);
            }
        }
    }
}
