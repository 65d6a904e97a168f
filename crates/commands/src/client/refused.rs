//! Hints for a server that cannot be reached or refuses the token. The server's own hints suit every caller; these also say where this
//! command line looked for the address and the token.

use crate::context::{Origin, Place};
use crate::exit::{Exit, Failure};
use api::Code;
use std::path::Path;
use url::Url;

/// Adds to a refused token where it came from and what to do. Every other failure is returned unchanged.
pub(super) fn told(failure: Failure, url: &Url, origin: &Origin) -> Failure {
    if failure.exit != Exit::NotAuthenticated {
        return failure;
    }
    match origin {
        Origin::Nowhere(data) => failure.cause(format!("no token for `{url}` was found: {}", looked_for(data))).hint(
            "run it in the folder the server was started in, or set COUNTERSIGN_DATA to its data folder, or set COUNTERSIGN_URL and \
             COUNTERSIGN_TOKEN, or run `countersign login`",
        ),
        Origin::Environment => {
            failure.cause("the token in COUNTERSIGN_TOKEN was sent").hint("put another there, or unset it and run `countersign login`")
        }
        Origin::Context(name) => {
            failure.cause(format!("the token of the context `{name}` was sent")).hint(format!("countersign login --context {name}"))
        }
        Origin::OwnerFile(path) => failure
            .cause(format!("the token in {} was sent; the server at `{url}` may serve another data folder", path.display()))
            .hint("set COUNTERSIGN_DATA to the data folder of that server, or run `countersign login`"),
        Origin::Invitation => failure.hint("ask an admin for a new invitation; they make one with `countersign user invite NAME`"),
        Origin::Login => failure.hint(
            "the first owner's token is in the file owner.token of the server's data folder; whoever is logged in makes more with \
             `countersign token create`",
        ),
    }
}

/// Like `told`, for an agent's token. If the request needs a person, the failure says so, because a person who has an agent's token in a
/// variable may not know it.
pub(super) fn to_agent(failure: Failure, url: &Url, origin: &Origin) -> Failure {
    let takes_a_person = [Code::Forbidden, Code::MayNotApprove, Code::NotYourSession].into_iter().any(|code| failure.is(code));
    if !takes_a_person {
        return told(failure, url, origin);
    }
    let instead = match origin {
        Origin::Environment => "unset COUNTERSIGN_TOKEN, or put a person's token there",
        Origin::Context(_) | Origin::OwnerFile(_) | Origin::Login | Origin::Invitation | Origin::Nowhere(_) => {
            "run `countersign login` with a person's token"
        }
    };
    failure.hint(format!("this is an agent's token: it invokes in its own session and reads that, and nothing else; {instead}"))
}

/// Nothing listens at the address. If the user did not give the address, the cause says why this one was used.
pub(super) fn nobody_there(failure: Failure, place: &Place) -> Failure {
    match place {
        Place::DataFolder => failure.hint("the server of this data folder is not running: start it again with `countersign serve`"),
        Place::Said => failure.hint(
            "does a server run there? `countersign serve` starts one; another address is said with COUNTERSIGN_URL or `countersign login`",
        ),
        Place::Guessed(data) => {
            let why = failure.cause.clone().unwrap_or_default();
            let guessed = format!("{why}; this is the default address, because {}", no_server(data));
            failure.cause(guessed).hint(
                "start one with `countersign serve`; or, where one runs, go to the folder it was started in, or set COUNTERSIGN_DATA or \
                 COUNTERSIGN_URL",
            )
        }
    }
}

fn looked_for(data: &Path) -> String {
    let folder = data.display();
    let owner = if data.is_dir() {
        format!("no owner.token of that server in `{folder}`")
    } else {
        format!("no data folder `{folder}`{}", standing(data))
    };
    format!("COUNTERSIGN_TOKEN is not set, no context is of that server, and there is {owner}")
}

fn no_server(data: &Path) -> String {
    let folder = data.display();
    if data.is_dir() {
        format!("no server has said in `{folder}` where it listens")
    } else {
        format!("there is no data folder `{folder}`{}", standing(data))
    }
}

/// For a relative path, adds that it is relative to the current folder.
fn standing(data: &Path) -> &'static str {
    if data.is_absolute() { "" } else { " in the folder you are in" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_nobody_said_is_told_as_a_guess() {
        let failure = || Failure::new(Exit::Unreachable, "it cannot be reached").cause("connection refused");
        let guessed = nobody_there(failure(), &Place::Guessed("./nowhere".into()));
        assert_eq!(
            guessed.cause.as_deref(),
            Some("connection refused; this is the default address, because there is no data folder `./nowhere` in the folder you are in")
        );
        let hint = guessed.hint.unwrap();
        assert!(["`countersign serve`", "COUNTERSIGN_DATA", "COUNTERSIGN_URL"].iter().all(|told| hint.contains(told)), "{hint}");
        for place in [Place::Said, Place::DataFolder] {
            let told = nobody_there(failure(), &place);
            assert_eq!(told.cause.as_deref(), Some("connection refused"));
            assert!(told.hint.unwrap().contains("`countersign serve`"));
        }
    }

    #[test]
    fn only_a_refused_token_is_told_by_where_it_came_from() {
        let denied = Failure::new(Exit::Denied, "no").hint("ask");
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        assert_eq!(told(denied.clone(), &url, &Origin::Environment), denied);
    }
}
