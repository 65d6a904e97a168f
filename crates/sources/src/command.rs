//! The commands that verify a call. A command is split into words once, each word is compared with an operator's allowlist, and the command
//! runs in the jail with the workspace read-only. There is no shell, and a command that only begins like an allowed one is not allowed.

use crate::limits::PACKAGE_LOG_CHARS_MAX;
use crate::program::{PLACES, Programs, SCRATCH, libraries};
use crate::words::{last_line, patience, said, shown};
use crate::workspace::path::WorkspacePath;
use crate::workspace::{Places, view};
use countersign_core::Future;
use countersign_core::action::Profile;
use countersign_core::checks::Commands;
use countersign_core::effect::{Check, Scope};
use countersign_core::jail::{self, Confinement, Ended, Jail, Turn};
use countersign_core::limits::PACKAGE_MEMORY_MB_DEFAULT;
use countersign_core::source::{CallContext, Error};
use std::str::FromStr;
use std::sync::Arc;

/// The characters that a shell would interpret.
const META: &[char] =
    &[';', '|', '&', '$', '<', '>', '`', '"', '\'', '\\', '(', ')', '{', '}', '[', ']', '*', '?', '!', '~', '#', '\n', '\r', '\t', '\0'];
const WORKSPACE: &str = "/workspace";
/// SECURITY: without `PYTHONSAFEPATH`, Python looks for its modules in the working directory first. A file `json.py` in the workspace would
/// then replace the module that `python3 -m json.tool` needs.
const ENVIRONMENT: [(&str, &str); 3] = [("LANG", "C.UTF-8"), SCRATCH, ("PYTHONSAFEPATH", "1")];
/// Commands have nothing to leave on a stage, but some create a file for their own use.
const STAGE_BYTES: u64 = 16 * 1024 * 1024;

/// One command that an operator allows: words, some of which are `{file}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCommand(Vec<Word>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Literal(String),
    /// A file of the workspace, inside the call's scope.
    File,
}

impl FromStr for AllowedCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = |word: &str| match word {
            "{file}" => Ok(Word::File),
            word if word.contains(META) => Err(format!("`{word}` holds what a shell would take apart; there is no shell")),
            word => Ok(Word::Literal(word.to_owned())),
        };
        let words = text.split_whitespace().map(word).collect::<Result<Vec<_>, _>>()?;
        match words.first() {
            Some(Word::Literal(program)) if !program.contains('/') => Ok(Self(words)),
            Some(_) => Err(format!("it must begin with the name of a program in {}", PLACES.join(", "))),
            None => Err("it is empty".to_owned()),
        }
    }
}

/// Runs the commands on the allowlist.
pub struct CommandRunner {
    allowed: Vec<AllowedCommand>,
    jail: Arc<dyn Jail>,
    places: Arc<Places>,
    may_run_code: bool,
    programs: Programs,
}

impl CommandRunner {
    pub fn new(allowed: Vec<AllowedCommand>, jail: Arc<dyn Jail>, places: Arc<Places>, may_run_code: bool) -> Self {
        Self { allowed, jail, places, may_run_code, programs: Programs::default() }
    }

    /// The words to run, the program first, if the command is on the list.
    fn argv(&self, command: &str, scope: &Scope) -> Result<Vec<String>, String> {
        if command.contains(META) {
            return Err("it holds what a shell would take apart, and there is no shell".to_owned());
        }
        let words: Vec<_> = command.split(' ').filter(|word| !word.is_empty()).collect();
        let mut why = "it is not on the allowlist; an operator puts it there with `command_allowlist`".to_owned();
        for AllowedCommand(allowed) in &self.allowed {
            if allowed.len() != words.len() {
                continue;
            }
            match allowed.iter().zip(&words).map(|(allowed, word)| fit(allowed, word, scope)).collect::<Result<Option<Vec<_>>, _>>() {
                Ok(Some(argv)) => return Ok(argv),
                Ok(None) => {}
                Err(reason) => why = reason,
            }
        }
        Err(why)
    }

    async fn check(&self, context: &CallContext, whose: &str, command: &str) -> Result<Check, Error> {
        match self.attempt(context, whose, command).await {
            Ok(()) => Ok(Check::passed(command)),
            Err(Unfit::Failed(why)) => Ok(Check::failed(command, why)),
            Err(Unfit::NoTurn(message)) => Err(Error::NoTurn { source_id: whose.to_owned(), message }),
        }
    }

