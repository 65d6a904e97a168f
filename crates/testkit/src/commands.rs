//! Fake commands: allowed by their text, with scripted ends and recorded runs.

use countersign_core::Future;
use countersign_core::checks::Commands;
use countersign_core::effect::{Check, Scope};
use countersign_core::source::{CallContext, Error};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Clones share everything, so a test keeps one and passes on the others.
#[derive(Clone, Default)]
pub struct FakeCommands {
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    allowed: Vec<String>,
    ends: VecDeque<End>,
    runs: Vec<String>,
}

/// How a run ends.
enum End {
    Passes,
    Fails(String),
    HasNoTurn,
}

impl FakeCommands {
    pub fn allowing(commands: &[&str]) -> Self {
        let fake = Self::default();
        fake.script.lock().allowed = commands.iter().map(|command| (*command).to_owned()).collect();
        fake
    }

    /// The operator removes every command from the allowlist.
    pub fn allow_nothing(&self) {
        self.script.lock().allowed.clear();
    }

    /// The next run succeeds; so does every run without a script.
    pub fn will_pass(&self) {
        self.script.lock().ends.push_back(End::Passes);
    }

    pub fn will_fail(&self, why: &str) {
        self.script.lock().ends.push_back(End::Fails(why.to_owned()));
    }

    /// The next run gets no turn, because too many are under way.
    pub fn will_have_no_turn(&self) {
        self.script.lock().ends.push_back(End::HasNoTurn);
    }

    /// Every run so far, in order.
    pub fn runs(&self) -> Vec<String> {
        self.script.lock().runs.clone()
    }
}

impl Commands for FakeCommands {
    fn refusal(&self, command: &str, _scope: &Scope) -> Option<String> {
        let is_allowed = self.script.lock().allowed.iter().any(|allowed| allowed == command);
        (!is_allowed).then(|| "the test does not allow it".to_owned())
    }

    fn run<'a>(&'a self, _context: &'a CallContext, whose: &'a str, command: &'a str) -> Future<'a, Result<Check, Error>> {
        Box::pin(async move {
            let mut script = self.script.lock();
            let end = script.ends.pop_front().unwrap_or(End::Passes);
            if let End::HasNoTurn = end {
                return Err(Error::NoTurn { source_id: whose.to_owned(), message: "as many programs run as may at once".to_owned() });
            }
            script.runs.push(command.to_owned());
            Ok(match end {
                End::Fails(why) => Check::failed(command, why),
                End::Passes | End::HasNoTurn => Check::passed(command),
            })
        })
    }
}
