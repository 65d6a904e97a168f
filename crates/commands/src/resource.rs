//! Describes the kinds of things that the server keeps: the name of a kind, its path, and the fields that are shown. Lists, single records,
//! paging, completion and look-up by name all follow from this description.

mod named;
mod names;

pub(crate) use named::{Named, id_of, maybe_id_of, taken};
pub(crate) use names::Names;

use crate::client::{Answer, Client};
use crate::exit::Failure;
use crate::flags::Paging;
use crate::output::{Cell, Column, Record, Table, Terminal};
use api::Page;
use countersign_core::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind of thing that the server keeps.
pub(crate) trait Resource: DeserializeOwned + 'static {
    /// The name of one such thing in commands and messages.
    const NOUN: &'static str;
    /// The command that lists them, without `countersign`.
    const LIST: &'static str;
    /// The path segments after `/api/v1`.
    const PATH: &'static [&'static str];
    /// The text that is shown if the list is empty.
    const EMPTY: &'static str;
    /// The fields, in the order of the columns.
    const FIELDS: &'static [Field<Self>];
    /// What shells offer to complete an argument: the member that is inserted, and the members that describe it.
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &[]);
    /// Short names for nested members, for `--json=…`.
    const SHORT_NAMES: &'static [(&'static str, &'static str)] = &[];

    /// Whether a field shows a space, so that the names of spaces are needed.
    const SHOWS_SPACES: bool = false;

    /// The text that `-o name` prints.
    fn id(&self) -> &str;

    /// Adds lines to the record that do not correspond to one field.
    fn more(&self, record: Record) -> Record {
        record
    }

    /// The command to suggest after one thing was shown.
    fn next(&self) -> Option<String> {
        None
    }

    /// The command to suggest after the last page of a list.
    fn next_of(_items: &[Self]) -> Option<String> {
        None
    }
}

/// Builds a column with a label.
type Fit = fn(&'static str) -> Column;
/// Computes the cell. For `None` the record has no such line, and the list an empty cell.
type Shown<R> = fn(&R, &View<'_>) -> Option<Cell>;

/// One field of a thing: its label and its cell.
pub(crate) struct Field<R> {
    label: &'static str,
    column: Option<Fit>,
    is_line: bool,
    cell: Shown<R>,
}

impl<R> Field<R> {
    /// A column of the list and a line of the record.
    pub(crate) const fn both(label: &'static str, column: Fit, cell: Shown<R>) -> Self {
        Self { label, column: Some(column), is_line: true, cell }
    }

    /// A column of the list only.
    pub(crate) const fn column(label: &'static str, column: Fit, cell: Shown<R>) -> Self {
        Self { label, column: Some(column), is_line: false, cell }
    }

    /// A line of the record only.
    pub(crate) const fn line(label: &'static str, cell: Shown<R>) -> Self {
        Self { label, column: None, is_line: true, cell }
    }
}

/// The context for cells: the clock, the names of people and spaces, and whether there is little room.
pub(crate) struct View<'a> {
    terminal: &'a Terminal,
    names: &'a Names,
    is_record: bool,
}

impl View<'_> {
    pub(crate) fn past(&self, at: Timestamp) -> Option<Cell> {
        Some(self.terminal.past(at))
    }

    pub(crate) fn future(&self, at: Timestamp) -> Option<Cell> {
        Some(self.terminal.future(at))
    }

    /// Whether a person reads it.
    pub(crate) fn is_for_people(&self) -> bool {
        self.terminal.is_for_people()
    }

    pub(crate) fn is_past(&self, at: Timestamp) -> bool {
        at <= self.terminal.now()
    }

    /// A person by name, any other principal by id, shortened in a list.
    pub(crate) fn who(&self, principal: &str) -> Option<Cell> {
        Some(if self.is_record { self.names.whole(principal) } else { self.names.cell(principal) })
    }

    /// Who requested something: an agent by the title of its session, anybody else as `who` shows them.
    pub(crate) fn requester(&self, principal: &str, session_title: Option<&str>) -> Option<Cell> {
        names::titled(principal, session_title).or_else(|| self.who(principal))
    }

    /// A space by name with a short id, or by its id.
    pub(crate) fn space(&self, id: &str) -> Option<Cell> {
        Some(self.names.space(id))
    }

    pub(crate) fn name(&self, principal: &str) -> String {
        self.names.name(principal)
    }
}

/// A text as a cell.
pub(crate) fn text(text: impl AsRef<str>) -> Option<Cell> {
    Some(Cell::text(text))
}

/// A text that may be missing.
pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Option<Cell> {
    text.map(Cell::text)
}

/// Which page of a list is wanted, and which rows.
#[derive(Default)]
pub(crate) struct Asked<'a> {
    paging: Option<&'a Paging>,
    query: Vec<(&'static str, String)>,
    /// The filters as the user would type them.
    typed: String,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(paging: &'a Paging) -> Self {
        Self { paging: Some(paging), ..Self::default() }
    }

    /// Keeps only rows whose member `name` has this value. The flag has the same name.
    #[must_use]
    pub(crate) fn only(mut self, name: &'static str, value: Option<String>) -> Self {
        if let Some(value) = value {
            let flag = name.replace('_', "-");
            self.typed.push_str(&if value == "true" { format!(" --{flag}") } else { format!(" --{flag} {value}") });
            self.query.push((name, value));
        }
        self
    }

    /// Like `only`, for a filter that is typed as an argument, not as a flag.
    #[must_use]
    pub(crate) fn word(mut self, name: &'static str, value: Option<String>) -> Self {
        if let Some(value) = value {
            self.typed.push_str(&format!(" {value}"));
            self.query.push((name, value));
        }
        self
    }

    /// The text for an empty list: nothing exists, or nothing matches the filters.
    fn empty<R: Resource>(&self) -> String {
        match self.query.iter().any(|(name, _)| *name == "action") {
            _ if self.query.is_empty() => R::EMPTY.to_owned(),
            true => format!("no {} matches: countersign action list shows what actions there are", R::NOUN),
            false => format!("no {} matches", R::NOUN),
        }
    }
}

