//! Finds telephone numbers in a folded text. A scanner proposes runs of digits that are written like numbers, and the numbering plans
//! decide. International numbers are checked without a region, because with the wrong region valid numbers are refused. National numbers
//! need a region; if they stand alone, they also need a key or a label that says phone, because many other things have ten digits.

mod plans;

pub(super) use plans::Plans;
pub use plans::{Region, UnknownRegion, warm};

use crate::words;
use plans::{Rank, Spelling};
use std::ops::Range;

/// What a key says about the text under it, or a label about the number after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Nothing,
    Phone,
    /// The number identifies something else, such as an order.
    Other,
}

impl Says {
    /// What a key says. Everything below a key that says phone counts as phone, unless its own key says otherwise.
    pub(super) fn of_key(key: &str, above: Self) -> Self {
        let words = words::split(key);
        let is_listed = |list: &str, word: &String| list.split(' ').any(|listed| listed == word);
        if words.last().is_some_and(|last| is_listed(OTHER, last)) {
            Self::Other
        } else if above == Self::Phone || words.iter().any(|word| is_listed(PHONE, word)) {
            Self::Phone
        } else {
            Self::Nothing
        }
    }

    /// What the word right before a number says, as in `tel: …`, `"phone": "…"` and `?fax=…`.
    fn of_label(chars: &[char], begin: usize, key: Self) -> Self {
        let before = chars[begin.saturating_sub(LABEL_CHARS_MAX)..begin].iter().rev();
        let word: String =
            before.skip_while(|sign| GAP.contains(sign)).take_while(|sign| sign.is_ascii_alphabetic() || **sign == '_').collect();
        match Self::of_key(&word.chars().rev().collect::<String>(), Self::Nothing) {
            Self::Nothing => key,
            said @ (Self::Phone | Self::Other) => said,
        }
    }
}

const PHONE: &str = "phone phones telephone telephones tel mobile mobiles cell cellphone fax whatsapp sms msisdn phonenumber";
const OTHER: &str = "id ids order invoice account ref reference ticket serial tracking customer case build page hash";
const GAP: [char; 8] = [' ', ':', '.', '=', '(', '"', '\'', '\t'];
const LABEL_CHARS_MAX: usize = 32;

/// Every number, from left to right. `key` is what the keys above the text say.
pub(super) fn find(chars: &[char], key: Says, plans: &mut Plans) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let Some(run) = run(chars, at) else {
            at = skip(chars, at);
            continue;
        };
        let (number, next) = match run.plus {
            Some(_) => international(&run, Says::of_label(chars, at, key), plans),
            None => national(chars, &run, key, plans),
        };
        found.extend(number.map(|number| number.start..extension(chars, number.end)));
        at = found.last().map_or(next, |last| next.max(last.end)).max(at + 1);
    }
    found
}

/// Groups of digits, and the separators between them.
struct Run {
    /// Where the plus stands, or the bracket before it if there is one.
    plus: Option<usize>,
    /// Whether a bracket stands before the plus.
    is_opened: bool,
    groups: Vec<Group>,
}

struct Group {
    range: Range<usize>,
    digits: String,
    /// The characters between the group before and this one.
    before: String,
}

impl Group {
    fn is_bracketed(&self) -> bool {
        self.before.ends_with('(')
    }

    /// Where the group begins, its bracket included.
    fn start(&self) -> usize {
        self.range.start - usize::from(self.is_bracketed())
    }

    fn number(&self) -> u32 {
        self.digits.parse().unwrap_or(u32::MAX)
    }
}

/// The most characters between two groups, as in `) ` and ` - `.
const BETWEEN_CHARS_MAX: usize = 3;
const BETWEEN: [char; 6] = [' ', '-', '.', '/', '(', ')'];
/// The number of digits of the shortest and of the longest number in the plans.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;
/// The most digits that people dial within a country; some plans allow more.
const NATIONAL_DIGITS_MAX: usize = 13;
/// The most groups of one run, which is more than two numbers have. Later groups start a new run.
const GROUPS_MAX: usize = 24;
/// How many ends are tried for one beginning.
const ENDS_MAX: usize = 6;

