//! The canonical form of a JSON value (RFC 8785), written in one pass.
//! Members are written in the order they come. When an object closes and its members were not in order, they are sorted in place. No second
//! structure is built, so the form is cheap enough for every receipt (`docs/decisions/0005-canonical-json.md`).

use super::INTEGER_MAX;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::io;
use std::ops::Range;

/// The text, and whether every integer in it is exact in every JSON reader.
pub(super) struct Canonical {
    pub(super) text: String,
    pub(super) is_exact: bool,
}

/// What becomes of integers beyond 2^53 - 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Integers {
    /// They are rounded, as the RFC demands.
    Rounded,
    /// They keep every digit, so that two different ones never share a digest.
    Kept,
}

pub(super) fn write<T: Serialize + ?Sized>(value: &T, integers: Integers) -> Result<Canonical, String> {
    let page = Page { text: RefCell::new(Vec::with_capacity(TEXT_BYTES)), is_exact: Cell::new(true) };
    let members = Members { page: &page, integers, open: Vec::new(), members: Vec::new() };
    let mut serializer = serde_json::Serializer::with_formatter(Pen(&page), members);
    value.serialize(&mut serializer).map_err(|error| error.to_string())?;
    let text = String::from_utf8(page.text.into_inner()).map_err(|error| error.to_string())?;
    Ok(Canonical { text, is_exact: page.is_exact.get() })
}

/// Room for a typical receipt, so that the buffer need not grow.
const TEXT_BYTES: usize = 2_048;

/// The buffer that `Pen` writes and that the formatter reads again to sort members.
struct Page {
    text: RefCell<Vec<u8>>,
    is_exact: Cell<bool>,
}

struct Pen<'p>(&'p Page);

impl io::Write for Pen<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.text.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.text.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One member of an open object, by the range of its key with the quotes. It ends before the comma of the next member, or at the end of the
/// text.
struct Member {
    key: Range<usize>,
    /// The key is ASCII without escapes, so it can be compared by its bytes.
    is_plain: bool,
}

/// An object that is being written.
struct Open {
    /// The index of its first member in `Members::members`.
    first: usize,
    is_in_order: bool,
}

/// Writes compact JSON and sorts the members of an object when it closes.
struct Members<'p> {
    page: &'p Page,
    integers: Integers,
    open: Vec<Open>,
    members: Vec<Member>,
}

impl Members<'_> {
    fn at(&self) -> usize {
        self.page.text.borrow().len()
    }

    fn write_number<W: ?Sized + io::Write>(&self, writer: &mut W, value: f64) -> io::Result<()> {
        if !value.is_finite() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a number is not finite"));
        }
        if value.fract() == 0.0 && value.abs() > INTEGER_MAX as f64 {
            self.page.is_exact.set(false);
        }
        writer.write_all(ryu_js::Buffer::new().format_finite(value).as_bytes())
    }
}

impl Formatter for Members<'_> {
    fn write_i64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        if self.integers == Integers::Rounded && value.unsigned_abs() > INTEGER_MAX as u64 {
            return self.write_number(writer, value as f64);
        }
        serde_json::ser::CompactFormatter.write_i64(writer, value)
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        if self.integers == Integers::Rounded && value > INTEGER_MAX as u64 {
            return self.write_number(writer, value as f64);
        }
        serde_json::ser::CompactFormatter.write_u64(writer, value)
    }

    fn write_i128<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i128) -> io::Result<()> {
        match i64::try_from(value) {
            Ok(value) => self.write_i64(writer, value),
            Err(_) => self.write_number(writer, value as f64),
        }
    }

    fn write_u128<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u128) -> io::Result<()> {
        match u64::try_from(value) {
            Ok(value) => self.write_u64(writer, value),
            Err(_) => self.write_number(writer, value as f64),
        }
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        self.write_number(writer, value.into())
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        self.write_number(writer, value)
    }

    fn write_number_str<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: &str) -> io::Result<()> {
        let value = value.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.write_number(writer, value)
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, _: &mut W, _: &str) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "text that was not read has no canonical form"))
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.push(Open { first: self.members.len(), is_in_order: true });
        writer.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        let at = self.at();
        self.members.push(Member { key: at..at, is_plain: true });
        Ok(())
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        let text = self.page.text.borrow();
        let (Some(open), Some(member)) = (self.open.last_mut(), self.members.last_mut()) else {
            return Ok(());
        };
        member.key.end = text.len();
        member.is_plain = text[member.key.clone()].iter().all(|byte| byte.is_ascii() && *byte != b'\\');
        if open.is_in_order
            && let [.., before, member] = &self.members[open.first..]
        {
            open.is_in_order = order(&text, before, member) == Ordering::Less;
        }
        Ok(())
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if let Some(Open { first, is_in_order }) = self.open.pop() {
            if !is_in_order {
                put_in_order(&mut self.page.text.borrow_mut(), &self.members[first..]);
            }
            self.members.truncate(first);
        }
        writer.write_all(b"}")
    }
}

/// Sorts the members, which are at the end of the text with commas between them.
fn put_in_order(text: &mut Vec<u8>, members: &[Member]) {
    let Some(begin) = members.first().map(|member| member.key.start) else {
        return;
    };
    let ends = members.iter().skip(1).map(|next| next.key.start - 1).chain([text.len()]);
    let mut sorted: Vec<_> = members.iter().zip(ends).collect();
    sorted.sort_unstable_by(|(one, _), (other, _)| order(text, one, other));
    let mut ordered = Vec::with_capacity(text.len() - begin);
    for (member, end) in sorted {
        if !ordered.is_empty() {
            ordered.push(b',');
        }
        ordered.extend_from_slice(&text[member.key.start..end]);
    }
    text.truncate(begin);
    text.append(&mut ordered);
}

fn order(text: &[u8], one: &Member, other: &Member) -> Ordering {
    let bare = |member: &Member| &text[member.key.start + 1..member.key.end - 1];
    if one.is_plain && other.is_plain { bare(one).cmp(bare(other)) } else { compare(&text[one.key.clone()], &text[other.key.clone()]) }
}

/// Compares by UTF-16 code units, as the RFC demands. For plain ASCII this is the order of the bytes.
fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let units = |key: &[u8]| serde_json::from_slice::<String>(key).unwrap_or_default().encode_utf16().collect::<Vec<_>>();
    units(one).cmp(&units(other))
}
