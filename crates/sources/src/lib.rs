//! The sources of actions, each behind the port `core::source`: the builtin sources `files`, `documents`, `http`, `notify` and `email`, installed
//! packages, and MCP servers; `connection`, the credentials with which sources act elsewhere; `outbound`, the requests of channels; `mail`, which channels
//! use too; and `blobs`, where the bytes of artifacts are.
//!
//! This is the only crate that opens outbound connections for actions, and the only one that touches a workspace. Errors of a call are
//! `core::source::Error`; the `Error` here is about a source that could not be set up.

#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "its own tests ask a source directly"))]

pub mod limits;
pub mod blobs;
pub mod builtin;
pub mod command;
pub mod connection;
mod egress;
mod error;
pub mod mail;
pub mod mcp;
pub mod oauth;
pub mod outbound;
pub mod package;
mod program;
mod relay;
mod resolver;
pub mod web;
mod words;
pub mod workspace;

pub use error::Error;
