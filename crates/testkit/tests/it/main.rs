//! Tests of the architecture: what may depend on what, and what may be written where.
//! Each rule prints the sentence it enforces. Each checker is also run on a made-up workspace that breaks its rules.

#![expect(clippy::unwrap_used, reason = "a workspace that cannot be read fails the test")]

mod arrows;
mod circles;
mod corpus;
mod doors;
mod parts;
mod truths;
mod workspace;
