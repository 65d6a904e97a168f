//! Tests which server and token the command line finds.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn with_contexts(self, current: &str, contexts: &[(&str, &str, &str)]) -> Self {
        let contexts = contexts.iter().map(|(name, url, token)| {
            let context = Context::new(&parse_url(url).unwrap(), &Secret::new((*token).to_owned()));
            ((*name).to_owned(), context)
        });
        let saved = Contexts { current: Some(current.to_owned()), contexts: contexts.collect() };
        saved.save(&self.environment(&[]).contexts_file().unwrap()).unwrap();
        self
    }

    fn with_owner_token(self, token: &str) -> Self {
        std::fs::create_dir(self.root.path().join("data")).unwrap();
        std::fs::write(self.root.path().join("data/owner.token"), format!("{token}\n")).unwrap();
        self
    }

    fn environment(&self, variables: &[(&str, &str)]) -> Environment {
        let own = [("COUNTERSIGN_CONFIG_HOME", "config"), ("COUNTERSIGN_DATA", "data")];
        let own = own.map(|(name, folder)| (name.to_owned(), self.root.path().join(folder).display().to_string()));
        let given = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::new(own.into_iter().chain(given).collect())
    }

    #[track_caller]
    fn check(
        &self,
        url: Option<&str>,
        context: Option<&str>,
        variables: &[(&str, &str)],
        expected_url: &str,
        expected_token: Option<&str>,
    ) {
        let server = Server::find(url, context, &self.environment(variables)).unwrap();
        assert_eq!(server.url.as_str(), expected_url);
        assert_eq!(server.token.as_ref().map(|token| token.expose().as_str()), expected_token);
    }
}

const LOCAL: &str = "http://127.0.0.1:7117/";
const ONE: (&str, &str, &str) = ("one", "https://one.example/", "token-one");
const TWO: (&str, &str, &str) = ("two", "https://two.example/", "token-two");

#[test]
fn flags_win_over_environment_over_context_over_this_folders_server() {
    let folder = Folder::new().with_owner_token("owner");
    folder.check(None, None, &[], LOCAL, Some("owner"));
    folder.check(None, None, &[("COUNTERSIGN_TOKEN", "mine")], LOCAL, Some("mine"));
    folder.check(Some("http://localhost:7117"), None, &[], "http://localhost:7117/", Some("owner"));
    folder.check(Some("http://localhost:7118"), None, &[], "http://localhost:7118/", None);
    // A user who meant to give a token must not act with another one.
    let empty = Server::find(None, None, &folder.environment(&[("COUNTERSIGN_TOKEN", "")])).err().unwrap();
    assert_eq!((empty.exit, empty.message.as_str()), (Exit::NotAuthenticated, "COUNTERSIGN_TOKEN is set, and empty"));

    let folder = folder.with_contexts("one", &[ONE, TWO]);
    folder.check(None, None, &[], ONE.1, Some(ONE.2));
    folder.check(None, Some("two"), &[], TWO.1, Some(TWO.2));
    folder.check(None, Some("two"), &[("COUNTERSIGN_CONTEXT", "one")], TWO.1, Some(TWO.2));
    folder.check(None, None, &[("COUNTERSIGN_CONTEXT", "two")], TWO.1, Some(TWO.2));
    folder.check(None, None, &[("COUNTERSIGN_URL", TWO.1), ("COUNTERSIGN_TOKEN", "mine")], TWO.1, Some("mine"));
    folder.check(Some(TWO.1), None, &[("COUNTERSIGN_URL", ONE.1)], TWO.1, Some(TWO.2));
}

#[test]
fn a_token_never_goes_to_another_address_than_its_own() {
    let folder = Folder::new().with_owner_token("owner").with_contexts("one", &[ONE, TWO]);
    folder.check(Some("https://other.example/"), None, &[], "https://other.example/", None);
    folder.check(Some("https://other.example/"), Some("one"), &[], "https://other.example/", None);
    folder.check(None, None, &[("COUNTERSIGN_URL", "http://one.example/")], "http://one.example/", None);
    folder.check(Some("http://127.0.0.1:7118"), None, &[], "http://127.0.0.1:7118/", None);
}

