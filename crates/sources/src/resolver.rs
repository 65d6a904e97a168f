//! The resolver of a jailed program. It knows only the names that the program may reach, gives each of them an address in the jail, and asks
//! nobody: so a question reaches nothing, whatever is written in it.

use crate::limits::RELAY_NAMES_MAX;
use crate::web::Allowed;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// A name that stands for the machine itself, as every program believes.
const LOCALHOST: &str = "localhost";
/// The first address that a name gets; the others follow. All of them are loopback addresses, which lead nowhere outside of the jail.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 1);

/// The names that a program may reach, and their addresses in its jail.
#[derive(Debug)]
pub(crate) struct Names {
    allowed: Allowed,
    by_name: HashMap<String, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, String>,
    /// Names below a domain (`*.example.com`), which get an address at the first question.
    below: usize,
}

/// What there is to say of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    At(Ipv4Addr),
    NotAllowed,
    /// Every address of the names below domains is given away.
    TooMany,
}

impl Names {
    pub(crate) fn new(allowed: Allowed) -> Self {
        let mut names = Self { by_name: HashMap::new(), by_address: HashMap::new(), below: 0, allowed };
        for name in names.allowed.names() {
            let address = if name == LOCALHOST { Ipv4Addr::LOCALHOST } else { names.next() };
            names.give(name, address);
        }
        names
    }

    fn next(&self) -> Ipv4Addr {
        let given = u32::try_from(self.by_name.len()).unwrap_or(u32::MAX);
        Ipv4Addr::from_bits(FIRST.to_bits().saturating_add(given))
    }

    fn give(&mut self, name: String, address: Ipv4Addr) {
        self.by_address.insert(address, name.clone());
        self.by_name.insert(name, address);
    }

    /// The address of a name, which is written in small letters.
    pub(crate) fn look_up(&mut self, name: &str) -> Known {
        if let Some(address) = self.by_name.get(name) {
            return Known::At(*address);
        }
        if !self.allowed.allows_name(name) {
            return Known::NotAllowed;
        }
        if self.below == RELAY_NAMES_MAX {
            return Known::TooMany;
        }
        self.below += 1;
        let address = self.next();
        self.give(name.to_owned(), address);
        Known::At(address)
    }

    /// The name that has this address.
    pub(crate) fn at(&self, address: Ipv4Addr) -> Option<&str> {
        self.by_address.get(&address).map(String::as_str)
    }
}

/// One question of a DNS message (RFC 1035), and what of the message its answer repeats.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question<'m> {
    /// Without the last dot, in small letters.
    pub(crate) name: String,
    kind: u16,
    id: [u8; 2],
    recursion: u8,
    /// As it was asked.
    asked: &'m [u8],
}

const HEAD_BYTES: usize = 12;
const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
const AUTHORITATIVE: u8 = 0x04;
const RECURSION_DESIRED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;
const LABEL_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;
const KIND_A: u16 = 1;
const CLASS_IN: u16 = 1;
/// How long a program may remember an answer. The address of a name stays the same as long as the program runs.
const SECONDS: u32 = 60;

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Address(Ipv4Addr),
    /// The name is there, and has nothing of this kind.
    Nothing,
    NoSuchName,
    Failed,
}