/// The run that begins here, if a number could begin here.
fn run(chars: &[char], at: usize) -> Option<Run> {
    let before = at.checked_sub(1).map(|before| chars[before]);
    let opened = usize::from(chars[at] == '(');
    let plus = (chars.get(at + opened) == Some(&'+')).then_some(at);
    let is_within = before.is_some_and(|before| before.is_ascii_alphanumeric() || matches!(before, '_' | '+'));
    let mut next = at + opened + usize::from(plus.is_some());
    next += usize::from(plus.is_some() && chars.get(next).is_some_and(|next| matches!(next, ' ' | '(')));
    if is_within || !chars.get(next).is_some_and(char::is_ascii_digit) {
        return None;
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut between = if opened == 1 && plus.is_none() { "(".to_owned() } else { String::new() };
    loop {
        let length = chars[next..].iter().take_while(|character| character.is_ascii_digit()).count();
        groups.push(Group { range: next..next + length, digits: chars[next..next + length].iter().collect(), before: between });
        next += length;
        between = chars[next..].iter().take(BETWEEN_CHARS_MAX).take_while(|character| BETWEEN.contains(character)).collect();
        let end = next + between.chars().count();
        if between.is_empty() || groups.len() == GROUPS_MAX || !chars.get(end).is_some_and(char::is_ascii_digit) {
            break;
        }
        next = end;
    }
    Some(Run { plus, is_opened: opened == 1 && plus.is_some(), groups })
}

/// Skips a word that contains digits, or one character.
fn skip(chars: &[char], at: usize) -> usize {
    let is_word = |character: &&char| character.is_ascii_alphanumeric() || **character == '_';
    at + chars[at..].iter().take_while(is_word).count().max(1)
}

/// The longest valid number after a plus, and where to continue.
fn international(run: &Run, says: Says, plans: &mut Plans) -> (Option<Range<usize>>, usize) {
    let mut start = run.plus.unwrap_or_default();
    let mut digits = "+".to_owned();
    let mut ends = Vec::new();
    for (index, group) in run.groups.iter().enumerate() {
        // In `+44 (0)20` the bracketed zero is dialled only within the country, so it is left out.
        if !(index > 0 && group.digits == "0" && group.is_bracketed()) {
            digits.push_str(&group.digits);
        }
        if digits.len() - 1 > *DIGITS.end() {
            break;
        }
        // A number that is grouped like a number, or as long as one, need not be in a range that is known to be in use.
        let least = if says == Says::Phone || index >= 2 || digits.len() > 11 { Rank::Possible } else { Rank::Assigned };
        ends.push((digits.clone(), group.range.end, least));
    }
    let tried: Vec<_> = ends.iter().rev().take(ENDS_MAX).filter(|(digits, ..)| DIGITS.contains(&(digits.len() - 1))).collect();
    let assigned = tried.iter().find(|(digits, ..)| plans.rank(digits, &Spelling::Any) >= Rank::Assigned);
    match assigned.or_else(|| tried.iter().find(|(digits, _, least)| plans.rank(digits, &Spelling::Any) >= *least)) {
        Some((_, end, _)) => {
            // Of `(+44) 20…` the brackets are removed too; of `(+44 20…)` only the number inside them.
            let is_closed = run.groups.iter().skip(1).take(1).any(|group| group.range.start <= *end && group.before.starts_with(')'));
            start += usize::from(run.is_opened && !is_closed);
            (Some(start..*end), *end)
        }
        None => (None, run.groups.first().map_or(start + 1, |group| group.range.end)),
    }
}

/// The first number in a run without a plus, and where to continue.
fn national(chars: &[char], run: &Run, key: Says, plans: &mut Plans) -> (Option<Range<usize>>, usize) {
    let (Some(first), Some(last)) = (run.groups.first(), run.groups.last()) else {
        return (None, 0);
    };
    let begin = first.start();
    let says = Says::of_label(chars, begin, key);
    let over = (None, last.range.end);
    if is_minute(chars, begin) {
        return (None, first.range.end);
    }
    if (plans.regions.is_empty() && says != Says::Phone) || is_attached(chars, begin, says) || is_account(chars, run) {
        return over;
    }
    let undated = dates(&run.groups);
    let timed = usize::from(is_time(chars, last.range.end));
    let groups = &run.groups[undated.min(run.groups.len() - timed)..run.groups.len() - timed];
    for start in 0..groups.len() {
        let group = &groups[start];
        let opens = group.is_bracketed() || group.digits.starts_with('0') || group.before.contains('/');
        if start > 0 && !(opens && group.before.contains([' ', '(', '/'])) {
            continue;
        }
        for end in ends(groups, start, opens) {
            let written = &groups[start..end];
            let digits: String = written.iter().map(|group| group.digits.as_str()).collect();
            let stop = groups[end - 1].range.end + usize::from(is_closed(chars, written));
            if is_written_so(written, &digits, says) && !is_measured(chars, stop) && is_dialled(chars, written, &digits, says, plans) {
                return (Some(groups[start].start()..stop), stop);
            }
        }
    }
    over
}

/// The possible ends of a number that starts here, the farthest first. Unless the number starts with a zero or a bracket, or a new number
/// may start at the end, at most three digits of the run may be left over.
fn ends(groups: &[Group], start: usize, opens: bool) -> Vec<usize> {
    let mut digits = 0;
    let mut ends = Vec::new();
    for (index, group) in groups.iter().enumerate().skip(start) {
        digits += group.digits.len();
        if digits > *DIGITS.end() {
            break;
        }
        if digits >= *DIGITS.start() {
            ends.push(index + 1);
        }
    }
    ends.retain(|&end| {
        let left: usize = groups[end..].iter().map(|group| group.digits.len()).sum();
        let divides = groups.get(end).is_some_and(|next| next.before.contains('/') || next.is_bracketed() || next.digits.starts_with('0'));
        opens || left <= 3 || divides
    });
    ends.into_iter().rev().take(ENDS_MAX).collect()
}

fn is_dialled(chars: &[char], groups: &[Group], digits: &str, says: Says, plans: &mut Plans) -> bool {
    let is_certain = says == Says::Phone;
    let is_grouped = digits.starts_with('0') && groups.len() > 1 && (10..=11).contains(&digits.len());
    let least = match groups {
        _ if is_certain || is_grouped => Rank::Possible,
        // Digits without separators, about which nothing is said: only a mobile number counts, unless the digits fill a table cell.
        [alone] if !is_cell(chars, alone) => Rank::Mobile,
        _ => Rank::Assigned,
    };
    // `00` begins an international number in nearly every country. Where a key says phone, an international number may also have no prefix
    // at all.
    let abroad = digits.strip_prefix("00").filter(|rest| rest.len() >= 9);
    let spelling =
        if is_certain { Spelling::Any } else { Spelling::Usual { lengths: groups.iter().map(|group| group.digits.len()).collect() } };
    let is_short = digits.len() <= NATIONAL_DIGITS_MAX;
    let is_bare = is_certain && digits.len() >= 10 && !digits.starts_with('0');
    abroad.is_some_and(|rest| plans.rank(&format!("+{rest}"), &spelling) >= least)
        || (is_short && !plans.regions.is_empty() && plans.rank(digits, &spelling) >= least)
        || (is_bare && plans.rank(&format!("+{digits}"), &spelling) >= least)
}

/// Whether the group stands alone between the separators of a table, or is the whole text.
fn is_cell(chars: &[char], group: &Group) -> bool {
    let divides = |character: Option<&char>| character.is_none_or(|character| matches!(character, ',' | ';' | '|' | '\t' | '\n' | '\r'));
    let before = group.range.start.checked_sub(1).and_then(|before| chars.get(before));
    divides(before) && divides(chars.get(group.range.end))
}

/// Whether the digits are grouped like a number, and not like a date, an address, an amount or an identifier.
fn is_written_so(groups: &[Group], digits: &str, says: Says) -> bool {
    let is_zero = digits.starts_with('0');
    let is_certain = says == Says::Phone;
    if says == Says::Other || digits.starts_with("000") {
        return false;
    }
    let [first, rest @ ..] = groups else {
        return false;
    };
    if rest.is_empty() {
        return is_certain || (is_zero && (10..=13).contains(&digits.len()));
    }
    let all = |is: fn(&Group) -> bool| rest.iter().all(is);
    let is_grouped = |lengths: &[usize]| groups.iter().map(|group| group.digits.len()).eq(lengths.iter().copied());
    let is_dotted = all(|group| group.before == ".");
    let is_slashed = rest.iter().skip(1).any(|group| group.before.contains('/'))
        || (rest[0].before.contains('/') && !is_zero && !is_grouped(&[3, 3, 4]));
    let is_address = is_dotted && groups.len() == 4 && groups.iter().all(|group| group.digits.len() <= 3 && group.number() <= 255);
    let is_decimal = is_dotted && (groups.len() == 2 && !is_zero || groups.iter().any(|group| group.digits.len() < 2));
    let is_book = digits.len() == 13 && (digits.starts_with("978") || digits.starts_with("979"));
    let is_insured = is_grouped(&[3, 2, 4]) && all(|group| group.before == "-");
    let is_years = is_grouped(&[4, 4]) && groups.iter().all(|group| (1900..=2099).contains(&group.number()));
    let is_trunk = first.digits.len() == 1 && matches!(first.digits.as_str(), "1" | "8") && digits.len() == 11;
    let is_lone = (first.digits.len() == 1 && !is_trunk) || rest.iter().any(|group| group.digits.len() == 1);
    let is_dated = (0..groups.len()).any(|at| dates(&groups[at..]) > 0);
    if is_slashed || is_address || is_decimal || is_book || is_insured || is_years || is_dated || (is_lone && !is_certain) {
        return false;
    }
    let is_thousands = all(|group| group.digits.len() == 3 && matches!(group.before.as_str(), " " | "."));
    let is_amount = is_thousands && !is_zero && !first.is_bracketed() && (first.digits.len() <= 2 || groups.len() > 3);
    let is_pairs = groups.iter().all(|group| group.digits.len() == 2);
    is_certain || is_zero || first.is_bracketed() || !(is_amount || is_pairs || digits.len() <= 8)
}

/// How many groups at the beginning form a date.
fn dates(groups: &[Group]) -> usize {
    let [first, second, third, ..] = groups else {
        return 0;
    };
    let is_divided = second.before == third.before && matches!(second.before.as_str(), "-" | "." | "/" | ". ");
    let lengths = (first.digits.len(), second.digits.len(), third.digits.len());
    let (one, two, three) = (first.number(), second.number(), third.number());
    let is_day = |day: u32| (1..=31).contains(&day);
    let is_year = |year: u32| (1900..=2099).contains(&year);
    let is_date = match lengths {
        (4, 1..=2, 1..=2) => is_year(one) && is_day(two) && is_day(three),
        (1..=2, 1..=2, 4) => is_day(one) && is_day(two) && is_year(three),
        (2, 2, 2) => is_day(one) && is_day(two) && groups.len() == 3,
        _ => false,
    };
    if is_divided && is_date { 3 } else { 0 }
}

/// Whether the digits belong to a word, a path or an identifier before them.
fn is_attached(chars: &[char], begin: usize, says: Says) -> bool {
    let mut before = chars[..begin].iter().rev();
    let (Some(last), second) = (before.next(), before.next()) else {
        return false;
    };
    let is_joined = second.is_some_and(|second| second.is_ascii_alphanumeric() || matches!(second, '_' | '}' | ')'));
    match last {
        '#' | '$' | '€' | '£' | '¥' | '₹' | '₽' | '₩' | '№' | '@' | '^' | '*' => true,
        '-' | '.' | '/' | '~' | '%' | '&' => says != Says::Phone && (is_joined || second == Some(last)),
        _ => false,
    }
}

/// Whether the digits that begin here are the minute of a time, or a port.
fn is_minute(chars: &[char], begin: usize) -> bool {
    chars[..begin].ends_with(&[':']) && begin.checked_sub(2).is_some_and(|before| chars[before].is_ascii_digit())
}

/// Whether the run is a card, a bank account or another identifier in groups of four that is longer than a number, or a list of groups of
/// equal length.
fn is_account(chars: &[char], run: &Run) -> bool {
    let [fours @ .., _] = run.groups.as_slice() else {
        return false;
    };
    let total: usize = run.groups.iter().map(|group| group.digits.len()).sum();
    let is_list = fours.len() >= 5 && run.groups.iter().all(|group| group.digits.len() == run.groups[0].digits.len());
    let is_fours = fours.len() >= 2 && fours.iter().all(|group| group.digits.len() == 4);
    // The start of an account such as `GB29 NWBK 6016…`: the country with two digits, or the bank.
    let begin = run.groups[0].start();
    let before: Vec<char> = chars[..begin].iter().rev().skip_while(|character| **character == ' ').take(4).copied().collect();
    let is_headed = before.len() == 4 && before.iter().all(|character| character.is_ascii_uppercase() || character.is_ascii_digit());
    is_list || (is_fours && (total > 13 || is_headed))
}

/// Whether the digits that end here are the hour of a time.
fn is_time(chars: &[char], end: usize) -> bool {
    chars.get(end) == Some(&':') && chars.get(end + 1).is_some_and(char::is_ascii_digit)
}

/// Whether a closing bracket follows a bracketed last group, as in `(020)`; then it is part of the number.
fn is_closed(chars: &[char], groups: &[Group]) -> bool {
    let [.., last] = groups else { return false };
    last.is_bracketed() && chars.get(last.range.end) == Some(&')')
}

/// Whether a letter, a currency or decimals follow.
fn is_measured(chars: &[char], end: usize) -> bool {
    let mut after = chars[end..].iter();
    match (after.next(), after.next()) {
        // `…0123/4` gives a number and the next one after it.
        (Some('/'), Some(_)) if (1..=2).contains(&chars[end + 1..].iter().take_while(|next| next.is_ascii_digit()).count()) => false,
        (Some(next), _) if next.is_ascii_alphanumeric() || matches!(next, '_' | '%' | '€' | '$' | '£' | '°' | '@') => true,
        (Some(',' | '.' | ':' | '-' | '/'), Some(next)) if next.is_ascii_digit() => true,
        (Some('-' | '/' | ':'), Some(next)) if next.is_ascii_alphanumeric() => true,
        _ => false,
    }
}

/// The end of an extension such as `ext. 12`, or else the end of the number.
fn extension(chars: &[char], end: usize) -> usize {
    let skip_spaces =
        |at: usize| at + chars[at..].iter().take(2).take_while(|character| matches!(character, ' ' | ',' | '.' | ':' | '-')).count();
    let start = skip_spaces(end);
    for word in ["extension", "ext", "x"] {
        let length = word.chars().count();
        let is_word = chars[start..].iter().take(length).flat_map(|character| character.to_lowercase()).eq(word.chars());
        let digits = skip_spaces((start + length).min(chars.len()));
        let count = chars[digits..].iter().take(7).take_while(|character| character.is_ascii_digit()).count();
        let is_over = !chars.get(digits + count).is_some_and(|next| next.is_ascii_alphanumeric());
        if is_word && count > 0 && is_over {
            return digits + count;
        }
    }
    end
}
