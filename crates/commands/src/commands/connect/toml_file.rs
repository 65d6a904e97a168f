//! Adds and takes away one table of a TOML file that people wrote. A new table is put at the end; the file is changed as text, and what
//! comes out must mean exactly what was meant before, but for that table.

use serde_json::Value;
use toml::{Table, Value as Toml};

fn meaning(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| error.message().to_owned())
}

/// The table `section.name`, as it is in the file.
pub(super) fn find(text: &str, section: &str, name: &str) -> Result<Option<Value>, String> {
    let read = meaning(text)?;
    let found = read.get(section).and_then(|section| section.get(name));
    found.map(|found| serde_json::to_value(found).map_err(|error| error.to_string())).transpose()
}

/// The file with one more table at its end.
pub(super) fn insert(text: &str, section: &str, name: &str, value: &Value) -> Result<String, String> {
    let mut expected = meaning(text)?;
    let table = Toml::try_from(value).map_err(|error| error.to_string())?;
    let inside = expected.entry(section).or_insert_with(|| Toml::Table(Table::new()));
    let inside = inside.as_table_mut().ok_or_else(|| format!("`{section}` in it is no table"))?;
    if inside.insert(name.to_owned(), table.clone()).is_some() {
        return Err(format!("`{section}` has `{name}` already"));
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    checked(format!("{text}{gap}{}", block(section, name, &table)), &expected)
}

/// The file without that table and the tables below it.
pub(super) fn remove(text: &str, section: &str, name: &str) -> Result<String, String> {
    let mut expected = meaning(text)?;
    let inside = expected.get_mut(section).and_then(Toml::as_table_mut).ok_or_else(|| format!("there is no `{section}`"))?;
    inside.remove(name).ok_or_else(|| format!("`{section}` has no `{name}`"))?;
    let is_left = !inside.is_empty();
    if !is_left {
        expected.remove(section);
    }
    let mut kept: Vec<&str> = Vec::new();
    // Comments and empty lines below a table may belong to the next one: they are kept.
    let (mut is_gone, mut undecided) = (false, Vec::new());
    for line in text.split_inclusive('\n') {
        if let Some(header) = header(line) {
            is_gone = header.first().is_some_and(|first| first == section) && header.get(1).is_some_and(|second| second == name);
            if is_gone && undecided.is_empty() && kept.last().is_some_and(|line| line.trim().is_empty()) {
                kept.pop();
            }
        }
        let is_empty = line.trim().is_empty() || line.trim_start().starts_with('#');
        match (is_gone, is_empty) {
            (true, true) => undecided.push(line),
            (true, false) => undecided.clear(),
            (false, _) => {
                kept.append(&mut undecided);
                kept.push(line);
            }
        }
    }
    kept.append(&mut undecided);
    let changed = kept.concat();
    // A section that is now empty may still be written as a table of its own.
    let mut with_section = expected.clone();
    if !is_left {
        with_section.insert(section.to_owned(), Toml::Table(Table::new()));
    }
    checked(changed.clone(), &expected).or_else(|_| checked(changed, &with_section))
}

fn block(section: &str, name: &str, table: &Toml) -> String {
    let mut lines = vec![format!("[{section}.{name}]")];
    for (key, value) in table.as_table().into_iter().flatten() {
        // A value alone is written in one line, also if it is a table.
        lines.push(format!("{key} = {value}"));
    }
    lines.join("\n") + "\n"
}

/// The names in the header of a table, such as `[mcp_servers."countersign".env]`; `None` for every other line.
fn header(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let is_header = line.starts_with('[') && !line.ends_with(',');
    // A header is a document of its own.
    let read = is_header.then(|| line.parse::<Table>().ok()).flatten()?;
    let mut names = Vec::new();
    let read = Toml::Table(read);
    let mut at = &read;
    loop {
        let table = at.as_table().or_else(|| at.as_array()?.first()?.as_table());
        let Some((name, below)) = table.and_then(|table| table.iter().next()) else { return Some(names) };
        names.push(name.clone());
        at = below;
    }
}

fn checked(changed: String, expected: &Table) -> Result<String, String> {
    match meaning(&changed) {
        Ok(read) if read == *expected => Ok(changed),
        Ok(_) | Err(_) => Err("its layout cannot be changed safely".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_is_added_at_the_end_and_taken_away_again() {
        let value = json!({ "command": "/x y", "args": ["mcp", "a\"b"], "tool_timeout_sec": 600, "env": { "A": "b" } });
        for before in [
            "",
            "model = \"o\" # the one\n\n[mcp_servers.docs]\ncommand = \"docs\"\n",
            "# only a comment\n",
            "[a]\nx = [\n  [1, 2],\n  [3],\n]\n\n[mcp_servers]\n",
        ] {
            let added = insert(before, "mcp_servers", "countersign", &value).unwrap();
            assert!(added.starts_with(before), "{added}");
            assert_eq!(find(&added, "mcp_servers", "countersign").unwrap().as_ref(), Some(&value), "{added}");
            assert_eq!(remove(&added, "mcp_servers", "countersign").unwrap(), before, "{added}");
        }
    }

    #[test]
    fn what_stands_around_a_table_stays() {
        let text = "a = 1\n\n[mcp_servers.countersign]\ncommand = \"x\"\n\n[mcp_servers.countersign.env]\nA = \"b\"\n\n# the next\n[mcp_servers.docs]\nurl = \"u\"\n";
        let expected = "a = 1\n\n# the next\n[mcp_servers.docs]\nurl = \"u\"\n";
        assert_eq!(remove(text, "mcp_servers", "countersign").unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_read_or_changed_safely_is_refused() {
        for text in ["a =", "mcp_servers = { docs = { url = \"u\" } }\n", "mcp_servers = 1\n", "[mcp_servers.countersign]\nurl = \"u\"\n"] {
            assert!(insert(text, "mcp_servers", "countersign", &json!({ "url": "x" })).is_err(), "{text}");
        }
        assert!(remove("mcp_servers = { countersign = { url = \"u\" } }\n", "mcp_servers", "countersign").is_err());
        assert!(remove("", "mcp_servers", "countersign").is_err());
    }
}
