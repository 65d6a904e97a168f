//! The only place that writes to the terminal: stdout is data, stderr is everything else.
//! On a terminal lists are tables; elsewhere they are tab-separated, whole and without colour. `--json` and `-o yaml` are one document.

mod document;
mod prompt;
mod table;

pub(crate) use document::{Fields, Syntax};
pub(crate) use prompt::Consent;
pub(crate) use table::{Cell, Column, Record, Table};

use crate::exit::{Exit, Failure};
use crate::style::{self, Tone, clean, time};
use crate::world::{Stream, World};
use countersign_core::{Clock, Timestamp};
use serde_json::Value;
use std::fmt::Display;
use std::io::{BufRead, Write as _};
use std::sync::{Arc, Mutex};

/// How data is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table on a terminal, tab-separated elsewhere.
    Auto,
    Table,
    /// Ids only, one on each line.
    Name,
    /// The server's own words, or some of them.
    Document(Syntax, Fields),
}

/// How moments are written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    Relative,
    Utc,
}

/// Whether a person may be asked something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Ask,
    Never,
}

/// What the global flags decide about output.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) format: Format,
    pub(crate) times: Times,
    pub(crate) input: Input,
    /// `None`: where the terminal shows them.
    pub(crate) colours: Option<bool>,
}

/// The terminal, or whatever stands in its place.
pub(crate) struct Terminal {
    stdin: Arc<Mutex<Box<dyn BufRead + Send>>>,
    is_typed: bool,
    stdout: Stream,
    stderr: Stream,
    settings: Settings,
    clock: Arc<dyn Clock>,
}

impl Terminal {
    pub(crate) fn new(settings: Settings, clock: Arc<dyn Clock>, world: World) -> Self {
        let World { stdin, is_typed, mut stdout, mut stderr, .. } = world;
        for stream in [&mut stdout, &mut stderr] {
            stream.has_colours = settings.colours.unwrap_or(stream.has_colours);
        }
        Self { stdin: Arc::new(Mutex::new(stdin)), is_typed, stdout, stderr, settings, clock }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether a program reads the output: then it is one document and nothing else.
    pub(crate) fn is_document(&self) -> bool {
        matches!(self.settings.format, Format::Document(..))
    }

    /// Whether only some fields of the document are asked for.
    pub(crate) fn selects_fields(&self) -> bool {
        matches!(self.settings.format, Format::Document(_, Fields::Some(_)))
    }

    /// Whether more than ids is to be written, and not one document either.
    pub(crate) fn is_for_words(&self) -> bool {
        matches!(self.settings.format, Format::Auto | Format::Table)
    }

    /// Whether a person reads stdout, in words and not in ids alone.
    pub(crate) fn is_for_people(&self) -> bool {
        self.is_for_words() && self.is_drawn()
    }

    /// Whether stdout is a terminal, whatever is written there.
    pub(crate) const fn is_screen(&self) -> bool {
        self.stdout.is_terminal
    }

    /// Whether a person reads stderr, so that a line there may be redrawn.
    pub(crate) fn is_watched(&self) -> bool {
        self.stderr.is_terminal && !self.is_document()
    }

    /// One line of data.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        self.stdout.line(&text.to_string()).map_err(|error| Failure::write(&error))
    }

