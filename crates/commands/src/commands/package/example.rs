//! A working example package, which `package new` writes.

use crate::shared::*;
use serde_json::json;
use std::path::Path;

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("example/", $path)))),*] };
}

const FILES: &[(&str, &str)] = files!["actions/append_line/action.json", "tests/appends.json", "tests/stays_inside.json"];

/// What its scripts are written in.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Language {
    Javascript,
    Python,
}

impl Language {
    const fn scripts(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Javascript => {
                files!["actions/append_line/execute.js", "actions/append_line/verify.js", "actions/append_line/rollback.js"]
            }
            Self::Python => files!["actions/append_line/execute.py", "actions/append_line/verify.py", "actions/append_line/rollback.py"],
        }
    }
}

/// The name of the action in these files. It is replaced by one that contains the package's name: if two packages had an action of the
/// same name, installing the second would raise the finding `safety.shadowed_name`, which a person has to read first.
const ACTION: &str = "append_line";

pub(super) fn write(name: &str, language: Language, terminal: &mut Terminal) -> Result<Exit, Failure> {
    homes::packages::check_name(name).map_err(|mistake| Failure::usage(mistake.message).hint(mistake.hint))?;
    let folder = Path::new(name);
    if folder.exists() {
        return Err(Failure::usage(format!("`{name}` is there already")));
    }
    let action = format!("append_to_{name}");
    let files = FILES.iter().chain(language.scripts());
    let files: Vec<_> = files.map(|(path, text)| (path.replace(ACTION, &action), text.replace(ACTION, &action))).collect();
    for (path, text) in &files {
        let target = folder.join(path);
        let written = target.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&target, text));
        written.map_err(|error| Failure::failed(format!("`{}` cannot be written: {error}", target.display())))?;
    }
    let paths: Vec<_> = files.iter().map(|(path, _)| path).collect();
    let record = Record::new(name).with("package", Cell::text(name).toned(Tone::Strong));
    let record =
        paths.iter().enumerate().fold(record, |record, (at, path)| record.with(if at == 0 { "files" } else { "" }, Cell::text(path)));
    terminal.record(&json!({ "package": name, "files": paths }), &record)?;
    terminal.next(format!("countersign package test {name}"));
    Ok(Exit::Ok)
}
