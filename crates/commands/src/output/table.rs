//! Lists and single things, as tables for people or tab-separated for pipes. Each cell has one text for people and one for pipes.

use crate::style::{self, Tone, clean};
use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width};
use countersign_core::{Mode, Status, Tier};

/// The narrowest that a table is drawn. On a narrower terminal it would be unreadable anyway.
const WIDTH_MIN: u16 = 60;
/// The least that is shown of a text that is cut. If there is less room, the text goes below its row.
const CUT_CHARS_MIN: u16 = 20;
/// A delimiter that appears in no cell, so that texts are never broken at words.
const NO_BREAK: char = '\u{1f}';
/// The space between two columns.
const GAP: u16 = 2;
/// The indentation of a line below a row.
const UNDER_INDENT: usize = 4;

/// One value: the text that people see and the text that pipes get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    shown: String,
    raw: String,
    tone: Tone,
}

impl Cell {
    /// The same text for people and pipes, cleaned.
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        let text = clean::line(text.as_ref());
        Self { shown: text.clone(), raw: text, tone: Tone::Plain }
    }

    /// One text for people and another for pipes.
    pub(crate) fn shown(shown: impl AsRef<str>, raw: impl AsRef<str>) -> Self {
        Self { shown: clean::line(shown.as_ref()), raw: clean::line(raw.as_ref()), tone: Tone::Plain }
    }

    /// A value that may be missing. A missing value is a dash for people and empty for pipes.
    pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(Self::missing, Self::text)
    }

    pub(crate) fn missing() -> Self {
        Self::shown("–", "").toned(Tone::Muted)
    }

    /// A principal: `user:…edvwe` for people, the whole id for pipes.
    pub(crate) fn principal(principal: &str) -> Self {
        let short = principal.split_once(':').and_then(|(kind, id)| Some(format!("{kind}:…{}", id.get(id.len().checked_sub(6)?..)?)));
        Self::shown(short.as_deref().unwrap_or(principal), principal)
    }

    pub(crate) fn status(status: Status) -> Self {
        let (shown, tone) = style::status_word(status);
        Self::shown(shown, status.as_str()).toned(tone)
    }

    /// Marks a dry run, for people and scripts alike, so that it is not mistaken for an effect.
    #[must_use]
    pub(crate) fn rehearsed(self, is_dry_run: bool) -> Self {
        if is_dry_run { self.marked(" (dry run)") } else { self }
    }

    /// A duration.
    pub(crate) fn lasting(millis: u64) -> Self {
        Self::shown(style::time::lasting(millis), format!("{millis} ms"))
    }

    pub(crate) fn tier(tier: Tier) -> Self {
        let (shown, tone) = style::tier(tier);
        Self::shown(shown, tier.as_str()).toned(tone)
    }

    pub(crate) fn mode(mode: Mode) -> Self {
        Self::text(mode.as_str()).toned(style::mode(mode))
    }

    #[must_use]
    pub(crate) fn toned(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// The text that people see.
    pub(crate) fn as_shown(&self) -> &str {
        &self.shown
    }

    /// Adds a text that changes the meaning, for people and pipes alike.
    #[must_use]
    pub(crate) fn marked(mut self, mark: &str) -> Self {
        self.shown.push_str(mark);
        self.raw.push_str(mark);
        self
    }

    /// Adds more text for people only.
    #[must_use]
    pub(crate) fn and(mut self, more: impl AsRef<str>) -> Self {
        self.shown.push_str(&clean::line(more.as_ref()));
        self
    }
}

