//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Characters of a tool's name at the MCP door; the end of a longer one is a digest. Clients that put `mcp__<server>__` before it drop what is
/// longer than 128.
pub const MCP_TOOL_NAME_CHARS_MAX: usize = 110;
/// Actions of a session up to which each is a tool at the MCP door; with more, three tools find and call them.
pub const MCP_TOOLS_SHOWN_MAX: usize = 128;
/// Tools in one page of a list at the MCP door; the next page has the rest.
pub const MCP_PAGE_ROWS: usize = 200;
/// Matches that `search_actions` returns; further ones are counted.
pub const MCP_FOUND_MAX: usize = 20;
/// Characters of a text that the server's own tools take, such as the words of a search; a longer one is refused.
pub const MCP_ARGUMENT_CHARS_MAX: usize = 500;
/// Characters of the instructions at the MCP door; guides beyond are left out.
pub const MCP_DOOR_INSTRUCTIONS_CHARS_MAX: usize = 8_000;
/// Pages of resources or prompts that are asked of one source for one list; the rest is left out.
pub const MCP_PASSED_PAGES_MAX: usize = 10;
/// How long a client of unknown name is taken to wait for an answer; a reference is given after four fifths of it.
pub const MCP_HOLD_SECONDS_DEFAULT: u64 = 50;
/// Messages in one batch at the MCP door; a larger one is refused with the error -32600.
pub const MCP_BATCH_MESSAGES_MAX: usize = 50;
/// How long an answer of the MCP door may take before its head is sent.
pub const MCP_OPEN_AFTER_SECONDS: u64 = 5;
/// How long a stream of the MCP door may be silent; then a comment is sent.
pub const MCP_SILENCE_SECONDS: u64 = 15;
/// For so long after the right to a stream of the MCP door was looked at, it is not looked at again for what is said on the stream.
pub const MCP_RIGHT_SECONDS: u64 = 1;
/// How often a caller with a progress token is told what its call waits for.
pub const MCP_PROGRESS_SECONDS: u64 = 12;
/// Bytes of images, audio and other files that one answer of the MCP door has, before they are written as base64; what has no room is named.
pub const MCP_MEDIA_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long the result of a list at the MCP door may be used; then a client asks again.
pub const MCP_LIST_TTL_MS: u64 = 5_000;
/// How long a stateful MCP connection without traffic is kept; then the client has to initialize again.
pub const MCP_CONNECTION_IDLE_SECONDS: u64 = 60 * 60;
/// Stateful MCP connections of one caller, of one org, and of all. The oldest of the caller, or of the org, is closed for a further one; if there
/// is none, the further one is refused.
pub const MCP_CONNECTIONS_PER_CALLER_MAX: usize = 32;
pub const MCP_CONNECTIONS_PER_ORG_MAX: usize = 6_000;
pub const MCP_CONNECTIONS_MAX: usize = 10_000;
/// Listeners (`subscriptions/listen`) of one caller at the MCP door; the next is refused with `too_many_streams`.
pub const MCP_LISTENERS_PER_CALLER_MAX: usize = 32;
