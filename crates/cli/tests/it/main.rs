//! Tests of the command line against a real server, as a person or a script would use it. Every test has its own folder, server and port.
//! Tests share nothing, and wait for conditions instead of fixed times.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken set-up fails the test at once")]

mod answers;
mod backup;
mod batch_crash;
mod batches;
mod completions;
mod connections;
mod countersign;
mod crash;
mod effects;
mod exit_codes;
mod fault_points;
mod find_out_crash;
mod finding;
mod fake;
mod help;
mod identity;
mod inbox;
mod journey;
mod marks;
mod master_key;
mod names;
mod narrow;
mod net_egress_proxy;
mod network;
mod orgs;
mod output;
mod outside;
mod package_author;
mod package_checks;
mod package_crash;
mod package_escapes;
mod package_faults;
mod package_findings;
mod package_programs;
mod package_review;
mod package_users;
mod package_versions;
mod package_views;
mod packages;
mod permission;
mod policies;
mod progress;
mod prompts;
mod receipts;
mod rehearsal;
mod secrets;
mod serving;
mod source_program;
mod sources;
mod step_crash;
mod terminal;
mod two_processes;
mod two_workspaces;
