//! `countersign demo`: a story of five minutes on a real server of its own. An agent follows a script; the person decides in a browser or in
//! another terminal, or `--script` decides for them.

mod end;
mod stage;
mod story;
mod tamper;

use super::serve;
use crate::shared::*;
use clap::Args;
use stage::Stage;
use std::pin::pin;
use story::Story;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign demo                     prints an address to open, and goes on as you decide
  countersign demo --script            plays the whole story by itself";

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Decide in your place, too, and fail if a chapter does not end as told
    #[arg(long)]
    script: bool,
}

impl Demo {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("demo")?;
        let terminal = setting.terminal;
        let mut asked_to_stop = pin!(host::asked_to_stop());
        let stage = Stage::set(setting.serving).await?;
        if !self.script {
            welcome(&stage, terminal)?;
        }
        let told = tokio::select! {
            told = Story::new(&stage, self.script, terminal).tell() => told,
            () = &mut asked_to_stop => Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        if told.is_ok() && !self.script {
            farewell(terminal);
            asked_to_stop.await;
        }
        stage.end().await;
        told.map(|()| Exit::Ok)
    }
}

fn welcome(stage: &Stage, terminal: &mut Terminal) -> Result<(), Failure> {
    let started = &stage.started;
    // The address that logs the owner in is a secret: it is shown on a terminal, and never written to a file.
    let sign_in = started.sign_in_url.as_ref().filter(|_| terminal.is_screen()).map(|url| format!("sign in, once: {url}"));
    for line in [Some(format!("url: {}", started.url)), sign_in].into_iter().flatten() {
        terminal.line(line)?;
    }
    terminal.remark("Open the address, and stay in the inbox: a support agent starts to work, and asks you when it has to.");
    terminal.remark(Tone::Muted.paint(format!("or decide in another terminal: {}", serve::export(started))));
    Ok(())
}

fn farewell(terminal: &mut Terminal) {
    terminal.remark("That was the story. The server goes on: look around, then stop with Ctrl-C, which deletes everything of the demo.");
    terminal.next("countersign serve, then countersign connect claude-code --write");
}
