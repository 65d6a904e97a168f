//! A mail as it is written: plain text, with the same as HTML where there is a link to press. Headers are made of checked parts only.

use super::MailAddress;
use crate::limits::EMAIL_SUBJECT_CHARS_MAX;
use crate::words::{failed, refused};
use countersign_core::Timestamp;
use countersign_core::source::Error;
use lettre::Message;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use std::time::{Duration, UNIX_EPOCH};

/// One mail.
#[derive(Clone, Debug)]
pub struct Mail {
    pub from: MailAddress,
    pub to: Vec<MailAddress>,
    pub subject: Subject,
    pub text: String,
    /// The same as `text`.
    pub html: Option<String>,
    /// An id of ours for what the mail tells. A mail that is sent again has the same one, so that a reader can tell.
    pub id: String,
    /// The id of the mail that this one continues.
    pub answers: Option<String>,
    pub at: Timestamp,
}

/// One line of 1 to `EMAIL_SUBJECT_CHARS_MAX` characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(String);

impl Subject {
    /// SECURITY: a line break would begin another header.
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.trim().is_empty() && text.chars().count() <= EMAIL_SUBJECT_CHARS_MAX;
        (fits && !text.chars().any(is_break)).then(|| Self(text.to_owned()))
    }
}

/// Whether a mail program may take this for the end of a line, or for nothing at all.
fn is_break(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

impl Mail {
    /// The `Message-ID` of a mail with this id, as other programs show it.
    pub fn message_id(&self) -> String {
        format!("<{}@{}>", self.id, self.from.domain())
    }

    /// The bytes of the mail: ASCII alone, so that every server takes them.
    pub(super) fn written(&self) -> Result<Vec<u8>, Error> {
        let is_plain = |id: &String| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if self.to.is_empty() || !is_plain(&self.id) || !self.answers.iter().all(is_plain) {
            return Err(refused("invalid_params", "a mail has a recipient, and an id of letters and digits"));
        }
        let mailbox = |address: &MailAddress| Mailbox::new(None, address.inner().clone());
        let at = UNIX_EPOCH + Duration::from_micros(u64::try_from(self.at.as_micros()).unwrap_or_default());
        let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
        let mut builder = Message::builder()
            .date(at)
            .from(mailbox(&self.from))
            .subject(self.subject.0.as_str())
            .message_id(Some(self.message_id()))
            .raw_header(automatic);
        for to in &self.to {
            builder = builder.to(mailbox(to));
        }
        if let Some(answers) = &self.answers {
            let earlier = format!("<{answers}@{}>", self.from.domain());
            builder = builder.in_reply_to(earlier.clone()).references(earlier);
        }
        let plain = SinglePart::plain(self.text.clone());
        let message = match &self.html {
            Some(html) => builder.multipart(MultiPart::alternative().singlepart(plain).singlepart(SinglePart::html(html.clone()))),
            None => builder.singlepart(plain),
        };
        let unwritable = |what: &str| failed("mail_refused", format!("the mail cannot be written: {what}; nothing was sent"));
        let bytes = message.map_err(|error| unwritable(&error.to_string()))?.formatted();
        if bytes.is_ascii() { Ok(bytes) } else { Err(unwritable("a part of it is not ASCII")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Mail {
        Mail {
            from: "countersign@example.com".parse().unwrap(),
            to: vec!["robin@example.com".parse().unwrap(), "sam@example.com".parse().unwrap()],
            subject: Subject::new("Grüße: a refund waits").unwrap(),
            text: "One line.\n.\nA line with a dot, and “quotes”.".to_owned(),
            html: None,
            id: "inv_1".to_owned(),
            answers: None,
            at: Timestamp::parse("2026-11-15T08:00:00Z").unwrap(),
        }
    }

    #[test]
    fn a_mail_is_ascii_and_has_the_headers_it_should() {
        let text = String::from_utf8(mail().written().unwrap()).unwrap();
        let (headers, _) = text.split_once("\r\n\r\n").unwrap();
        for header in [
            "From: countersign@example.com",
            "To: robin@example.com, sam@example.com",
            "Message-ID: <inv_1@example.com>",
            "Date: Sun, 15 Nov 2026 08:00:00 +0000",
            "Auto-Submitted: auto-generated",
        ] {
            assert!(headers.lines().any(|line| line == header), "{header} is not in\n{headers}");
        }
        let answer = Mail { id: "inv_1.ended".to_owned(), answers: Some("inv_1".to_owned()), html: Some("<p>x</p>".to_owned()), ..mail() };
        let text = String::from_utf8(answer.written().unwrap()).unwrap();
        assert!(text.contains("In-Reply-To: <inv_1@example.com>\r\n") && text.contains("multipart/alternative"), "{text}");
    }

    #[test]
    fn nothing_that_is_given_begins_a_header() {
        for bad in ["", "  ", "a\r\nBcc: eve@example.com", "a\nb", "a\rb", "a\0b", "a\u{85}b", "a\u{2028}b"] {
            assert!(Subject::new(bad).is_none(), "{bad:?}");
        }
        assert!(Subject::new(&"é".repeat(EMAIL_SUBJECT_CHARS_MAX)).is_some());
        assert!(Subject::new(&"é".repeat(EMAIL_SUBJECT_CHARS_MAX + 1)).is_none());
        for id in ["a b", "a>\r\nBcc: eve@example.com", "ä", "a@b"] {
            assert!(Mail { id: id.to_owned(), ..mail() }.written().is_err());
            assert!(Mail { answers: Some(id.to_owned()), ..mail() }.written().is_err());
        }
        let long = Mail { subject: Subject::new(&"Grüße ".repeat(30)).unwrap(), ..mail() };
        let text = String::from_utf8(long.written().unwrap()).unwrap();
        let (headers, _) = text.split_once("\r\n\r\n").unwrap();
        let names: Vec<_> = headers.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_once(':')).collect();
        assert!(names.iter().all(|(name, _)| !name.contains(' ')) && !headers.contains("Bcc"), "{headers}");
    }
}
