//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Bytes of one message over `countersign mcp`, in either direction; a longer one is answered with an error.
pub const MCP_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Requests that one `countersign mcp` has open at once; the next is answered with an error.
pub const MCP_OPEN_REQUESTS_MAX: usize = 256;
