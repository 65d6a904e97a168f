//! Commands that do as they are told: allowed by their text, scripted ends, recorded runs.

use countersign_core::Future;
use countersign_core::checks::Commands;
use countersign_core::effect::{Check, Scope};
use countersign_core::source::CallContext;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Clones share everything, so a test keeps one and hands out the others.
#[derive(Clone, Default)]
pub struct FakeCommands {
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    allowed: Vec<String>,
    failures: VecDeque<Option<String>>,
    runs: Vec<String>,
}

impl FakeCommands {
    pub fn allowing(commands: &[&str]) -> Self {
        let fake = Self::default();
        fake.script.lock().allowed = commands.iter().map(|command| (*command).to_owned()).collect();
        fake
    }

    /// The operator takes everything off the list.
    pub fn allow_nothing(&self) {
        self.script.lock().allowed.clear();
    }

    /// The next run succeeds; so does every run without a script.
    pub fn will_pass(&self) {
        self.script.lock().failures.push_back(None);
    }

    pub fn will_fail(&self, why: &str) {
        self.script.lock().failures.push_back(Some(why.to_owned()));
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

    fn run<'a>(&'a self, _context: &'a CallContext, command: &'a str) -> Future<'a, Check> {
        Box::pin(async move {
            let mut script = self.script.lock();
            script.runs.push(command.to_owned());
            match script.failures.pop_front().flatten() {
                Some(why) => Check::failed(command, why),
                None => Check::passed(command),
            }
        })
    }
}
