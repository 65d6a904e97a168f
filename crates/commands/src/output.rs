//! The only code that writes to the terminal: stdout is data, stderr is everything else. Lists are tables on a terminal, and tab-separated,
//! complete and without colour elsewhere. `--json` and `-o yaml` write one document.

mod document;
mod prompt;
mod table;

pub(crate) use document::{Fields, Syntax};
pub(crate) use prompt::{Consent, Line};
pub(crate) use table::{Cell, Column, Record, Table};

use crate::exit::{Exit, Failure};
use crate::style::{self, Tone, clean, time};
use crate::world::{Stream, World};
use countersign_core::{Clock, Timestamp};
use serde_json::Value;
use std::fmt::Display;
use std::io::{BufRead, Write as _};
use std::sync::{Arc, Mutex};

/// The output format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table on a terminal, tab-separated elsewhere.
    Auto,
    Table,
    /// Only ids, one per line.
    Name,
    /// The server's answer as a document, or some of its fields.
    Document(Syntax, Fields),
}

/// How points in time are written for people.
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

/// The output settings from the global flags.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) format: Format,
    pub(crate) times: Times,
    pub(crate) input: Input,
    /// `None` means that the stream decides: a terminal that supports colours gets them.
    pub(crate) colours: Option<bool>,
}

/// The streams of the command: a terminal, pipes or files.
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

    /// Whether the output is one document for a program, and nothing else.
    pub(crate) fn is_document(&self) -> bool {
        matches!(self.settings.format, Format::Document(..))
    }

    /// Whether only some fields of the document are written.
    pub(crate) fn selects_fields(&self) -> bool {
        matches!(self.settings.format, Format::Document(_, Fields::Some(_)))
    }

    /// Whether the output is text: neither a document nor only ids.
    pub(crate) fn is_for_words(&self) -> bool {
        matches!(self.settings.format, Format::Auto | Format::Table)
    }

    /// Whether stdout shows text to a person.
    pub(crate) fn is_for_people(&self) -> bool {
        self.is_for_words() && self.is_drawn()
    }

    /// Whether stdout is a terminal, whatever the output format.
    pub(crate) const fn is_screen(&self) -> bool {
        self.stdout.is_terminal
    }

    /// Whether a person reads stderr, so that a line there may be redrawn.
    pub(crate) fn is_watched(&self) -> bool {
        self.stderr.is_terminal && !self.is_document()
    }

    /// Writes one line of data to stdout.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        self.stdout.line(&text.to_string()).map_err(|error| Failure::write(&error))
    }

    /// Writes bytes of data to stdout, unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stdout.to.write_all(bytes).map_err(|error| Failure::write(&error))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stdout.to.flush().map_err(|error| Failure::write(&error))
    }

    /// Writes one line for people to stderr, wrapped at words. A command stays on one line, so that it can be copied, and a text of several
    /// lines stays as it is.
    pub(crate) fn note(&mut self, text: impl Display) {
        let text = text.to_string();
        let is_prose = !self.is_document() && !text.contains('\n') && !text.contains("countersign ");
        let text = if is_prose { style::hang(&text, 2, self.note_columns()) } else { text };
        // The command has done its work, so a closed stderr must not make it fail.
        let _closed = self.stderr.line(&text);
    }

    /// Like `note`, but writes nothing if the output is a document.
    pub(crate) fn remark(&mut self, text: impl Display) {
        if !self.is_document() {
            self.note(text);
        }
    }

    /// Overwrites the last line of stderr; an empty text erases it.
    pub(crate) fn redraw(&mut self, text: &str) {
        // This escape is not a colour, so it is sent even if colours are off.
        let _closed = self.stderr.to.write_all("\r\u{1b}[2K".as_bytes()).and_then(|()| self.stderr.part(text));
    }

    /// Suggests the next command.
    pub(crate) fn next(&mut self, command: impl Display) {
        match self.settings.format {
            Format::Auto | Format::Table => {
                let line = alternatives(&format!("next: {command}"), self.note_columns());
                self.note(Tone::Muted.paint(line));
            }
            Format::Name | Format::Document(..) => {}
        }
    }

    /// Writes a document, with only the selected fields.
    pub(crate) fn document(&mut self, value: &Value) -> Result<(), Failure> {
        let text = match &self.settings.format {
            Format::Document(syntax, fields) => document::text(&fields.select(value)?, *syntax, self.layout())?,
            Format::Auto | Format::Table | Format::Name => document::text(value, Syntax::Json, self.layout())?,
        };
        self.line(text)
    }

    /// Writes the result of an action; `-o name` prints the invocation's id instead.
    pub(crate) fn result(&mut self, name: &str, result: &Value) -> Result<(), Failure> {
        match self.settings.format {
            Format::Name => self.line(clean::line(name)),
            Format::Auto | Format::Table | Format::Document(..) => self.document(result),
        }
    }

    /// Says that something was done: a line for people, and the server's answer `raw` for programs.
    pub(crate) fn done(&mut self, verb: &str, what: impl AsRef<str>, raw: &Value) -> Result<(), Failure> {
        if self.is_document() {
            self.document(raw)?;
        }
        self.note(format!("{} `{}`", Tone::Ok.paint(format!("✓ {verb}")), clean::line(what.as_ref())));
        Ok(())
    }

    /// Shows a new secret, which cannot be read again later.
    pub(crate) fn secret(&mut self, what: &str, raw: &Value, record: &Record) -> Result<(), Failure> {
        self.record(raw, record)?;
        self.remark(Tone::Warn.paint(format!("! the {what} is shown now and never again")));
        Ok(())
    }

    /// Writes a list. `raw` is the page as the server sent it, for `--json`.
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

    /// Writes one thing with its properties. `raw` is the thing as the server sent it, for `--json`.
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

    /// Writes a failure: three lines, or one document with `--json`.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if let Some(unsent) = failure.unsent() {
            // The request that would be sent is the data that the user asked for. A closed pipe is ignored.
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
            // The cursor is behind the `^C` that the terminal showed, so a new line is started.
            self.note("");
        }
        let columns = self.note_columns();
        let told = |text: &str, indent: usize| style::hang(&clean::line(text), indent, columns);
        self.note(format!("{} {}", Tone::Danger.paint("error:"), told(&failure.message, 7)));
        if let Some(cause) = &failure.cause {
            // Causes found by this program may have several lines, such as an excerpt of a file. A cause from the server is kept on one
            // line, because it could imitate such lines.
            let lines: Vec<_> = if failure.problem().is_none() { cause.lines().collect() } else { vec![cause.as_str()] };
            let lines: Vec<_> = lines.into_iter().map(|line| told(line, 9)).collect();
            self.note(format!("  {} {}", Tone::Muted.paint("cause:"), lines.join(&format!("\n{:9}", ""))));
        }
        if let Some(hint) = &failure.hint {
            // A command is written on one line, so that it can be copied.
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

    /// The width of stdout if a person reads it.
    pub(crate) fn columns(&self) -> Option<u16> {
        self.stdout.columns.filter(|_| self.is_drawn())
    }

    /// The width of stderr if a person reads it.
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

/// If several commands do not fit on one line, puts each on its own line, so that it can be copied.
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
