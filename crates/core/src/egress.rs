//! The only way from a jailed program to the network: the server gets the request, checks it and makes it. This is a port, so the code that
//! serves the program's descriptor does not know how addresses are checked.

use crate::Future;
use std::fmt;

/// Checks the requests of one run, makes those that are allowed, and counts all of them.
pub trait Egress: Send + Sync + fmt::Debug {
    /// Makes one request, or says why not. Dropping the future ends the request; bytes that were already sent stay sent.
    fn request(&self, request: Request) -> Future<'_, Result<Response, Refused>>;
    /// Counts a refusal that comes before a request could be read: an unreadable line, a tunnel, a header that the program may not set.
    fn refused(&self, refused: &Refused);
}

/// A request exactly as the program wrote it, not checked yet.
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

/// Why there is no response, as a sentence for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// The requests to one host, as the receipt counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The host as the action declares it, or `OTHER`: a text that a program made up must not get into a receipt.
    pub host: String,
    /// Requests that were let out, answered or not.
    pub made: u64,
    pub refused: u64,
}

/// Stands for every host that the action did not declare, and for every line that names no host.
pub const OTHER: &str = "other";
