//! MCP servers as sources: their tools are actions. We are a client of theirs, over streamable HTTP or of a program in the jail.
//!
//! The protocol itself is run by a library (`rmcp`). Everything that a server sends passes `wire` first, which bounds it, takes the secrets
//! out that the server was given (`given`), and keeps its raw text; `http` and `stdio` carry it. `tier` and `tool` say what a tool is to us,
//! `readable` what the protocol has besides tools, `listing` and `call` ask, `source` is the port.
//!
//! SECURITY: a server may lie about everything: sizes, ids, names, schemas, hints. Whatever it does ends within the deadline of the request,
//! with an error that names the source.

mod budget;
mod sse;
mod slot;
mod given;
mod object;
mod told;
mod last_words;
mod wire;
mod http;
mod credentials;
mod stdio;
mod us;
mod connection;
mod registry;
mod interpreter;
mod installed;
mod program;
mod packaged;
mod tier;
mod header_params;
mod tool;
mod passing;
mod call;
mod readable;
mod listing;
mod source;
#[cfg(test)]
mod testing;

pub use connection::{Start, Startable};
pub use credentials::OfConnection;
pub use http::Credentials;
pub use installed::{Plan, plan};
pub use last_words::LastWords;
pub use listing::Listed;
pub use packaged::Packaged;
pub use program::{AllowedProgram, AllowedPrograms, ProgramFolders, Reach, Started};
pub use source::{Known, McpConfig, McpSource, Server};
pub use tier::{Annotations, Because, Tiered, Tiers, because, tier};
pub use told::{Hearer, Told};
pub use tool::Skipped;
