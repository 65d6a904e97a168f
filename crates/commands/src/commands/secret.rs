//! `countersign secret`: the credentials with which calls act elsewhere. A value comes from a prompt, from stdin or from a file, never from
//! the command line, where others could see it; and it is never shown again.

use super::given::Given;
use crate::shared::*;
use api::secret::{SecretUseView, SecretView, SetSecretRequest};
use api::{Code, Page};
use clap::Subcommand;
use serde_json::{Value, json};

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

    /// Commands take its name.
    fn id(&self) -> &str {
        self.name.as_str()
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

fn is_there(failure: Failure, name: &str) -> Failure {
    if failure.is(Code::NameTaken) { failure.hint(format!("countersign secret rotate {}", clean::line(name))) } else { failure }
}
