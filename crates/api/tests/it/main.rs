//! The promises of the wire that no type can hold: every code has its page, and the pages tell the truth about the codes.

#![expect(clippy::unwrap_used, reason = "a page that cannot be read fails the test")]

mod error_pages;
