//! Messages that actions sent to people.

use super::more;
use crate::args::Paging;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use api::Page;
use api::identity::NotificationView;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Notification {
    /// Messages, newest first; the words are their senders'
    List(Paging),
}

const COLUMNS: &[Column] =
    &[Column::Whole("ID"), Column::Cut("TITLE"), Column::Cut("BODY"), Column::Whole("SENT"), Column::Extra("INVOCATION")];

impl Notification {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self::List(paging) = self;
        let answer = client.get::<Page<NotificationView>>(&["notifications"], &paging.query()).await?;
        let mut table = Table::new(COLUMNS, "no messages");
        for message in &answer.read.items {
            table.row([
                Cell::text(&message.id),
                Cell::text(&message.title),
                Cell::text(&message.body),
                terminal.past(&message.created_at),
                Cell::text(&message.invocation_id),
            ]);
        }
        terminal.list(&answer.raw, &table)?;
        more(terminal, &paging, answer.read.next.as_deref(), "countersign notification list");
        Ok(Exit::Ok)
    }
}
