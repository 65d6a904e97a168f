//! `countersign notification`: messages to people, from actions and from the server itself.

use crate::shared::*;
use api::identity::NotificationView;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Notification {
    /// List messages, newest first; their senders wrote the words
    #[command(before_help = "Examples:\n  countersign notification list")]
    List(Paging),
}

impl Resource for NotificationView {
    const NOUN: &'static str = "message";
    const LIST: &'static str = "notification list";
    const PATH: &'static [&'static str] = &["notifications"];
    const EMPTY: &'static str = "no messages";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("title", Column::Cut, |one, _| text(&one.title)),
        Field::both("body", Column::Cut, |one, _| text(&one.body)),
        Field::both("sent", Column::Whole, |one, view| view.past(one.created_at)),
        Field::both("invocation", Column::Extra, |one, _| maybe(one.invocation_id.as_ref())),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

impl Notification {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self::List(paging) = self;
        resource::list::<NotificationView>(Asked::of(&paging), client, terminal).await?;
        Ok(Exit::Ok)
    }
}