    async fn attempt(&self, context: &CallContext, whose: &str, command: &str) -> Result<(), Unfit> {
        let mut argv = self.argv(command, &context.scope)?;
        let name = argv.remove(0);
        let program = self.programs.find(&name).await.ok_or_else(|| format!("there is no program `{name}` in {}", PLACES.join(", ")))?;
        let mut confinement = Confinement {
            turn: Turn::Afterwards { whose: whose.to_owned() },
            profile: Profile::Default,
            read_only: libraries(&program.path),
            views: Vec::new(),
            program: program.path,
            program_digest: program.digest,
            args: argv,
            env: ENVIRONMENT.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
            // An allowed command may name a file of the workspace directly, without `{file}`. The path is then relative to the workspace.
            starts_in: Some(WORKSPACE.into()),
            inputs: Vec::new(),
            stdin: Vec::new(),
            wall_ms: wall_ms(context),
            memory_bytes: PACKAGE_MEMORY_MB_DEFAULT * 1024 * 1024,
            stage_bytes_max: STAGE_BYTES,
            stage_files_max: 64,
            progress: context.progress.clone(),
            egress: None,
        };
        let place = self.places.of(context).map_err(|error| error.to_string())?;
        view::show(place.folder(), WORKSPACE, &context.scope, &mut confinement).await.map_err(|error| error.to_string())?;
        let confined = self.jail.confine(confinement).await.map_err(|error| match error {
            jail::Error::Busy { message } => Unfit::NoTurn(message),
            jail::Error::Unavailable { .. } | jail::Error::Refused { .. } | jail::Error::Lost { .. } => Unfit::Failed(error.to_string()),
        })?;
        context.meter.add(&confined);
        if confined.ended == Ended::Exited(0) {
            return Ok(());
        }
        let last: String = last_line(&confined.log).unwrap_or_default().chars().take(PACKAGE_LOG_CHARS_MAX).collect();
        let how = match confined.ended {
            Ended::Exited(code) => format!("it ended with code {code}"),
            Ended::Signalled(signal) => format!("it was ended by signal {signal}"),
            Ended::TimedOut => format!("it did not end within {} ms", wall_ms(context)),
            Ended::OutOfMemory => "it took more memory than it may".to_owned(),
            Ended::Flooded => "it printed far more than is kept".to_owned(),
            Ended::Cancelled => "it was called off".to_owned(),
        };
        Err(Unfit::Failed(format!("{how}, saying `{}`", said(&last))))
    }
}

/// How long the command may take: less than the call's timeout, because later steps need time too.
fn wall_ms(context: &CallContext) -> u64 {
    u64::try_from(patience(context).as_millis()).unwrap_or(context.timeout_ms).max(1)
}

/// Why a command did not succeed.
enum Unfit {
    /// It ran and failed, or it is not allowed to run.
    Failed(String),
    /// Too many programs are running for it to run now.
    NoTurn(String),
}

impl From<String> for Unfit {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// The word to run. `None` means that this is another command; an error means that it is this command, with a word that is not allowed.
fn fit(allowed: &Word, word: &str, scope: &Scope) -> Result<Option<String>, String> {
    match allowed {
        Word::Literal(literal) => Ok((literal == word).then(|| word.to_owned())),
        Word::File if word.starts_with('-') => Err(format!("`{}` is an option where a file belongs", shown(word))),
        Word::File => {
            let path = WorkspacePath::parse(word).map_err(|error| error.to_string())?;
            if !scope.permits(path.as_str()) {
                return Err(format!("`{}` lies outside the scope of the call", shown(word)));
            }
            Ok(Some(format!("{WORKSPACE}/{}", path.as_str())))
        }
    }
}

impl Commands for CommandRunner {
    fn refusal(&self, command: &str, scope: &Scope) -> Option<String> {
        if !self.may_run_code {
            return Some("this server runs no code; an operator lets it with `allow_plugin_code_execution = true`".to_owned());
        }
        self.argv(command, scope).err()
    }