#[test]
fn an_unknown_context_is_named_with_those_there_are() {
    let folder = Folder::new().with_contexts("one", &[ONE, TWO]);
    let failure = Server::find(None, Some("three"), &folder.environment(&[])).err().unwrap();
    assert_eq!((failure.exit, failure.message.as_str()), (Exit::NotFound, "there is no context `three`"));
    assert_eq!(failure.cause.as_deref(), Some("known are one, two"));
}

#[test]
fn the_contexts_are_readable_by_their_owner_alone() {
    let folder = Folder::new().with_contexts("one", &[ONE]).with_contexts("two", &[TWO]);
    let path = folder.environment(&[]).contexts_file().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(Contexts::load(&path).unwrap().contexts.keys().collect::<Vec<_>>(), ["two"]);
}

#[test]
fn what_is_not_the_address_of_a_server_is_refused() {
    for bad in ["", "localhost:7117", "ftp://x", "http://user:secret@x", "http://x?y=1", "http://x#y"] {
        assert_eq!(parse_url(bad).err().map(|failure| failure.exit), Some(Exit::Usage), "{bad}");
    }
    for (url, local) in [("http://localhost:1", true), ("http://127.9.9.9", true), ("http://[::1]:5", true), ("http://10.0.0.1", false)] {
        assert_eq!(is_local(&parse_url(url).unwrap()), local, "{url}");
    }
}

#[test]
fn a_login_elsewhere_takes_no_name_from_another_server() {
    let named = |contexts: &Contexts, url: &str| {
        let folder = Folder::new();
        Server::to_log_in(Some(url), None, &folder.environment(&[]), contexts).map(|(_, _, name)| name).ok().unwrap()
    };
    let mut contexts = Contexts::default();
    assert_eq!(named(&contexts, "https://one.example"), "default");
    let url = parse_url("https://one.example").ok().unwrap();
    contexts.contexts.insert("default".to_owned(), Context::new(&url, &Secret::new("one".to_owned())));
    for (url, name) in
        [("https://one.example", "default"), ("https://two.example", "two.example"), ("http://127.0.0.1:7118", "127.0.0.1:7118")]
    {
        assert_eq!(named(&contexts, url), name, "{url}");
    }
}

#[test]
fn a_context_made_for_an_agent_is_used_only_where_it_is_named() {
    let folder = Folder::new().with_contexts("two", &[ONE, TWO]).with_owner_token("owner");
    let path = folder.environment(&[]).contexts_file().unwrap();
    let mut contexts = Contexts::load(&path).unwrap();
    contexts.contexts.get_mut("one").unwrap().session = Some("ses_1".to_owned());
    contexts.save(&path).unwrap();
    folder.check(Some(ONE.1), None, &[], ONE.1, None);
    folder.check(None, Some("one"), &[], ONE.1, Some(ONE.2));
}

#[test]
fn a_ca_is_trusted_for_the_server_of_its_context_and_where_it_is_named() {
    let folder = Folder::new().with_contexts("one", &[ONE, TWO]);
    let path = folder.environment(&[]).contexts_file().unwrap();
    let mut contexts = Contexts::load(&path).unwrap();
    contexts.contexts.get_mut("one").unwrap().ca_cert = Some("/one.pem".into());
    contexts.save(&path).unwrap();
    let found =
        |url: Option<&str>, variables: &[(&str, &str)]| Server::find(url, None, &folder.environment(variables)).ok().unwrap().ca_cert;
    assert_eq!(found(None, &[]), Some("/one.pem".into()));
    assert_eq!(found(Some(TWO.1), &[]), None);
    assert_eq!(found(Some("https://three.example/"), &[]), None);
    assert_eq!(found(None, &[("COUNTERSIGN_CA_CERT", "/ca.pem")]), Some("/ca.pem".into()));
}
