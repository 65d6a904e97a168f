//! An e-mail address as it may stand in an envelope and in a header: plain ASCII, so that nothing in it can begin another header.

use crate::Error;
use crate::limits::EMAIL_ADDRESS_BYTES_MAX;
use std::fmt;
use std::str::FromStr;

/// An address such as `robin@example.com`, without a display name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailAddress(lettre::Address);

impl MailAddress {
    pub(super) const fn inner(&self) -> &lettre::Address {
        &self.0
    }

    /// What stands after the `@`.
    pub fn domain(&self) -> &str {
        self.0.domain()
    }
}

impl FromStr for MailAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |message| Error::MailAddress { text: text.chars().take(EMAIL_ADDRESS_BYTES_MAX).collect(), message };
        if text.len() > EMAIL_ADDRESS_BYTES_MAX {
            return Err(invalid("it is too long"));
        }
        // SECURITY: quotes, comments and line breaks have a meaning in headers and commands, and nobody needs them in an address.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"(),:;<>[]\\".contains(&byte);
        if !text.bytes().all(is_plain) {
            return Err(invalid("expected plain letters, digits and marks, such as robin@example.com"));
        }
        text.parse().map(Self).map_err(|_| invalid("expected a name and a domain, such as robin@example.com"))
    }
}

impl fmt::Display for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_and_nothing_in_it_begins_another_header() {
        for good in ["robin@example.com", "a.b+c@mail.example.com", "root@localhost", "o'hara@example.com"] {
            assert_eq!(good.parse::<MailAddress>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "robin",
            "@example.com",
            "robin@",
            "robin@example.com\r\nBcc: eve@example.com",
            "robin@example.com\nDATA",
            "robin@example.com, eve@example.com",
            "Robin <robin@example.com>",
            "<robin@example.com>",
            "\"a b\"@example.com",
            "robin@[127.0.0.1]",
            "robin@exa mple.com",
            "robin\u{0}@example.com",
            "röbin@example.com",
            "robin@exämple.com",
            &format!("{}@example.com", "a".repeat(EMAIL_ADDRESS_BYTES_MAX)),
        ] {
            assert!(bad.parse::<MailAddress>().is_err(), "{bad:?}");
        }
    }
}
