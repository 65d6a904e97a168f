//! `countersign secret`: the credentials with which calls act elsewhere. A value comes from a prompt, from stdin or from a file, never from
//! the command line, where others could see it; and it is never shown again.

use crate::shared::*;
use api::secret::{SecretUseView, SecretView, SetSecretRequest};
use api::{Code, Page};
use clap::{Args, Subcommand};
use countersign_core::Secret as Hidden;
use countersign_core::limits::SECRET_VALUE_BYTES_MAX;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Secret {
    /// Set a new secret; nobody can read its value afterwards
    #[command(before_help = "Examples:
  countersign secret set github-token                        asks for the value
  countersign secret set github-token --stdin < token.txt
  countersign secret set deploy-key --file key.pem --description 'of the build server'")]
    Set {
        /// Its name, with which it is referred to: letters, digits, _, - and .
        name: String,
        #[command(flatten)]
        given: Given,
        /// What it is for
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// List secrets, never their values
    #[command(before_help = "Examples:\n  countersign secret list")]
    List(Paging),
    /// Give a secret a new value, which is used from the next call on
    #[command(before_help = "Examples:
  countersign secret rotate github-token                     asks for the new value
  countersign secret rotate github-token --stdin < token.txt")]
    Rotate {
        /// Its name
        #[arg(value_name = "NAME")]
        secret: String,
        #[command(flatten)]
        given: Given,
        /// What it is for; it stays as it is when absent
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// Delete a secret that nothing uses
    #[command(before_help = "Examples:\n  countersign secret delete github-token")]
    Delete {
        /// Its name
        #[arg(value_name = "NAME")]
        secret: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// List what uses a secret
    #[command(before_help = "Examples:\n  countersign secret used-by github-token")]
    UsedBy {
        /// Its name
        #[arg(value_name = "NAME")]
        secret: String,
    },
}

/// Where the value comes from; without a flag the user is asked.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// Read the value from stdin, without the line break at its end
    #[arg(long)]
    stdin: bool,
    /// Read the value from this file, without the line break at its end
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    file: Option<PathBuf>,
    /// Refused: a value on the command line is in the list of processes and in the shell's history
    #[arg(hide = true, value_name = "VALUE")]
    value: Option<String>,
}

/// The bytes of the longest value, and of the line break after it.
const BYTES_MAX: u64 = SECRET_VALUE_BYTES_MAX as u64 + 2;

/// Stands in a request that is shown and not sent.
const NOT_SHOWN: &str = "(not shown)";

impl Resource for SecretView {
    const NOUN: &'static str = "secret";
    const LIST: &'static str = "secret list";
    const PATH: &'static [&'static str] = &["secrets"];
    const EMPTY: &'static str = "no secrets: countersign secret set NAME";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &["description"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("name", Column::Whole, |one, _| text(&one.name)),
        Field::both("description", Column::Cut, |one, _| maybe(one.description.as_ref())),
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::both("set by", Column::Extra, |one, view| view.who(&one.set_by)),
        Field::both("set", Column::Whole, |one, view| view.past(one.set_at)),
        Field::both("last used", Column::Whole, |one, view| match one.last_used_at {
            Some(at) => view.past(at),
            None => Some(Cell::shown("never", "").toned(Tone::Muted)),
        }),
        Field::line("id", |one, _| text(&one.id)),
    ];

    fn id(&self) -> &str {
        &self.name
    }
}

impl Secret {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Set { name, given, description } => {
                let value = given.read(&name, client, terminal).await?;
                let request = SetSecretRequest { value, description, version: None };
                let answer = client.put::<SecretView>(&["secrets", &name], &request).await.map_err(|failure| is_there(failure, &name))?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::List(paging) => drop(resource::list::<SecretView>(Asked::of(&paging), client, terminal).await?),
            Self::Rotate { secret, given, description } => {
                // Read before the value is asked for: a misspelt name costs nobody the typing.
                let version = client.get::<SecretView>(&["secrets", &secret], &[]).await?.read.version;
                let value = given.read(&secret, client, terminal).await?;
                let request = SetSecretRequest { value, description, version: Some(version) };
                let answer = client.put::<SecretView>(&["secrets", &secret], &request).await?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::Delete { secret, agreed } => {
                let question = format!("Delete secret `{}`? Its value cannot be restored.", clean::line(&secret));
                terminal.consent(&question, agreed.consent(client)).await?;
                client.delete::<Value>(&["secrets", &secret]).await?;
                // The server's answer has no body.
                terminal.done("deleted", &secret, &json!({ "name": secret, "deleted": true }))?;
            }
            Self::UsedBy { secret } => {
                let answer = client.get::<Page<SecretUseView>>(&["secrets", &secret, "used-by"], &[]).await?;
                let mut table = Table::new([Column::Whole("name"), Column::Whole("kind"), Column::Extra("id")], "nothing uses it");
                for used in &answer.read.items {
                    table.row([Cell::text(&used.name), Cell::text(&used.kind), Cell::text(&used.id)]);
                }
                terminal.list(&answer.raw, &table)?;
            }
        }
        Ok(Exit::Ok)
    }
}

impl Given {
    /// Reads the value from where the user said, or asks for it. Under `--dry-run` nothing is sent and the request is shown, so the value
    /// is not even read.
    async fn read(&self, name: &str, client: &Client, terminal: &mut Terminal) -> Result<Hidden<String>, Failure> {
        if self.value.is_some() {
            return Err(Failure::usage("a value is never given on the command line")
                .cause("others can read it in the list of processes, and the shell keeps it in its history")
                .hint("leave it out to be asked for it, or use --stdin or --file; this value may be known to others now"));
        }
        if client.rehearses() {
            return Ok(Hidden::new(NOT_SHOWN.to_owned()));
        }
        let given = match &self.file {
            Some(file) => Hidden::new(content(file)?),
            None if self.stdin => Hidden::new(terminal.read_stdin(BYTES_MAX).await?),
            None if terminal.can_ask() => terminal.ask_secret(&format!("value of `{}`: ", clean::line(name))).await?,
            None => {
                return Err(Failure::usage("no value was given, and there is no terminal to ask for it")
                    .hint("give it with --stdin < FILE, or with --file FILE"));
            }
        };
        let value = given.expose().trim_end_matches(['\r', '\n']);
        if value.is_empty() {
            return Err(Failure::usage("the value is empty"));
        }
        Ok(Hidden::new(value.to_owned()))
    }
}

/// The content of a file. Its length is not asked for first: a pipe has none.
fn content(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    if read.map_err(|error| Failure::file(path, &error))? as u64 > BYTES_MAX {
        return Err(Failure::new(
            Exit::Invalid,
            format!("`{}` is larger than a secret can be: {SECRET_VALUE_BYTES_MAX} bytes", path.display()),
        ));
    }
    Ok(text)
}

fn is_there(failure: Failure, name: &str) -> Failure {
    if failure.is(Code::NameTaken) { failure.hint(format!("countersign secret rotate {}", clean::line(name))) } else { failure }
}