/// How a column behaves when the terminal is narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Never cut. For ids and everything else that people copy or base a decision on.
    Whole(&'static str),
    /// Cut at the end, with `…`. If there is no room for a few words, it goes on a line below the row.
    Cut(&'static str),
    /// Never cut. If there is no room, it goes on a line below the row.
    Below(&'static str),
    /// Never cut, and right-aligned.
    Number(&'static str),
    /// Left out if there is no room.
    Extra(&'static str),
    /// Never cut, and always on lines below the row. It must be the last column.
    Under(&'static str),
}

/// A list of rows. The first column is the id.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    empty: String,
}

impl Table {
    /// `empty` is shown if there are no rows.
    pub(crate) fn new(columns: impl Into<Vec<Column>>, empty: impl Into<String>) -> Self {
        Self { columns: columns.into(), rows: Vec::new(), empty: empty.into() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn empty(&self) -> &str {
        &self.empty
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(|row| row.first()).map(|cell| cell.raw.as_str())
    }

    pub(super) fn tab_separated(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|row| row.iter().map(|cell| cell.raw.as_str()).collect::<Vec<_>>().join("\t"))
    }

    pub(super) fn draw(&self, width: Option<u16>) -> String {
        let width = width.map(|width| width.max(WIDTH_MIN));
        let mut table = plain_table(width);
        table.set_header(
            self.columns.iter().map(|column| comfy_table::Cell::new(column.title().to_uppercase()).add_attribute(Attribute::Dim)),
        );
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).map(|(cell, column)| drawn(cell, column.room(width)));
            let mut drawn = comfy_table::Row::from(cells.collect::<Vec<_>>());
            drawn.max_height(1);
            table.add_row(drawn);
        }
        let contents = table.column_max_content_widths();
        let mut hidden = width.map(|width| self.hidden(&contents, width)).unwrap_or_default();
        hidden.extend(self.columns.iter().position(|column| matches!(column, Column::Under(_))));
        let last = (0..self.columns.len()).rev().find(|index| !hidden.contains(index));
        for (index, (column, drawn)) in self.columns.iter().zip(table.column_iter_mut()).enumerate() {
            let gap = if Some(index) == last { 0 } else { GAP };
            drawn.set_padding((0, gap));
            // Cuts in the middle of a word, so that as much text as possible is shown.
            drawn.set_delimiter(NO_BREAK);
            drawn.set_constraint(match column {
                _ if hidden.contains(&index) => ColumnConstraint::Hidden,
                Column::Cut(_) => ColumnConstraint::LowerBoundary(Width::Fixed(column.least(contents[index]) + gap)),
                Column::Whole(_) | Column::Below(_) | Column::Number(_) | Column::Extra(_) | Column::Under(_) => {
                    ColumnConstraint::ContentWidth
                }
            });
            if matches!(column, Column::Number(_)) {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
        let is_under = |index: &usize| matches!(self.columns[*index], Column::Cut(_) | Column::Below(_) | Column::Under(_));
        let mut under: Vec<_> = hidden.into_iter().filter(is_under).collect();
        under.sort_unstable();
        if under.is_empty() { table.trim_fmt() } else { self.with_under(&table.trim_fmt(), &under, width) }
    }

    /// Adds the cells that did not fit below their rows. In `drawn` every row is one line, after the line of titles.
    fn with_under(&self, drawn: &str, under: &[usize], width: Option<u16>) -> String {
        let title_chars = under.iter().map(|index| self.columns[*index].title().chars().count()).max().unwrap_or_default();
        let mut lines: Vec<String> = Vec::new();
        let mut drawn = drawn.lines();
        lines.extend(drawn.next().map(str::to_owned));
        for (line, row) in drawn.zip(&self.rows) {
            lines.push(line.to_owned());
            for index in under {
                let told = |cell: &&Cell| !cell.shown.is_empty() && **cell != Cell::missing();
                lines.extend(row.get(*index).filter(told).map(|cell| self.columns[*index].below(cell, title_chars, width)));
            }
        }
        lines.join("\n")
    }

    /// The columns that do not fit: extra columns first, then those that can go below the row, each time from the last to the first.
    fn hidden(&self, contents: &[u16], width: u16) -> Vec<usize> {
        let needs = |index: usize| u32::from(self.columns[index].least(contents[index]) + GAP);
        let mut needed = (0..self.columns.len()).map(needs).sum::<u32>().saturating_sub(u32::from(GAP));
        let mut hidden = Vec::new();
        let of = |is: fn(&Column) -> bool| (0..self.columns.len()).rev().filter(move |index| is(&self.columns[*index]));
        let extra = of(|column| matches!(column, Column::Extra(_)));
        for index in extra.chain(of(|column| matches!(column, Column::Cut(_) | Column::Below(_)))).filter(|index| *index > 0) {
            if needed <= u32::from(width) {
                break;
            }
            needed -= needs(index);
            hidden.push(index);
        }
        // After a text went below its row, there may be room again for an extra column.
        let mut left_out = hidden.clone();
        left_out.retain(|index| matches!(self.columns[*index], Column::Extra(_)));
        for index in left_out.into_iter().rev() {
            if needed + needs(index) <= u32::from(width) {
                needed += needs(index);
                hidden.retain(|other| *other != index);
            }
        }
        hidden
    }
}

impl Column {
    /// The width that the column needs at least.
    fn least(self, content: u16) -> u16 {
        match self {
            Self::Cut(_) => content.min(CUT_CHARS_MIN),
            Self::Under(_) => 0,
            Self::Whole(_) | Self::Below(_) | Self::Number(_) | Self::Extra(_) => content,
        }
    }

    /// The number of characters of a cell that can be visible at most. A longer text is shortened first, because the table measures it
    /// several times.
    fn room(self, width: Option<u16>) -> usize {
        match (self, width) {
            (Self::Cut(_), Some(width)) => usize::from(width) + 1,
            (Self::Cut(_) | Self::Whole(_) | Self::Below(_) | Self::Number(_) | Self::Extra(_) | Self::Under(_), _) => usize::MAX,
        }
    }

    /// One cell on lines below its row. A cell that did not fit gets its title, and titles are padded to the same width; an `Under` cell is
    /// shown in full without a title.
    fn below(self, cell: &Cell, title_chars: usize, width: Option<u16>) -> String {
        let indent = " ".repeat(UNDER_INDENT);
        let titled = |title: &str| format!("{indent}{:title_chars$}  ", title.to_lowercase());
        match self {
            Self::Below(title) => {
                let title = titled(title);
                let shown = style::hang(&cell.shown, title.chars().count(), width);
                format!("{}{}", Tone::Muted.paint(title), cell.tone.paint(shown))
            }
            Self::Cut(title) => {
                let title = titled(title);
                let room = width.map(|width| width.saturating_sub(u16::try_from(title.chars().count()).unwrap_or(0)));
                let mut table = plain_table(room);
                let mut row = comfy_table::Row::from([drawn(cell, self.room(width))]);
                row.max_height(1);
                table.add_row(row);
                for column in table.column_iter_mut() {
                    column.set_padding((0, 0)).set_delimiter(NO_BREAK);
                }
                format!("{}{}", Tone::Muted.paint(title), table.trim_fmt())
            }
            Self::Under(_) | Self::Whole(_) | Self::Number(_) | Self::Extra(_) => {
                format!("{indent}{}", cell.tone.paint(style::hang(&cell.shown, UNDER_INDENT, width)))
            }
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Whole(title) | Self::Cut(title) | Self::Below(title) | Self::Number(title) | Self::Extra(title) | Self::Under(title) => {
                title
            }
        }
    }
}

fn plain_table(width: Option<u16>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.set_content_arrangement(ContentArrangement::Dynamic).set_truncation_indicator("…").enforce_styling();
    table.load_style(comfy_table::presets::NOTHING);
    if let Some(width) = width {
        table.set_width(width);
    }
    table
}

fn drawn(cell: &Cell, room: usize) -> comfy_table::Cell {
    let drawn = match cell.shown.char_indices().nth(room) {
        Some((end, _)) => comfy_table::Cell::new(&cell.shown[..end]),
        None => comfy_table::Cell::new(&cell.shown),
    };
    match cell.tone {
        Tone::Plain => drawn,
        Tone::Strong => drawn.add_attribute(Attribute::Bold),
        Tone::Muted => drawn.add_attribute(Attribute::Dim),
        Tone::Ok => drawn.fg(Color::DarkGreen),
        Tone::Primary => drawn.fg(Color::DarkCyan),
        Tone::Warn => drawn.fg(Color::DarkYellow),
        Tone::Danger => drawn.fg(Color::DarkRed),
    }
}

/// One thing with its properties, in the order they are shown.
pub(crate) struct Record {
    name: String,
    rows: Vec<(&'static str, Cell)>,
}

impl Record {
    /// `name` is the text that `-o name` prints.
    pub(crate) fn new(name: impl AsRef<str>) -> Self {
        Self { name: clean::line(name.as_ref()), rows: Vec::new() }
    }

    #[must_use]
    pub(crate) fn with(mut self, label: &'static str, cell: Cell) -> Self {
        self.rows.push((label, cell));
        self
    }

    /// Adds a row if there is a value.
    #[must_use]
    pub(crate) fn with_some(self, label: &'static str, cell: Option<Cell>) -> Self {
        match cell {
            Some(cell) => self.with(label, cell),
            None => self,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn draw(&self, columns: Option<u16>) -> impl Iterator<Item = String> {
        let width = self.rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or_default();
        self.rows.iter().map(move |(label, cell)| {
            let shown = style::hang(&cell.shown, width + 2, columns);
            format!("{}  {}", Tone::Muted.paint(format!("{label:width$}")), cell.tone.paint(shown))
        })
    }

    pub(super) fn tab_separated(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|(label, cell)| format!("{label}\t{}", cell.raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([Column::Whole("ID"), Column::Cut("TITLE"), Column::Number("N")], "nothing here");
        table.row([Cell::text("inv_1"), Cell::text("a title\twith\nbreaks and more words than fit into it"), Cell::text("7")]);
        table.row([Cell::status(Status::Pending), Cell::missing(), Cell::text("70")]);
        table
    }

    #[test]
    fn pipes_get_every_value_whole_on_one_line() {
        let rows: Vec<_> = table().tab_separated().collect();
        assert_eq!(rows, ["inv_1\ta title\\twith\\nbreaks and more words than fit into it\t7", "pending\t\t70"]);
    }

    #[test]
    fn a_narrow_terminal_cuts_only_what_may_be_cut() {
        let drawn = table().draw(Some(WIDTH_MIN));
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        let lines: Vec<_> = plain.lines().collect();
        assert_eq!(lines.len(), 3, "{plain}");
        assert!(lines[0].starts_with("ID"), "{plain}");
        assert!(lines[1].starts_with("inv_1") && lines[1].contains('…') && lines[1].ends_with(" 7"), "{plain}");
        assert!(lines[2].starts_with("◷ pending") && lines[2].ends_with("70"), "{plain}");
    }

    #[test]
    fn a_text_is_cut_where_the_room_ends_and_not_before() {
        let mut table = Table::new([Column::Whole("ID"), Column::Cut("WHAT")], "");
        table.row([Cell::text("i".repeat(38)), Cell::text("path: notes/today.md, text: hello")]);
        let drawn = anstream::adapter::strip_str(&table.draw(Some(60))).to_string();
        assert!(drawn.contains("path: notes/today.m…"), "{drawn}");
    }

    #[test]
    fn what_stands_under_a_row_is_wrapped_and_never_cut() {
        let mut table = Table::new([Column::Whole("CASE"), Column::Whole("RESULT"), Column::Under("WHY")], "");
        table.row([Cell::text("tests/a.json"), Cell::text("failed"), Cell::text("because ".repeat(20).trim())]);
        table.row([Cell::text("tests/b.json"), Cell::text("ok"), Cell::text("")]);
        let drawn = anstream::adapter::strip_str(&table.draw(Some(80))).to_string();
        let lines: Vec<_> = drawn.lines().collect();
        assert_eq!((lines[0], lines[1], lines.last().copied()), ("CASE          RESULT", "tests/a.json  failed", Some("tests/b.json  ok")));
        assert!(lines[2].starts_with("    because") && lines.iter().all(|line| line.chars().count() <= 80), "{drawn}");
        assert_eq!(drawn.matches("because").count(), 20, "{drawn}");
        assert!(table.tab_separated().next().unwrap().starts_with("tests/a.json\tfailed\tbecause because"));
    }

    #[test]
    fn what_is_extra_gives_way_before_a_line_breaks() {
        let mut table =
            Table::new([Column::Whole("ID"), Column::Extra("WHY"), Column::Cut("WHAT"), Column::Extra("WHO"), Column::Whole("WHEN")], "");
        table.row([
            Cell::text("i".repeat(30)),
            Cell::text("because"),
            Cell::text("w".repeat(40)),
            Cell::text("somebody"),
            Cell::text("just now"),
        ]);
        for (width, expected) in [
            (120, "ID WHY WHAT WHO WHEN"),
            (83, "ID WHY WHAT WHO WHEN"),
            (80, "ID WHY WHAT WHEN"),
            (70, "ID WHAT WHEN"),
            (62, "ID WHAT WHEN"),
            (10, "ID WHY WHO WHEN"),
        ] {
            let drawn = anstream::adapter::strip_str(&table.draw(Some(width))).to_string();
            let header: Vec<_> = drawn.lines().next().unwrap().split_whitespace().collect();
            assert_eq!(header.join(" "), expected, "{width}");
            // Once the text is below its row, there is room again for the extra column.
            let is_under = !expected.contains("WHAT");
            assert_eq!(drawn.lines().count(), if is_under { 3 } else { 2 }, "{drawn}");
            assert!(drawn.lines().all(|line| line.chars().count() <= usize::from(width.max(WIDTH_MIN))), "{drawn}");
        }
    }

    #[test]
    fn a_text_without_room_stands_under_its_row() {
        let mut table = Table::new(
            [Column::Whole("ID"), Column::Whole("ACTION"), Column::Extra("TIER"), Column::Cut("WHAT"), Column::Whole("LEFT")],
            "",
        );
        table.row([
            Cell::text("i".repeat(30)),
            Cell::text("a".repeat(16)),
            Cell::text("t".repeat(8)),
            Cell::text("写".repeat(30)),
            Cell::text("4:29"),
        ]);
        table.row([Cell::text("i".repeat(30)), Cell::text("a"), Cell::text("t"), Cell::missing(), Cell::text("4:29")]);
        for (width, expected, under) in [
            (100, "ID ACTION TIER WHAT LEFT", 0),
            (86, "ID ACTION TIER WHAT LEFT", 0),
            (80, "ID ACTION WHAT LEFT", 0),
            (60, "ID ACTION LEFT", 24),
        ] {
            let drawn = anstream::adapter::strip_str(&table.draw(Some(width))).to_string();
            let lines: Vec<_> = drawn.lines().collect();
            assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>().join(" "), expected, "{width}");
            assert_eq!(lines.len(), if under > 0 { 4 } else { 3 }, "what is missing needs no line: {drawn}");
            if under > 0 {
                assert_eq!(lines[2], format!("    what  {}…", "写".repeat(under)), "as much as there is room for: {drawn}");
            }
            let wide = |line: &str| line.chars().map(|character| if character == '写' { 2 } else { 1 }).sum::<usize>();
            assert!(lines.iter().all(|line| wide(line) <= usize::from(width)), "{drawn}");
        }
    }

    #[test]
    fn what_is_never_cut_stands_whole_under_its_row_in_the_order_of_the_columns() {
        let mut table = Table::new(
            [Column::Whole("ID"), Column::Below("ACTION"), Column::Whole("STATE"), Column::Cut("WHAT"), Column::Whole("WHEN")],
            "",
        );
        let action = format!("kit.{}", "a".repeat(26));
        table.row([Cell::text("i".repeat(30)), Cell::text(&action), Cell::text("pending"), Cell::text("w".repeat(90)), Cell::text("now")]);
        let drawn = anstream::adapter::strip_str(&table.draw(Some(60))).to_string();
        let lines: Vec<_> = drawn.lines().collect();
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["ID", "STATE", "WHEN"], "{drawn}");
        assert_eq!(lines[2..], [format!("    action  {action}"), format!("    what    {}…", "w".repeat(47))], "{drawn}");
    }

    #[test]
    fn a_principal_is_short_for_people_and_whole_for_pipes() {
        for (principal, shown) in [
            ("user:usr_01m7ek89bxkrvmjkrz8jcedvwe", "user:…cedvwe"),
            ("nobody", "nobody"),
            ("user:x", "user:x"),
            ("user:ääää", "user:…äää"),
        ] {
            assert_eq!(Cell::principal(principal), Cell::shown(shown, principal));
        }
    }

    #[test]
    fn a_record_is_aligned_for_people_and_tab_separated_for_pipes() {
        let record = Record::new("x").with("id", Cell::text("x")).with("status", Cell::status(Status::Failed));
        let drawn: Vec<_> = record.draw(None).map(|line| anstream::adapter::strip_str(&line).to_string()).collect();
        assert_eq!(drawn, ["id      x", "status  ✗ failed"]);
        assert_eq!(record.tab_separated().collect::<Vec<_>>(), ["id\tx", "status\tfailed"]);
        let long = Record::new("x").with("why", Cell::text(format!("{}end", "word ".repeat(12))));
        let drawn: Vec<_> = long.draw(Some(60)).map(|line| anstream::adapter::strip_str(&line).to_string()).collect();
        assert_eq!(drawn, [format!("why  {}word\n     word end", "word ".repeat(10))]);
    }
}
