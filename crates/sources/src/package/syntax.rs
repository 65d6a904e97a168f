//! Checks the syntax of a package's scripts with the interpreter that would run them. The scripts are only parsed, never run, and the
//! parsing happens in the jail.

use super::folder::{self, PackageFile, PackageFiles};
use super::language::Language;
use super::loaded::script_of;
use super::mistake::Mistake;
use super::run::{CODE, bare};
use super::script::Script;
use crate::program::Programs;
use crate::words::{last_line, said};
use countersign_core::action::Profile;
use countersign_core::jail::{Confined, Ended, Input, Jail, Turn};
use countersign_core::limits::PACKAGE_MEMORY_MB_DEFAULT;
use futures_util::StreamExt;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The name under which syntax checks take their turns in the jail.
const SYNTAX: &str = "syntax";
/// A syntax check that takes longer is abandoned.
const WALL_MS: u64 = 20_000;
/// How many interpreters run at the same time.
const AT_ONCE: usize = 2;
const HINT: &str = "correct the script";

/// Prints a syntax error and its place as JSON. `compile` only compiles the script and runs none of it.
const PARSE_PYTHON: &str = r#"
import json, sys
try:
    compile(open(sys.argv[1], "rb").read(), sys.argv[1], "exec", dont_inherit=True)
except SyntaxError as error:
    print(json.dumps({"line": error.lineno, "column": error.offset, "message": type(error).__name__ + ": " + str(error.msg)}))
except ValueError as error:
    print(json.dumps({"line": 1, "column": 1, "message": "ValueError: " + str(error)}))
"#;

/// The result of checking scripts.
#[derive(Debug, Default)]
pub struct Looked {
    pub mistakes: Vec<Mistake>,
    /// Why some scripts could not be checked, one sentence each.
    pub unseen: BTreeSet<String>,
}

/// Checks the syntax of every script of every action.
pub async fn look_at_scripts(files: &PackageFiles, jail: &dyn Jail) -> Looked {
    let programs = Programs::default();
    let scripts = scripts_of(files);
    let looks = scripts.iter().map(|script| script.look(jail, &programs));
    let found: Vec<_> = futures_util::stream::iter(looks).buffered(AT_ONCE).collect().await;
    let mut looked = Looked::default();
    for found in found {
        match found {
            Ok(mistake) => looked.mistakes.extend(mistake),
            Err(why) => drop(looked.unseen.insert(why)),
        }
    }
    looked
}

/// One script, with the other files of its action.
struct Written {
    folder: String,
    file: String,
    language: Language,
    beside: Vec<(String, PackageFile)>,
}

fn scripts_of(files: &PackageFiles) -> Vec<Written> {
    let name_of = |path: &str| path.strip_prefix("actions/")?.strip_suffix("/action.json").map(str::to_owned);
    let mut scripts = Vec::new();
    for name in files.keys().filter_map(|path| name_of(path)) {
        let folder = format!("actions/{name}/");
        let own: PackageFiles = folder::below(files, &folder).map(|(path, file)| (path.to_owned(), file.clone())).collect();
        for script in [Script::Execute, Script::Verify, Script::Rollback] {
            // A compiled program has no syntax to check, and two files for one script are reported elsewhere.
            let Ok(Some((file, _))) = script_of(&own, script) else { continue };
            let Some(language) = Language::of(file) else { continue };
            let beside = own.iter().map(|(path, file)| (path.clone(), file.clone())).collect();
            scripts.push(Written { folder: folder.clone(), file: file.to_owned(), language, beside });
        }
    }
    scripts
}

impl Written {
    async fn look(&self, jail: &dyn Jail, programs: &Programs) -> Result<Option<Mistake>, String> {
        let unseen = |why: String| format!("the syntax of `{}` was not looked at: {why}", self.path());
        let command = self.language.command();
        let program = programs
            .find(command)
            .await
            .ok_or_else(|| format!("the syntax of scripts in {} was not looked at: there is no `{command}` here", self.language.title()))?;
        let at = format!("{CODE}/{}", self.file);
        let args = match self.language {
            Language::JavaScript => vec!["--check".to_owned(), at],
            Language::Python => [&["-I", "-S", "-B", "-c", PARSE_PYTHON][..], &[&at]].concat().into_iter().map(str::to_owned).collect(),
        };
        let mut confinement =
            bare(Turn::Afterwards { whose: SYNTAX.to_owned() }, Profile::Default, program, args, PACKAGE_MEMORY_MB_DEFAULT << 20, WALL_MS);
        let input = |(path, file): &(String, PackageFile)| Input { path: Path::new(CODE).join(path), bytes: Arc::clone(&file.bytes) };
        confinement.inputs = self.beside.iter().map(input).collect();
        let confined = jail.confine(confinement).await.map_err(|error| unseen(error.to_string()))?;
        match self.language {
            Language::JavaScript => self.judge_node(&confined),
            Language::Python => self.judge_python(&confined),
        }
        .map_err(unseen)
    }

    fn path(&self) -> String {
        format!("{}{}", self.folder, self.file)
    }

