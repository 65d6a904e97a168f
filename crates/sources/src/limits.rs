//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Bytes of the address that a connection is for, of a header's name, and of a user's name; longer ones are refused with `invalid_request`.
pub const CONNECTION_TEXT_BYTES_MAX: usize = 2_048;
/// How long whoever is told may take to answer one request; it is less than the whole attempt may take.
pub const OUTBOUND_ANSWER_MS: u64 = 8_000;
/// Bytes read of such an answer; the rest is left.
pub const OUTBOUND_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an answer of an authorization server; a longer one fails the login.
pub const OAUTH_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long an authorization server may take to answer; then the login, or the call that needed a new token, fails.
pub const OAUTH_ANSWER_MS: u64 = 10_000;
/// How long what an issuer says of itself is believed before it is asked again, at the next sign-in.
pub const ISSUER_KNOWN_SECONDS: u64 = 5 * 60;
/// How long an issuer that could not be used is not asked again.
pub const ISSUER_AWAY_SECONDS: u64 = 5;
/// How long before its end a token is no longer used, so that it does not end on its way.
pub const OAUTH_LEEWAY_SECONDS: u64 = 30;
/// The same for safety class MEDIUM. It is shorter: what cannot be fully undone is not left under way for long.
pub const MEDIUM_TIMEOUT_MS: u64 = 3_000;
/// Permissions that the manifest of a package's action may require, and effects that it may declare; more are refused.
pub const PACKAGE_REQUIRES_MAX: usize = 32;
/// Characters of such a permission, and of the version in a manifest; longer ones are refused.
pub const PACKAGE_WORD_CHARS_MAX: usize = 64;
/// Bytes of a text file that `files.read_text` returns; a larger file is an error naming its size.
pub const FILE_READ_BYTES_MAX: u64 = 512 * 1024;
/// Bytes of text that `files.write_text` writes, so that `files.read_text` can read every such file; more is refused with `file_too_large`.
pub const FILE_WRITE_BYTES_MAX: usize = 512 * 1024;
/// Bytes of one name in a path; a longer one is refused with `path_not_allowed`.
pub const FILE_NAME_BYTES_MAX: usize = 255;
/// Names in a path, folders included; a deeper one is refused with `path_not_allowed`.
pub const FILE_DEPTH_MAX: usize = 64;
/// Entries that `files.list` looks at; further ones are not even counted.
pub const FILE_LIST_VISITED_MAX: usize = 100_000;
/// Entries that are looked at when a workspace is opened, to remove files that a crash left; the rest is left for the next start.
pub const FILE_LEFTOVERS_VISITED_MAX: usize = 1_000_000;
/// Bytes of the diff in a preview; a longer one is cut at a line and marked.
pub const FILE_DIFF_BYTES_MAX: usize = 6 * 1024;
/// Bytes of the diff of one file of a package's code in a review; a longer one is cut at a line and marked.
pub const CODE_DIFF_BYTES_MAX: usize = 64 * 1024;
/// Entries that `files.list` returns; further ones are counted, not listed.
pub const FILE_LIST_ENTRIES_MAX: usize = 1_000;
/// Bytes of a response body that the `http` actions read; a larger body is cut and marked.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 256 * 1024;
/// Redirects the `http` actions follow, each checked anew; the next is an error.
pub const HTTP_REDIRECTS_MAX: usize = 5;
/// How long the `http` actions wait for a name, a connection and its handshake; then the host is unreachable, and no request was sent.
pub const HTTP_CONNECT_MS: u64 = 5_000;
/// Connections to one host that wait for another read of an MCP server. A call with an effect never uses one again.
pub const HTTP_KEPT_CONNECTIONS_MAX: usize = 8;
/// How long such a connection waits. Many servers close theirs after 5 s.
pub const HTTP_KEPT_MS: u64 = 4_000;
/// Bytes of a URL; a longer one is refused with `url_not_allowed`.
pub const HTTP_URL_BYTES_MAX: usize = 4_096;
/// Bytes of a request body of `http.request`; a larger one is refused with `body_too_large`.
pub const HTTP_REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Headers a caller may set; more are refused with `header_not_allowed`.
pub const HTTP_HEADERS_MAX: usize = 32;
/// Bytes of a header's value; a longer one in a request is refused with `header_not_allowed`, a longer one in a response is cut.
pub const HTTP_HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// Bytes of a document's text, so that its words fit the index of either database; more is refused with `invalid_params`, and such a file is
/// not imported.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Characters of a document's title; a longer one is refused with `invalid_params`.
pub const DOCUMENT_TITLE_CHARS_MAX: usize = 300;
/// Tags of a document, and characters of one; more are refused with `invalid_params`.
pub const DOCUMENT_TAGS_MAX: usize = 32;
pub const DOCUMENT_TAG_CHARS_MAX: usize = 64;
/// Files that one import looks at; a folder with more is refused with `too_many_files`.
pub const DOCUMENT_FILES_MAX: usize = 500;
/// Documents that one import adds or changes, and bytes of their texts; the next import goes on with the rest.
pub const DOCUMENT_CHANGES_MAX: usize = 100;
pub const DOCUMENT_IMPORT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Hits that one search returns, and how many if it does not say.
pub const DOCUMENT_HITS_MAX: u32 = 100;
pub const DOCUMENT_HITS_DEFAULT: u32 = 20;
/// Characters of a search, and words of it; longer ones are refused with `invalid_params`.
pub const DOCUMENT_QUERY_CHARS_MAX: usize = 500;
pub const DOCUMENT_QUERY_WORDS_MAX: usize = 16;
/// Characters of a notification's title; a longer one is refused with `invalid_params`.
pub const NOTIFICATION_TITLE_CHARS_MAX: usize = 200;
/// Characters of a notification's body; a longer one is refused with `invalid_params`.
pub const NOTIFICATION_BODY_CHARS_MAX: usize = 4_000;
/// Addresses that one mail goes to; more are refused with `invalid_params`.
pub const EMAIL_RECIPIENTS_MAX: usize = 10;
/// Bytes of an e-mail address, as RFC 5321 bounds it; a longer one is refused with `invalid_params`.
pub const EMAIL_ADDRESS_BYTES_MAX: usize = 254;
/// Characters of the subject of a mail; a longer one is refused with `invalid_params`.
pub const EMAIL_SUBJECT_CHARS_MAX: usize = 200;
/// Characters of the text of a mail; a longer one is refused with `invalid_params`.
pub const EMAIL_TEXT_CHARS_MAX: usize = 20_000;
/// How long a mail server may take from the connection to the last answer of a channel's mail; then it is tried again later.
pub const MAIL_SEND_MS: u64 = 8_000;
/// Bytes of all files of an installed package together; a larger one is refused with `package_invalid`.
pub const PACKAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Files of an installed package; one with more is refused with `package_invalid`.
pub const PACKAGE_FILES_MAX: usize = 256;
/// Bytes of package code copies that a server keeps to show a reviewer what changed; beyond, the oldest copies are deleted.
pub const PACKAGE_CODE_KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Installed packages; the next is refused with `package_invalid`.
pub const PACKAGES_MAX: usize = 200;
/// Tools of one MCP server; a listing with more is refused.
pub const MCP_TOOLS_MAX: usize = 1_000;
/// Pages of a listing; a server that has more after them is refused.
pub const MCP_PAGES_MAX: usize = 100;
/// Bytes of all pages of a listing together; a longer listing is refused.
pub const MCP_LISTING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of one tool's definition; a larger tool is left out and reported.
pub const MCP_TOOL_BYTES_MAX: usize = 256 * 1024;
/// Tools that were left out of which a listing reports why; further ones are counted.
pub const MCP_SKIPPED_MAX: usize = 100;
/// Bytes of one message of an MCP server: an answer, an event of a stream, a line. A longer one is not read on, and its request fails.
pub const MCP_MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// JSON values in one message; one with more is not read, and its request fails.
pub const MCP_MESSAGE_VALUES_MAX: usize = 100_000;
/// Bytes of what a source writes in one notification; of a longer one the event says only that it came.
pub const SOURCE_EVENT_BYTES_MAX: usize = 16 * 1024;
/// Resources of one MCP server whose changes it is asked to tell: the first of its list.
pub const MCP_SUBSCRIPTIONS_MAX: usize = 100;
/// Bytes of a message that is no answer to a call or a listing, such as the server's own requests; a longer one is ignored.
pub const MCP_CONTROL_BYTES_MAX: usize = 256 * 1024;
/// Bytes of all messages of one MCP server that are held at once; the answer that exceeds it fails.
pub const MCP_HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes and events of one event stream; then it is closed, and the request that it answers fails.
pub const MCP_STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const MCP_STREAM_EVENTS_MAX: usize = 10_000;
/// How long to wait at least before a stream that ended is opened again, and how often that is tried.
pub const MCP_RECONNECT_MS_MIN: u64 = 1_000;
pub const MCP_RECONNECTS_MAX: usize = 5;
/// Lines that an MCP program may print besides messages; then it is ended.
pub const MCP_STRAY_LINES_MAX: usize = 100;
/// Requests of an MCP server to us that are answered at once; further ones are ignored.
pub const MCP_ASKED_AT_ONCE: usize = 16;
/// Processes and threads of an MCP program; the next fork fails.
pub const MCP_PROGRAM_PROCESSES: u32 = 64;
/// The most that an operator can let it have open.
pub const MCP_PROGRAM_OPEN_FILES_MAX: u64 = 65_536;
/// The largest folder of its own that an MCP program can be given, in MiB.
pub const MCP_PROGRAM_FOLDER_MB_MAX: u64 = 65_536;
/// How long an MCP program may take until it speaks MCP, unless an operator says otherwise; then it is ended.
pub const MCP_PROGRAM_START_SECONDS_DEFAULT: u64 = 60;
/// The most that an operator can let it take.
pub const MCP_PROGRAM_START_SECONDS_MAX: u64 = 600;
/// Programs that start at once, for each processor; the others wait for their turn.
pub const MCP_PROGRAM_STARTS_PER_CORE: usize = 2;
/// The last lines of its stderr that are told when an MCP program fails.
pub const MCP_PROGRAM_LINES_TOLD: usize = 20;
/// Lines of a package manager that are told when it fails.
pub const INSTALL_OUTPUT_LINES_MAX: usize = 12;
/// The share of one processor that an MCP program may take, in percent; beyond, it is slowed down.
pub const MCP_PROGRAM_CPU_PERCENT: u32 = 100;
/// How long an MCP program may take to end after it was asked to; then it is killed.
pub const MCP_PROGRAM_GRACE_MS: u64 = 2_000;
/// Variables of an MCP program, words of its command, and bytes of each; more are refused with `invalid_request`.
pub const SOURCE_VARIABLES_MAX: usize = 64;
pub const SOURCE_TEXT_BYTES_MAX: usize = 4_096;
/// Characters of a server's instructions that become its guide; the rest is cut.
pub const MCP_INSTRUCTIONS_CHARS_MAX: usize = 8_000;
/// Files one call of a package may change; more are refused with `package_stage_refused`.
pub const PACKAGE_CHANGES_MAX: usize = 256;
/// Bytes a package may write in one call; the next write fails in the jail.
pub const PACKAGE_STAGE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Memory a package may ask for; one that asks for more is refused with `package_invalid`.
pub const PACKAGE_MEMORY_MB_MAX: u64 = 2_048;
/// Characters of a package's last log line that an error repeats.
pub const PACKAGE_LOG_CHARS_MAX: usize = 200;
/// Hosts an action of a package may declare; one with more is refused with `package_invalid`.
pub const PACKAGE_HOSTS_MAX: usize = 32;
/// Connections of one MCP program through the relay at the same time; a further one is ended at once.
pub const RELAY_CONNECTIONS_MAX: usize = 256;
/// The same for all programs of a server together.
pub const RELAY_CONNECTIONS_IN_ALL_MAX: usize = 2_048;
/// How long a connection through the relay may be silent in both directions; then it is ended.
pub const RELAY_IDLE_SECONDS: u64 = 15 * 60;
/// Names below a domain (`*.example.com`) that one MCP program may ask for; a further one is answered as if the resolver had failed.
pub const RELAY_NAMES_MAX: usize = 1_024;
/// Questions for names that one MCP program may ask in a second; further ones are not answered.
pub const RELAY_QUESTIONS_PER_SECOND: u32 = 200;
/// Lines that the log gets in a minute about what one MCP program may not reach; the rest is counted.
pub const RELAY_LINES_PER_MINUTE: u32 = 100;
/// Characters of a check's name in a verification script; a longer or malformed name is reported as a failed check.
pub const PACKAGE_CHECK_NAME_CHARS_MAX: usize = 64;
/// Checks a verification script may report; more are refused as a failed check.
pub const PACKAGE_CHECKS_MAX: usize = 64;
/// How long one request to where artifacts are kept may take, with its retries; then it has failed, and is safe to repeat.
pub const BLOB_REQUEST_SECONDS: u64 = 30;
