//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Mistakes of one definition that are told; of more, the first ones are.
pub const DEFINITION_MISTAKES_MAX: usize = 200;
/// Characters of an automation's name and of its goal; longer ones are refused with `text_length`.
pub const AUTOMATION_NAME_CHARS_MAX: usize = 120;
pub const AUTOMATION_GOAL_CHARS_MAX: usize = 2_000;
/// Triggers of an automation; more are refused with `too_many_triggers`.
pub const TRIGGERS_MAX: usize = 10;
/// Steps of a plan, and of what runs after its failure; more are refused with `plan_length`.
pub const PLAN_STEPS_MAX: usize = 50;
pub const ON_FAILURE_STEPS_MAX: usize = 10;
/// How long all steps after a failure may take together; a step that asks for more is refused with `timeout_exceeds_run`.
pub const ON_FAILURE_SECONDS_MAX: u64 = 300;
/// Bytes of the schema of an automation's inputs, and how deep it may be nested; a larger one is refused with `input_schema_invalid`.
pub const INPUT_SCHEMA_BYTES_MAX: usize = 32 * 1024;
pub const INPUT_SCHEMA_DEPTH_MAX: usize = 16;
/// Subschemas that the schema of inputs has when its references are written out; more are refused with `input_schema_invalid`.
pub const INPUT_SCHEMA_PARTS_MAX: u64 = 5_000;
/// These subschemas times the values of the inputs; a check that could take more is refused with `inputs_invalid`.
pub const INPUT_CHECKS_MAX: u64 = 20_000_000;
/// Inputs that a trigger may map; more are refused with `mapping_too_large`.
pub const INPUT_MAPPINGS_MAX: usize = 64;
/// Bytes of JSON that a run is given as its inputs, however it starts, and that all paths of a trigger's mapping find together; more are refused
/// with `inputs_invalid`.
pub const INPUTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of an automation's metadata, and tags in it; more are refused with `metadata_too_large`.
pub const METADATA_BYTES_MAX: usize = 4 * 1024;
pub const METADATA_TAGS_MAX: usize = 20;
/// Working time of a run, without the time that it waits for people; more is refused with `range`.
pub const RUN_SECONDS_MAX: u64 = 24 * 60 * 60;
pub const RUN_SECONDS_DEFAULT: u64 = 10 * 60;
/// Further attempts of a step after the first; more are refused with `range`.
pub const STEP_RETRIES_MAX: u32 = 10;
pub const STEP_RETRIES_DEFAULT: u32 = 2;
/// Runs of one automation that may wait behind the one that runs; more are refused with `range`.
pub const QUEUED_RUNS_MAX: u32 = 10_000;
pub const QUEUED_RUNS_DEFAULT: u32 = 100;
/// Dollars that one run may spend, in whole dollars; more are refused with `range`.
pub const BUDGET_DOLLARS_MAX: i64 = 1_000;
/// Firings of one trigger that its rate may allow, and the time that they are counted in; more are refused with `range`.
pub const TRIGGER_RATE_MAX: u32 = 10_000;
pub const TRIGGER_RATE_DEFAULT: u32 = 600;
pub const TRIGGER_RATE_SECONDS_MAX: u32 = 3_600;
pub const TRIGGER_RATE_SECONDS_DEFAULT: u32 = 60;
/// How long a trigger may wait for events to stop, or collect them, and how many it may collect; more are refused with `range`.
pub const TRIGGER_WINDOW_SECONDS_MAX: u32 = 3_600;
pub const TRIGGER_BATCH_MAX: u32 = 1_000;
/// Steps shorter than this run in the queue `fast`, and shorter than this in `medium`; longer ones in `long`.
pub const QUEUE_FAST_SECONDS: u64 = 10;
pub const QUEUE_MEDIUM_SECONDS: u64 = 5 * 60;
/// Bytes of an event filter as JSON; a longer one is refused with `filter_too_complex`.
pub const FILTER_BYTES_MAX: usize = 16 * 1024;
/// How deep `$and`, `$or` and `$not` nest in a filter, itself counted; a deeper one is refused with `filter_too_complex`.
pub const FILTER_DEPTH_MAX: usize = 8;
/// Operators in one filter; more are refused with `filter_too_complex`.
pub const FILTER_LEAVES_MAX: usize = 64;
/// Values that the `in` and `not_in` of one filter list together; more are refused with `filter_too_complex`.
pub const FILTER_VALUES_MAX: usize = 1_000;
/// Regexes in one filter; more are refused with `filter_too_complex`.
pub const FILTER_REGEXES_MAX: usize = 4;
/// Bytes of a filter's regex as text; a longer one is refused with `filter_invalid`.
pub const FILTER_REGEX_BYTES_MAX: usize = 512;
/// Bytes that a filter's regex compiles to; a larger one is refused with `filter_too_complex`.
pub const FILTER_REGEX_COMPILED_BYTES_MAX: usize = 256 * 1024;
/// Places of a filter's regex with its repetitions written out, which a search may all be at for each byte; more are refused with
/// `filter_too_complex`.
pub const FILTER_REGEX_PLACES_MAX: usize = 1_000;
/// States of a filter's regex whose whole automaton is too large for a table: each byte that it searches may cost so many looks. More are refused
/// with `filter_too_complex`.
pub const FILTER_REGEX_STATES_MAX: usize = 1_000;
/// The work that one test of a filter may be for one event, and all filters of an org together: looking at one byte is 1, or as much as its regex
/// has states if these do not fit into a table. A trigger whose filter asks for more is disabled, with `filter_too_costly`.
pub const FILTER_WORK_MAX: u64 = 4_000_000;
pub const EVENT_WORK_MAX: u64 = 32_000_000;
/// Bytes of a text that a filter's regex searches; a match that ends later is not found.
pub const FILTER_REGEX_SEARCHED_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the operand of `starts_with`, `ends_with` and `contains`; a longer one is refused with `filter_invalid`.
pub const FILTER_TEXT_BYTES_MAX: usize = 256;
/// What a filter costs at most: an operator is 1, `contains` 2, a regex 4, one without a literal 32. A dearer one is refused with `filter_too_complex`.
pub const FILTER_COST_MAX: u32 = 256;
/// Regexes without a literal among the filters of one event type and space: each of them is run for every such event. The next is refused with
/// `filter_too_complex`.
pub const FILTER_BARE_REGEXES_MAX: usize = 100;
/// Characters of a cron expression; a longer one is refused with `cron_invalid`.
pub const CRON_CHARS_MAX: usize = 256;
/// A schedule that fires more often than this gets a warning.
pub const SCHEDULE_OFTEN_SECONDS: u32 = 15 * 60;
/// Missed ticks that `catch_up: all` makes up for, at most and by default, and how far back it looks; other values are refused with
/// `catch_up_invalid`.
pub const CATCH_UP_MAX: u64 = 1_000;
pub const CATCH_UP_MAX_DEFAULT: u64 = 100;
pub const CATCH_UP_WINDOW_SECONDS_MIN: u64 = 60;
pub const CATCH_UP_WINDOW_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;
pub const CATCH_UP_WINDOW_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// Characters of a JSONPath, brackets that are open at once, and how often it can find the same value; more is refused with
/// `jsonpath_unsupported`.
pub const JSONPATH_CHARS_MAX: usize = 512;
pub const JSONPATH_NESTING_MAX: usize = 8;
pub const JSONPATH_SELECTORS_MAX: usize = 16;
/// Parts that one transformation selects under a name, and bytes of what it answers; more is refused with `transform_too_large`.
pub const TRANSFORM_SELECTED_MAX: usize = 64;
pub const TRANSFORM_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a template; a longer one is refused with `template_too_large`, before it is parsed.
pub const TEMPLATE_BYTES_MAX: usize = 8 * 1024;
/// Words and signs inside one `{{ … }}` or `{% … %}`, and branches of one template; more are refused with `template_syntax`, because the parser
/// would use up the stack.
pub const TEMPLATE_TAG_TOKENS_MAX: usize = 1_000;
pub const TEMPLATE_BRANCHES_MAX: usize = 100;
/// Bytes of what a template renders, of any string it works on, and of a string it may read; more ends it with `template_output` or
/// `template_too_large`.
pub const TEMPLATE_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Items of a list that a filter takes; more end the template with `template_output`.
pub const TEMPLATE_LIST_ITEMS_MAX: usize = 10_000;
/// Instructions that a template may take; then it ends with `template_time`.
pub const TEMPLATE_FUEL: u64 = 100_000;
/// How deep a template may nest its loops.
pub const TEMPLATE_DEPTH_MAX: usize = 64;
/// Filters in a row, and in all, of a template that is rendered in this process; one with more goes to a worker.
pub const TEMPLATE_TRIVIAL_FILTERS_IN_A_ROW_MAX: usize = 3;
pub const TEMPLATE_TRIVIAL_FILTERS_MAX: usize = 32;
/// Processor time that one template may take in its worker, and time on the clock, which only a worker that hangs reaches; then the worker is
/// killed and the template ends with `template_time`.
pub const RENDER_CPU_MS: u64 = 100;
pub const RENDER_WALL_MS: u64 = 2_000;
/// Address space of a render worker; one that needs more dies, and the template ends with `template_output`.
pub const RENDER_MEMORY_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of a line to or from a render worker. A string of `TEMPLATE_OUTPUT_BYTES_MAX` is at most six times as long in JSON.
pub const RENDER_LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