/// Writes a page of the list and suggests the next command.
pub(crate) async fn list<R: Resource>(asked: Asked<'_>, client: &Client, terminal: &mut Terminal) -> Result<Vec<R>, Failure> {
    list_then(asked, R::next_of, client, terminal).await
}

/// Like `list`, with another suggestion for the next command.
pub(crate) async fn list_then<R: Resource>(
    asked: Asked<'_>,
    then: fn(&[R]) -> Option<String>,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Vec<R>, Failure> {
    let paging = asked.paging.map(Paging::query).unwrap_or_default();
    let query: Vec<_> = paging.into_iter().chain(asked.query.clone()).collect();
    let Answer { read, raw } = client.get::<Page<R>>(R::PATH, &query).await?;
    write(&read.items, &raw, asked.empty::<R>(), client, terminal).await?;
    let next = match (&read.next, asked.paging) {
        (Some(next), Some(paging)) => Some(format!("countersign {}{}{}", R::LIST, asked.typed, paging.next(next))),
        (_, _) => then(&read.items),
    };
    if let Some(next) = next {
        terminal.next(next);
    }
    Ok(read.items)
}

/// The names that the fields of such things show.
async fn known<R: Resource>(client: &Client, terminal: &Terminal) -> Names {
    let names = Names::load(client, terminal).await;
    if R::SHOWS_SPACES { names.and_spaces(client, terminal).await } else { names }
}

/// Writes these items as a list.
pub(crate) async fn write<R: Resource>(
    items: &[R],
    raw: &Value,
    empty: String,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let names = known::<R>(client, terminal).await;
    let table = table(items, &names, empty, terminal);
    terminal.list(&selectable::<R>(raw.clone(), terminal), &table)
}

fn table<R: Resource>(items: &[R], names: &Names, empty: String, terminal: &Terminal) -> Table {
    let view = View { terminal, names, is_record: false };
    let fields = || R::FIELDS.iter().filter_map(|field| Some((field, field.column?)));
    let mut table = Table::new(fields().map(|(field, column)| column(field.label)).collect::<Vec<_>>(), empty);
    for item in items {
        table.row(fields().map(|(field, _)| (field.cell)(item, &view).unwrap_or_else(Cell::missing)));
    }
    table
}

/// Reads and writes one thing, and suggests the next command.
pub(crate) async fn show<R: Resource>(id: &str, client: &Client, terminal: &mut Terminal) -> Result<Answer<R>, Failure> {
    let path: Vec<_> = R::PATH.iter().copied().chain([id]).collect();
    let answer = client.get::<R>(&path, &[]).await?;
    tell(&answer, client, terminal).await?;
    Ok(answer)
}

/// Like `show`, for a thing that the server has just returned.
pub(crate) async fn tell<R: Resource>(answer: &Answer<R>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    tell_with(answer, |record| record, client, terminal).await
}

/// Like `tell`, with additional lines in the record.
pub(crate) async fn tell_with<R: Resource>(
    answer: &Answer<R>,
    more: impl FnOnce(Record) -> Record,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    tell_then(answer, more, answer.read.next(), client, terminal).await
}

/// Like `tell_with`, with another suggestion for the next command.
pub(crate) async fn tell_then<R: Resource>(
    answer: &Answer<R>,
    more: impl FnOnce(Record) -> Record,
    next: Option<String>,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let names = known::<R>(client, terminal).await;
    let record = more(record(&answer.read, &names, terminal));
    terminal.record(&selectable::<R>(answer.raw.clone(), terminal), &record)?;
    if let Some(next) = next {
        terminal.next(next);
    }
    Ok(())
}

fn record<R: Resource>(item: &R, names: &Names, terminal: &Terminal) -> Record {
    let view = View { terminal, names, is_record: true };
    let lines = R::FIELDS.iter().filter(|field| field.is_line);
    item.more(lines.fold(Record::new(item.id()), |record, field| record.with_some(field.label, (field.cell)(item, &view))))
}

/// Adds the short names to the document if the user selects fields. Otherwise the document stays as the server sent it.
fn selectable<R: Resource>(mut raw: Value, terminal: &Terminal) -> Value {
    if R::SHORT_NAMES.is_empty() || !terminal.selects_fields() {
        return raw;
    }
    let add = |one: &mut Value| {
        for (name, pointer) in R::SHORT_NAMES {
            let found = one.pointer(pointer).cloned().unwrap_or_default();
            if let Some(members) = one.as_object_mut() {
                members.entry(*name).or_insert(found);
            }
        }
    };
    match raw.get_mut("items").and_then(Value::as_array_mut) {
        Some(items) => items.iter_mut().for_each(add),
        None => add(&mut raw),
    }
    raw
}
