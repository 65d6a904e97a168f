//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

use host::limits::SOURCES_MAX_DEFAULT;

/// Calls of one package whose code runs at once; further ones wait for a turn and report that they wait.
pub const PACKAGE_RUNS_AT_ONCE: usize = 2;
/// Calls of all packages whose code runs at once; further ones wait for a turn.
pub const PACKAGES_RUNS_AT_ONCE: usize = 4;
/// Scripts and commands that check or revert effects at once, in addition to those.
pub const AFTERWARDS_RUNS_AT_ONCE: usize = 4;
/// How many of these may belong to one source: a source with slow checks delays only its own.
pub const AFTERWARDS_RUNS_OF_ONE: usize = 2;
/// Resident programs in the jail at once; the next is refused.
pub const RESIDENTS_AT_ONCE: usize = 96;
/// How many of them one owner may have: every source of an org, and some that are only tried, or that take over from one that still has
/// calls. The next is refused.
pub const RESIDENTS_OF_ONE: usize = SOURCES_MAX_DEFAULT as usize + 4;
/// Bytes of the last lines of a resident's stderr that are kept; older lines are dropped and counted.
pub const RESIDENT_STDERR_BYTES_MAX: usize = 64 * 1024;
/// Events in a minute that tell what one source told; what is more is dropped and counted.
pub const SOURCE_EVENTS_PER_MINUTE: u32 = 60;
/// Notifications of one source that wait to become events; the next is dropped and counted.
pub const SOURCE_EVENTS_WAITING_MAX: usize = 64;
/// Files and folders in that folder; a program that makes more is ended.
pub const MCP_PROGRAM_FOLDER_FILES_MAX: u64 = 100_000;
/// How often that folder is measured while its program runs.
pub const MCP_PROGRAM_FOLDER_LOOK_MS: u64 = 1_000;
/// How long connections to sources may take to close when the server stops.
pub const SOURCES_CLOSE_SECONDS: u64 = 5;
/// Bytes of a package's result, on its stdout; a longer one is refused with `package_bad_output`.
pub const PACKAGE_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Requests that one run of a package's code may make; then its way to the network is closed.
pub const EGRESS_REQUESTS_MAX: usize = 100;
