//! `countersign artifact`: what calls and runs made beside their results.

use super::part::Part;
use crate::shared::*;
use api::artifact::{ArtifactLinkRequest, ArtifactLinkResponse, ArtifactView};
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Artifact {
    /// List artifacts, newest first
    #[command(before_help = "Examples:
  countersign artifact list
  countersign artifact list --run run_…")]
    List {
        /// Only those that steps of this run made
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
        /// Only those that this call made
        #[arg(long, value_name = "CALL")]
        invocation: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show what is known of an artifact
    #[command(before_help = "Examples:\n  countersign artifact show art_…")]
    Show {
        /// Its id
        artifact: String,
    },
    /// Save the bytes of an artifact
    #[command(before_help = "Examples:
  countersign artifact download art_…                into a file of its name, in this folder
  countersign artifact download art_… --out a.pdf
  countersign artifact download art_… --out -        to stdout")]
    Download(Download),
    /// Take the bytes of an artifact away from everybody, for good
    #[command(before_help = "Examples:\n  countersign artifact quarantine art_…")]
    Quarantine {
        /// Its id
        artifact: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Download {
    /// Its id
    artifact: String,
    /// The file to write; - for stdout. Without it, a file of its name in this folder, which must not be there yet
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Resource for ArtifactView {
    const NOUN: &'static str = "artifact";
    const LIST: &'static str = "artifact list";
    const PATH: &'static [&'static str] = &["artifacts"];
    const EMPTY: &'static str = "no artifacts";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["name"]);
    const SHOWS_SPACES: bool = true;
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("name", Column::Cut, |one, _| text(&one.name)),
        Field::both("kind", Column::Whole, |one, _| text(one.kind.as_str())),
        Field::both("bytes", Column::Number, |one, _| text(one.size_bytes.to_string())),
        Field::both("made", Column::Whole, |one, view| view.past(one.created_at)),
        Field::both("until", Column::Extra, |one, view| one.expires_at.and_then(|at| view.future(at))),
        Field::line("quarantined", |one, view| view.past(one.quarantined_at?)),
        Field::line("quarantined by", |one, view| view.who(one.quarantined_by.as_ref()?)),
        Field::line("media type", |one, _| text(&one.media_type)),
        Field::line("sha256", |one, _| text(&one.sha256)),
        Field::line("retention", |one, _| text(one.retention.as_str())),
        Field::line("visibility", |one, _| text(one.visibility.as_str())),
        Field::line("run", |one, _| maybe(one.run_id.as_ref())),
        Field::line("call", |one, _| maybe(one.invocation_id.as_ref())),
        Field::line("space", |one, view| view.space(&one.space_id)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        self.quarantined_at.is_none().then(|| format!("countersign artifact download {}", self.id))
    }
}

impl Artifact {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { run, invocation, paging } => {
                let asked = Asked::of(&paging).only("run", run).only("invocation", invocation);
                resource::list::<ArtifactView>(asked, client, terminal).await?;
            }
            Self::Show { artifact } => drop(resource::show::<ArtifactView>(&artifact, client, terminal).await?),
            Self::Download(download) => return download.run(client, terminal).await,
            Self::Quarantine { artifact, agreed } => {
                let question =
                    format!("Quarantine artifact `{}`? Nobody gets its bytes any more, and that does not end.", clean::line(&artifact));
                terminal.consent(&question, agreed.consent(client)).await?;
                let answer = client.post_empty::<ArtifactView>(&["artifacts", &artifact, "quarantine"]).await?;
                resource::tell(&answer, client, terminal).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

impl Download {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self { artifact, out } = self;
        let found = client.get::<ArtifactView>(&["artifacts", &artifact], &[]).await?.read;
        // A link changes nothing, so it is asked for under `--dry-run` too.
        let link = client.question::<ArtifactLinkResponse>(&["artifacts", &artifact, "link"], &ArtifactLinkRequest::default()).await?.read;
        let mut pieces = client.linked(&link.path).await?;
        if out.as_deref() == Some(Path::new("-")) {
            while let Some(piece) = pieces.next().await? {
                terminal.bytes(piece.as_ref())?;
            }
            return Ok(Exit::Ok);
        }
        let file = match out {
            Some(file) => file,
            None => own_name(&found.name)?,
        };
        let part = Part::create(&file)?;
        let mut bytes = 0;
        while let Some(piece) = pieces.next().await? {
            part.file().write_all(piece.as_ref()).map_err(|error| Failure::file(&file, &error))?;
            bytes += piece.as_ref().len() as u64;
        }
        part.keep()?;
        if terminal.is_document() {
            terminal.document(&json!({ "file": file.display().to_string(), "bytes": bytes, "sha256": found.sha256 }))?;
        } else {
            terminal.note(format!("{} {} to {}", Tone::Ok.paint("✓ saved"), counted(bytes, "byte", "bytes"), file.display()));
        }
        Ok(Exit::Ok)
    }
}

/// SECURITY: others chose the name. It is a name in this folder, and replaces no file.
fn own_name(name: &str) -> Result<PathBuf, Failure> {
    if let Some(problem) = countersign_core::artifact::name_problem(name) {
        return Err(Failure::usage(format!("its name cannot be that of a file: {problem}")).hint("give --out FILE"));
    }
    let file = PathBuf::from(name);
    if file.exists() {
        return Err(Failure::usage(format!("`{name}` is there already")).hint("give --out FILE, which is replaced"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::own_name;

    #[test]
    fn a_name_that_others_chose_stays_in_this_folder_and_replaces_nothing() {
        for bad in ["../a", "/etc/passwd", ".bashrc", "", "Cargo.toml"] {
            assert!(own_name(bad).is_err(), "{bad}");
        }
        assert!(own_name("nobody made this.pdf").is_ok());
    }
}