impl<'m> Question<'m> {
    /// `None` for whatever is not exactly one plain question.
    pub(crate) fn read(message: &'m [u8]) -> Option<Self> {
        let (head, body) = message.split_at_checked(HEAD_BYTES)?;
        let counts: Vec<u16> = head[4..8].chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        if head[2] & (RESPONSE | OPCODE) != 0 || counts != [1, 0] {
            return None;
        }
        let mut labels = Vec::new();
        let mut rest = body;
        loop {
            let (length, after) = rest.split_first()?;
            let length = usize::from(*length);
            if length == 0 {
                rest = after;
                break;
            }
            let (label, after) = after.split_at_checked(length).filter(|_| length <= LABEL_BYTES_MAX)?;
            if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                return None;
            }
            labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
            rest = after;
        }
        let (kind, class) = (rest.get(..2)?, rest.get(2..4)?);
        let name = labels.join(".");
        if name.is_empty() || name.len() > NAME_BYTES_MAX || class != CLASS_IN.to_be_bytes() {
            return None;
        }
        let asked = &body[..body.len() - rest.len() + 4];
        Some(Self {
            name,
            kind: u16::from_be_bytes([kind[0], kind[1]]),
            id: [head[0], head[1]],
            recursion: head[2] & RECURSION_DESIRED,
            asked,
        })
    }

    pub(crate) fn answer(&self, known: Known) -> Answer {
        match known {
            Known::At(address) if self.kind == KIND_A => Answer::Address(address),
            Known::At(_) => Answer::Nothing,
            Known::NotAllowed => Answer::NoSuchName,
            Known::TooMany => Answer::Failed,
        }
    }

    pub(crate) fn write(&self, answer: Answer) -> Vec<u8> {
        let code = match answer {
            Answer::Address(_) | Answer::Nothing => 0,
            Answer::Failed => 2,
            Answer::NoSuchName => 3,
        };
        let answers = u8::from(matches!(answer, Answer::Address(_)));
        let flags = [RESPONSE | AUTHORITATIVE | self.recursion, RECURSION_AVAILABLE | code];
        let mut message = [self.id, flags, [0, 1], [0, answers], [0, 0], [0, 0]].concat();
        message.extend(self.asked);
        if let Answer::Address(address) = answer {
            // The name is the one at the start of the question.
            message.extend([0xc0, HEAD_BYTES as u8]);
            message.extend([KIND_A, CLASS_IN].map(u16::to_be_bytes).concat());
            message.extend(SECONDS.to_be_bytes());
            message.extend([0, 4]);
            message.extend(address.octets());
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::HostList;

    fn names(hosts: &[&str]) -> Names {
        let rules = hosts.iter().map(|rule| rule.parse().unwrap()).collect();
        Names::new(Allowed::new(HostList { rules, setting: "hosts", who: "an operator" }, Vec::new(), "networks"))
    }

    fn message(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message
    }

    #[test]
    fn every_allowed_name_has_an_address_of_its_own_and_keeps_it() {
        let mut names = names(&["b.example", "a.example:8443", "http://a.example", "*.c.example", "http://localhost:80", "10.1.2.3"]);
        let at = |a, b, c, d| Known::At(Ipv4Addr::new(a, b, c, d));
        for _ in 0..2 {
            assert_eq!(names.look_up("localhost"), at(127, 0, 0, 1));
            for name in ["c.example", "example", "xc.example", "b.example.evil", "10.1.2.3", "d.example"] {
                assert_eq!(names.look_up(name), Known::NotAllowed, "{name}");
            }
            let found: Vec<_> = ["a.example", "b.example", "x.c.example", "y.x.c.example"].map(|name| names.look_up(name)).into();
            let mut other = found.clone();
            other.dedup();
            assert!(found == other && found.iter().all(|known| matches!(known, Known::At(address) if address.is_loopback())), "{found:?}");
            for (name, known) in ["a.example", "b.example", "x.c.example", "y.x.c.example"].into_iter().zip(found) {
                assert!(matches!(known, Known::At(address) if names.at(address) == Some(name)), "{name}");
            }
        }
        assert_eq!(names.at(Ipv4Addr::new(127, 64, 200, 1)), None);
    }

    #[test]
    fn names_below_a_domain_are_bounded() {
        let mut names = names(&["*.c.example", "d.example"]);
        for number in 0..RELAY_NAMES_MAX {
            assert!(matches!(names.look_up(&format!("n{number}.c.example")), Known::At(_)));
        }
        assert_eq!(names.look_up("more.c.example"), Known::TooMany);
        assert!(matches!(names.look_up("n7.c.example"), Known::At(_)));
        assert!(matches!(names.look_up("d.example"), Known::At(_)));
    }

    #[test]
    fn a_question_is_answered_with_its_own_words() {
        let asked = message("API.example.com", 1);
        let question = Question::read(&asked).unwrap();
        assert_eq!((question.name.as_str(), question.answer(Known::NotAllowed)), ("api.example.com", Answer::NoSuchName));
        let answer = question.write(question.answer(Known::At(Ipv4Addr::new(127, 64, 0, 1))));
        assert_eq!(answer[..12], [7, 9, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(&answer[12..asked.len()], &asked[12..]);
        assert_eq!(answer[asked.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 64, 0, 1]);
        for (answered, code) in [(Answer::Nothing, 0), (Answer::NoSuchName, 3), (Answer::Failed, 2)] {
            let written = question.write(answered);
            assert_eq!((written[3] & 0xf, written[7], written.len()), (code, 0, asked.len()));
        }
        // A question for an address of IPv6, or of any other kind, finds the name and nothing of that kind.
        for kind in [28, 65, 16, 255] {
            let asked = message("api.example.com", kind);
            assert_eq!(Question::read(&asked).unwrap().answer(Known::At(Ipv4Addr::LOCALHOST)), Answer::Nothing);
        }
        // What a resolver adds, such as the size of its buffer, is passed over.
        let mut extended = message("api.example.com", 1);
        extended[11] = 1;
        extended.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Question::read(&extended).unwrap().name, "api.example.com");
    }

    #[test]
    fn what_is_not_one_plain_question_is_not_answered() {
        let plain = message("api.example.com", 1);
        for length in 0..plain.len() {
            assert_eq!(Question::read(&plain[..length]), None, "{length}");
        }
        for (at, byte) in [(2, 0x80), (2, 0x10), (5, 2), (5, 0), (7, 1), (12, 0xc0), (12, 64), (13, b' '), (13, b'.'), (13, 0), (32, 3)] {
            let mut other = plain.clone();
            other[at] = byte;
            assert_eq!(Question::read(&other), None, "{byte:#x} at {at}");
        }
        assert_eq!(Question::read(&message("", 1)), None);
        assert_eq!(Question::read(&message(&["a23456789"; 30].join("."), 1)), None);
    }
}