    fn mistake(&self, message: &str, line: u32, column: u32) -> Mistake {
        Mistake::new(self.path(), said(message), HINT).at_text(line.max(1), column.max(1))
    }

    /// Node prints the place, the line, a caret under the column, and finally the error.
    fn judge_node(&self, confined: &Confined) -> Result<Option<Mistake>, String> {
        let why = last_line(&confined.log).unwrap_or("it said nothing");
        if confined.ended == Ended::Exited(0) {
            return Ok(None);
        }
        if !(matches!(confined.ended, Ended::Exited(_)) && why.starts_with("SyntaxError")) {
            return Err(format!("`node` could not read it, saying `{}`", said(why)));
        }
        let place = format!("{CODE}/{}:", self.file);
        let line = confined.log.lines().find_map(|line| line.strip_prefix(&place)?.parse().ok());
        let caret = confined.log.lines().find(|line| line.trim_start().starts_with('^')).and_then(|line| line.find('^'));
        Ok(Some(self.mistake(why, line.unwrap_or(1), caret.and_then(|column| u32::try_from(column + 1).ok()).unwrap_or(1))))
    }

    fn judge_python(&self, confined: &Confined) -> Result<Option<Mistake>, String> {
        #[derive(Deserialize)]
        struct Said {
            line: Option<u32>,
            column: Option<u32>,
            message: String,
        }
        if confined.ended != Ended::Exited(0) {
            return Err(format!("`python3` could not read it, saying `{}`", said(last_line(&confined.log).unwrap_or("nothing"))));
        }
        if confined.stdout.is_empty() {
            return Ok(None);
        }
        let found: Said = serde_json::from_slice(&confined.stdout).map_err(|_| "`python3` answered something else".to_owned())?;
        Ok(Some(self.mistake(&found.message, found.line.unwrap_or(1), found.column.unwrap_or(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::mistake::Place;
    use countersign_core::Future;
    use countersign_core::jail::{Confinement, Error};
    use serde_json::json;

    fn written(file: &str, language: Language) -> Written {
        Written { folder: "actions/act/".to_owned(), file: file.to_owned(), language, beside: Vec::new() }
    }

    fn confined(ended: Ended, stdout: &str, log: &str) -> Confined {
        let (stdout, log) = (stdout.as_bytes().to_vec(), log.to_owned());
        Confined { ended, stdout, is_cut: false, log, cpu_ms: 0, facts: json!({}), staged: Ok(Vec::new()) }
    }

    #[test]
    fn only_what_the_interpreter_calls_wrong_is_a_mistake_and_anything_else_was_not_seen() {
        let node = written("execute.js", Language::JavaScript);
        let log =
            "/package/execute.js:3\n  boom(;\n       ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe (x)\n\nNode.js v20.20.2\n";
        let mistake = node.judge_node(&confined(Ended::Exited(1), "", log)).unwrap().unwrap();
        assert_eq!((mistake.file.as_str(), mistake.message.as_str()), ("actions/act/execute.js", "SyntaxError: Unexpected token ';'"));
        assert_eq!(mistake.place, Place::Text { line: 3, column: 8 });
        assert_eq!(node.judge_node(&confined(Ended::Exited(0), "", "")), Ok(None));
        for unseen in [confined(Ended::OutOfMemory, "", log), confined(Ended::Exited(9), "", "node: bad option")] {
            assert!(node.judge_node(&unseen).is_err());
        }
        let python = written("execute.py", Language::Python);
        let said = r#"{"line": 2, "column": null, "message": "SyntaxError: invalid syntax"}"#;
        let mistake = python.judge_python(&confined(Ended::Exited(0), said, "")).unwrap().unwrap();
        assert_eq!(mistake.place, Place::Text { line: 2, column: 1 });
        assert_eq!(python.judge_python(&confined(Ended::Exited(0), "", "")), Ok(None));
        for unseen in [confined(Ended::TimedOut, "", ""), confined(Ended::Exited(1), "", "x"), confined(Ended::Exited(0), "odd", "")] {
            assert!(python.judge_python(&unseen).is_err());
        }
    }

    /// A host without a working sandbox.
    struct NoJail;

    impl Jail for NoJail {
        fn confine(&self, _what: Confinement) -> Future<'_, Result<Confined, Error>> {
            Box::pin(std::future::ready(Err(Error::Unavailable { message: "there are no namespaces".to_owned() })))
        }
    }

    #[tokio::test]
    async fn where_nothing_can_be_confined_nothing_is_looked_at_and_that_is_said() {
        let file = |text: &str| PackageFile { bytes: text.as_bytes().into(), is_executable: false };
        let files = [("action.json", "{}"), ("execute.py", "x = = 1"), ("notes.py", "x = = 1")];
        let files = files.map(|(name, text)| (format!("actions/act/{name}"), file(text))).into();
        let looked = look_at_scripts(&files, &NoJail).await;
        assert_eq!((looked.mistakes.len(), looked.unseen.len()), (0, 1), "{looked:?}");
        let said = looked.unseen.first().unwrap();
        assert!(said.starts_with("the syntax of `actions/act/execute.py` was not looked at: "), "{said}");
    }
}
