//! The one way out of a jail: a request is handed to the server, which judges it and makes it. A port: whoever holds the other end of the
//! program's descriptor sees this and not how an address is judged.

use crate::Future;
use std::fmt;

/// Judges the requests of one run, makes those that may go out, and counts all of them.
pub trait Egress: Send + Sync + fmt::Debug {
    /// Makes one request, or says why not. Dropping the future ends it, wherever it is: what was sent by then stays sent.
    fn request(&self, request: Request) -> Future<'_, Result<Response, Refused>>;
    /// Told of what was refused before it was a request: a line that does not read, a tunnel, a header that is not the program's to set.
    fn refused(&self, refused: &Refused);
}

/// What a program asks for: plain text as it wrote it, judged by nobody yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why there is no answer, in a sentence for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Requests to one host, as a receipt counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// As the action declares it, or `OTHER`: what a program made up has no place in a receipt.
    pub host: String,
    /// Let out, answered or not.
    pub made: u64,
    pub refused: u64,
}

/// Every host an action did not declare, and every line that names none.
pub const OTHER: &str = "other";
