//! `countersign document`: the texts that spaces keep. Actions add and change them.

use crate::shared::*;
use api::document::DocumentView;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Document {
    /// List documents, newest first
    #[command(before_help = "Examples:
  countersign document list
  countersign document list --space main --tag finance
  countersign action invoke documents.search query='quarterly report'")]
    List {
        /// Only those of this space, by its name or id
        #[arg(long, value_name = "SPACE")]
        space: Option<String>,
        /// Only those with this tag
        #[arg(long, value_name = "TAG")]
        tag: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a document, with its text; others wrote the words
    #[command(before_help = "Examples:\n  countersign document show doc_…")]
    Show {
        /// Its id
        document: String,
    },
}

impl Resource for DocumentView {
    const NOUN: &'static str = "document";
    const LIST: &'static str = "document list";
    const PATH: &'static [&'static str] = &["documents"];
    const EMPTY: &'static str = "no documents: countersign action invoke documents.add title=… text=…";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["title"]);
    const SHOWS_SPACES: bool = true;
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("title", Column::Cut, |one, _| text(&one.title)),
        Field::both("tags", Column::Cut, |one, _| text(one.tags.join(", "))),
        Field::both("space", Column::Whole, |one, view| view.space(&one.space_id)),
        Field::both("bytes", Column::Number, |one, _| text(one.bytes.to_string())),
        Field::both("changed", Column::Whole, |one, view| view.past(one.changed_at)),
        Field::both("path", Column::Extra, |one, _| maybe(one.path.as_ref())),
        Field::line("added", |one, view| view.past(one.created_at)),
        Field::line("sha256", |one, _| text(&one.sha256)),
        Field::line("text", |one, _| maybe(one.text.as_ref())),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

impl Document {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { space, tag, paging } => {
                let asked = Asked::of(&paging).only("space", space).only("tag", tag);
                resource::list::<DocumentView>(asked, client, terminal).await?;
            }
            Self::Show { document } => drop(resource::show::<DocumentView>(&document, client, terminal).await?),
        }
        Ok(Exit::Ok)
    }
}