    fn run<'a>(&'a self, context: &'a CallContext, whose: &'a str, command: &'a str) -> Future<'a, Result<Check, Error>> {
        Box::pin(self.check(context, whose, command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Folders, ID_FILE};
    use countersign_core::fault::Faults;
    use countersign_core::jail::{Confined, Error};
    use countersign_core::source;
    use std::path::Path;
    use testkit::SeededRandom;

    struct NoJail;

    impl Jail for NoJail {
        fn confine(&self, _what: Confinement) -> Future<'_, Result<Confined, Error>> {
            self.confine_nothing()
        }
    }

    fn runner(allowed: &[&str]) -> CommandRunner {
        let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
        CommandRunner::new(allowed, Arc::new(NoJail), places(tempfile::tempdir().unwrap().path()), true)
    }

    fn places(home: &Path) -> Arc<Places> {
        Arc::new(Places::open(Folders::below(home), Arc::new(SeededRandom::default()), &Faults::default()).unwrap())
    }

    #[test]
    fn a_command_fits_word_by_word_or_not_at_all() {
        let runner = runner(&["node --check {file}", "true"]);
        let scope = Scope { forbidden_files: vec!["secret".to_owned()], ..Scope::default() };
        assert_eq!(runner.argv("node --check src/a.js", &scope), Ok(vec!["node".into(), "--check".into(), "/workspace/src/a.js".into()]));
        assert_eq!(runner.argv("true", &scope), Ok(vec!["true".into()]));
        for refused in [
            "",
            "node",
            "node --check",
            "node --check a.js b.js",
            "node --eval a.js",
            "node --check --eval=1",
            "node --check -e",
            "node --check ../a.js",
            "node --check /etc/passwd",
            "node --check secret/a.js",
            "node --check a.js; true",
            "true; true",
            "true && true",
            "true $(id)",
            "true\nfalse",
            "/bin/true",
            "True",
        ] {
            assert!(runner.refusal(refused, &scope).is_some(), "`{refused}` was let through");
        }
    }

    /// Remembers the confinements it was asked for, and runs nothing.
    #[derive(Default)]
    struct Seen(parking_lot::Mutex<Vec<Confinement>>);

    impl Jail for Seen {
        fn confine(&self, what: Confinement) -> Future<'_, Result<Confined, Error>> {
            self.0.lock().push(what);
            NoJail.confine_nothing()
        }
    }

    impl NoJail {
        fn confine_nothing(&self) -> Future<'_, Result<Confined, Error>> {
            Box::pin(std::future::ready(Err(Error::Unavailable { message: "there is none in this test".to_owned() })))
        }
    }

    #[tokio::test]
    async fn a_command_sees_of_the_workspace_what_the_scope_of_its_call_permits() {
        let home = tempfile::tempdir().unwrap();
        let places = places(home.path());
        let folder = places.shared().folder().to_owned();
        for name in ["a", "b"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let jail = Arc::new(Seen::default());
        let allowed = vec!["true".parse().unwrap()];
        let runner = CommandRunner::new(allowed, Arc::clone(&jail) as Arc<dyn Jail>, places, true);
        let scope = Scope { forbidden_files: vec!["b".to_owned()], ..Scope::default() };
        for scope in [Scope::default(), scope] {
            let context = CallContext { scope, ..crate::builtin::tests::context() };
            assert!(!runner.run(&context, "files", "true").await.unwrap().ok);
        }
        let asked = jail.0.lock();
        let shown = |index: usize| (asked[index].read_only.iter().any(|(host, _)| *host == folder), asked[index].views.clone());
        let only = vec![ID_FILE.to_owned(), "a".to_owned()];
        let part = countersign_core::jail::View { host: folder.clone(), jail: WORKSPACE.into(), only };
        assert_eq!((shown(0), shown(1)), ((true, vec![]), (false, vec![part])));
        assert!(asked.iter().all(|asked| asked.starts_in.as_deref() == Some(Path::new(WORKSPACE))), "{asked:?}");
    }

    /// Refuses every run as busy.
    struct Crowded;

    impl Jail for Crowded {
        fn confine(&self, what: Confinement) -> Future<'_, Result<Confined, Error>> {
            assert_eq!(what.turn, Turn::Afterwards { whose: "files".to_owned() });
            Box::pin(std::future::ready(Err(Error::Busy { message: "as many programs run as may at once".to_owned() })))
        }
    }

    #[tokio::test]
    async fn a_command_that_had_no_turn_has_not_looked() {
        let folder = tempfile::tempdir().unwrap();
        let runner = CommandRunner::new(vec!["true".parse().unwrap()], Arc::new(Crowded), places(folder.path()), true);
        let context = crate::builtin::tests::context();
        let error = runner.run(&context, "files", "true").await.unwrap_err();
        assert_eq!(error.why_no_turn(), Some("as many programs run as may at once"));
        assert!(matches!(error, source::Error::NoTurn { .. }), "{error}");
        // A command that is not on the list is refused, whether or not the jail is busy.
        assert!(!runner.run(&context, "files", "false").await.unwrap().ok);
    }

    #[test]
    fn a_server_that_runs_no_code_says_so_before_anything_happens() {
        let runner = CommandRunner { may_run_code: false, ..runner(&["true"]) };
        let refusal = runner.refusal("true", &Scope::default());
        assert!(refusal.is_some_and(|why| why.contains("`allow_plugin_code_execution = true`")));
    }

    #[test]
    fn a_template_is_a_program_by_name_and_plain_words() {
        for bad in ["", "  ", "{file}", "/bin/true", "sh -c 'true'", "true ; true", "cat {other}"] {
            assert!(bad.parse::<AllowedCommand>().is_err(), "`{bad}` was taken");
        }
    }
}