    /// Bytes of data, as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stdout.to.write_all(bytes).map_err(|error| Failure::write(&error))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stdout.to.flush().map_err(|error| Failure::write(&error))
    }

    /// One line for the person, not for the pipe.
    pub(crate) fn note(&mut self, text: impl Display) {
        // A closed stderr must not undo what was done.
        let _closed = self.stderr.line(&text.to_string());
    }

    /// The same, where no program reads stderr for a document.
    pub(crate) fn remark(&mut self, text: impl Display) {
        if !self.is_document() {
            self.note(text);
        }
    }

    /// Draws over the last line of stderr; an empty text removes it.
    pub(crate) fn redraw(&mut self, text: &str) {
        // Erasing is no colour: it is done on every terminal.
        let _closed = self.stderr.to.write_all("\r\u{1b}[2K".as_bytes()).and_then(|()| self.stderr.part(text));
    }

    /// The command somebody probably wants next.
    pub(crate) fn next(&mut self, command: impl Display) {
        match self.settings.format {
            Format::Auto | Format::Table => {
                let line = alternatives(&format!("next: {command}"), self.note_columns());
                self.note(Tone::Muted.paint(line));
            }
            Format::Name | Format::Document(..) => {}
        }
    }

    /// A document, with only the fields that were asked for.
    pub(crate) fn document(&mut self, value: &Value) -> Result<(), Failure> {
        let text = match &self.settings.format {
            Format::Document(syntax, fields) => document::text(&fields.select(value)?, *syntax, self.layout())?,
            Format::Auto | Format::Table | Format::Name => document::text(value, Syntax::Json, self.layout())?,
        };
        self.line(text)
    }

    /// What an action returned; `-o name` prints the invocation's id instead.
    pub(crate) fn result(&mut self, name: &str, result: &Value) -> Result<(), Failure> {
        match self.settings.format {
            Format::Name => self.line(clean::line(name)),
            Format::Auto | Format::Table | Format::Document(..) => self.document(result),
        }
    }

    /// Something that was done: a line for people, and `raw`, the server's answer, for programs.
    pub(crate) fn done(&mut self, verb: &str, what: impl AsRef<str>, raw: &Value) -> Result<(), Failure> {
        if self.is_document() {
            self.document(raw)?;
        }
        self.note(format!("{} `{}`", Tone::Ok.paint(format!("✓ {verb}")), clean::line(what.as_ref())));
        Ok(())
    }

    /// A secret that was just made, and that nobody can read again.
    pub(crate) fn secret(&mut self, raw: &Value, record: &Record) -> Result<(), Failure> {
        self.record(raw, record)?;
        self.remark(Tone::Warn.paint("! the token is shown now and never again"));
        Ok(())
    }

    /// A list: `raw` is the page as the server wrote it, for `--json`.
    pub(crate) fn list(&mut self, raw: &Value, table: &Table) -> Result<(), Failure> {
        match self.settings.format {
            Format::Document(..) => return self.document(raw),
            Format::Name => return table.names().try_for_each(|name| self.line(name)),
            Format::Auto | Format::Table => {}
        }
        if table.is_empty() {
            self.note(table.empty());
            return Ok(());
        }
        if self.is_drawn() { self.line(table.draw(self.stdout.columns)) } else { table.tab_separated().try_for_each(|row| self.line(row)) }
    }

    /// One thing with its properties: `raw` is the thing as the server wrote it, for `--json`.
    pub(crate) fn record(&mut self, raw: &Value, record: &Record) -> Result<(), Failure> {
        match self.settings.format {
            Format::Document(..) => self.document(raw),
            Format::Name => self.line(record.name()),
            Format::Auto | Format::Table if self.is_drawn() => record.draw(self.columns()).try_for_each(|line| self.line(line)),
            Format::Auto | Format::Table => record.tab_separated().try_for_each(|line| self.line(line)),
        }
    }

    /// A moment: words for people, the moment itself for machines.
    pub(crate) fn past(&self, at: Timestamp) -> Cell {
        self.moment(at, time::ago)
    }

    /// A moment that lies ahead.
    pub(crate) fn future(&self, at: Timestamp) -> Cell {
        self.moment(at, time::countdown)
    }

    /// The three lines, or one document with `--json`.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if let Some(unsent) = failure.unsent() {
            // What would be sent is what was asked for: data. A closed pipe has no one left to tell.
            let _closed = match self.settings.format {
                Format::Document(syntax, _) => document::text(&failure.to_json(), syntax, self.layout()).and_then(|text| self.line(text)),
                Format::Auto | Format::Table | Format::Name => self.line(unsent),
            };
            return self.note(Tone::Muted.paint("dry run: nothing was sent"));
        }
        if failure.exit == Exit::Ok {
            return;
        }
        if let Format::Document(syntax, _) = self.settings.format {
            let text = document::text(&failure.to_json(), syntax, self.layout()).unwrap_or_default();
            return self.note(text);
        }
        if failure.exit == Exit::Interrupted && self.is_watched() {
            // The cursor stands behind `^C`.
            self.note("");
        }
        let columns = self.note_columns();
        let told = |text: &str, indent: usize| style::hang(&clean::line(text), indent, columns);
        self.note(format!("{} {}", Tone::Danger.paint("error:"), told(&failure.message, 7)));
        if let Some(cause) = &failure.cause {
            // What this program found, such as a place in a file, has lines. What a server says could imitate them.
            let lines: Vec<_> = if failure.problem().is_none() { cause.lines().collect() } else { vec![cause.as_str()] };
            let lines: Vec<_> = lines.into_iter().map(|line| told(line, 9)).collect();
            self.note(format!("  {} {}", Tone::Muted.paint("cause:"), lines.join(&format!("\n{:9}", ""))));
        }
        if let Some(hint) = &failure.hint {
            // A command is copied: it stays on one line, however the terminal folds that.
            let hint = if hint.starts_with("countersign ") { clean::line(hint) } else { told(hint, 6) };
            self.note(format!("{} {hint}", Tone::Primary.paint("hint:")));
        }
    }

    fn moment(&self, at: Timestamp, words: impl Fn(Timestamp, Timestamp) -> String) -> Cell {
        let shown = match self.settings.times {
            Times::Relative => words(at, self.now()),
            Times::Utc => time::utc(at),
        };
        Cell::shown(shown, at.to_string())
    }

    /// How wide stdout is, where a person reads it.
    pub(crate) fn columns(&self) -> Option<u16> {
        self.stdout.columns.filter(|_| self.is_drawn())
    }

    /// How wide stderr is, where a person reads it.
    pub(crate) const fn note_columns(&self) -> Option<u16> {
        self.stderr.columns
    }

    fn is_drawn(&self) -> bool {
        self.settings.format == Format::Table || self.stdout.is_terminal
    }

    const fn layout(&self) -> document::Layout {
        if self.stdout.is_terminal { document::Layout::Indented } else { document::Layout::OneLine }
    }
}

/// Several commands of which there is no room on one line stand below each other, each to be copied whole.
fn alternatives(line: &str, columns: Option<u16>) -> String {
    let fits = columns.is_none_or(|columns| line.chars().count() <= usize::from(columns));
    if fits {
        line.to_owned()
    } else {
        line.replace(", or countersign ", "\n  or: countersign ").replace(", then countersign ", "\nthen: countersign ")
    }
}

#[cfg(test)]
mod tests {
    use super::alternatives;

    #[test]
    fn commands_are_never_broken_only_set_below_each_other() {
        let line = "next: countersign approve inv_1, or countersign deny inv_1 --reason …";
        assert_eq!(alternatives(line, None), line);
        assert_eq!(alternatives(line, Some(80)), line);
        assert_eq!(alternatives(line, Some(60)), "next: countersign approve inv_1\n  or: countersign deny inv_1 --reason …");
    }
}
