//! Tests of `documents` on documents that are kept in memory, and on a workspace of its own.

use super::*;
use crate::builtin::tests::{call, context, preview, promised};
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_FILES_MAX, DOCUMENT_QUERY_WORDS_MAX};
use crate::workspace::Folders;
use countersign_core::fault::Faults;
use countersign_core::ports::documents::DocumentQuery;
use countersign_core::{SpaceId, Timestamp};
use std::path::Path;
use std::sync::Mutex;
use testkit::clock::START;
use testkit::{FixedClock, SeededRandom};

/// A document with its text, and whether it is removed.
type KeptDocument = (Document, String, bool);

/// Keeps documents as the store does, without its index.
#[derive(Default)]
pub(in crate::builtin) struct Kept {
    documents: Mutex<BTreeMap<DocumentId, KeptDocument>>,
    asked: Mutex<Vec<DocumentQuery>>,
    failure: Option<ports::Error>,
}

impl Kept {
    fn seen(&self, space: &SpaceId, id: &DocumentId) -> Option<(Document, String)> {
        let documents = self.documents.lock().unwrap();
        let (document, text, removed) = documents.get(id)?;
        (document.space == *space && !removed).then(|| (document.clone(), text.clone()))
    }

    fn all(&self) -> Vec<(Document, String)> {
        let documents = self.documents.lock().unwrap();
        documents.values().filter(|(.., removed)| !removed).map(|(document, text, _)| (document.clone(), text.clone())).collect()
    }

    fn make(&self, all: DocumentChanges) -> ChangedDocuments {
        for change in &all.changes {
            let held = self.seen(&all.space, &change.id).map(|(document, _)| document.state);
            if held != change.after && held != change.before {
                return ChangedDocuments::Conflict(change.id.clone());
            }
        }
        let mut documents = self.documents.lock().unwrap();
        for change in all.changes {
            let Some(state) = change.after else {
                documents.get_mut(&change.id).into_iter().for_each(|kept| kept.2 = true);
                continue;
            };
            let known = documents.get(&change.id).map(|(_, text, _)| text.clone());
            let text = all.texts.get(&state.sha256).cloned().or(known).unwrap();
            let document = Document {
                id: change.id.clone(),
                space: all.space.clone(),
                path: change.path,
                state,
                bytes: text.len() as u64,
                created_at: START,
                changed_at: START,
            };
            documents.insert(change.id, (document, text, false));
        }
        ChangedDocuments::Done
    }

    fn answer<T>(&self, value: T) -> Future<'_, Result<T, ports::Error>>
    where
        T: Send + 'static,
    {
        Box::pin(std::future::ready(self.failure.clone().map_or(Ok(value), Err)))
    }
}

impl ports::Documents for Kept {
    fn find_document<'a>(
        &'a self,
        _org: &'a OrgId,
        space: &'a SpaceId,
        document: &'a DocumentId,
    ) -> Future<'a, Result<Option<Document>, ports::Error>> {
        self.answer(self.seen(space, document).map(|(document, _)| document))
    }

    fn read_document<'a>(
        &'a self,
        _org: &'a OrgId,
        space: &'a SpaceId,
        document: &'a DocumentId,
    ) -> Future<'a, Result<Option<(Document, String)>, ports::Error>> {
        self.answer(self.seen(space, document))
    }

    fn list_imported<'a>(&'a self, _: &'a OrgId, space: &'a SpaceId, _: &'a str) -> Future<'a, Result<Vec<Document>, ports::Error>> {
        let imported = self.all().into_iter().map(|(document, _)| document).filter(|one| one.space == *space && one.path.is_some());
        self.answer(imported.collect())
    }

    fn search_documents<'a>(
        &'a self,
        _org: &'a OrgId,
        _space: &'a SpaceId,
        query: &'a DocumentQuery,
    ) -> Future<'a, Result<Vec<DocumentHit>, ports::Error>> {
        self.asked.lock().unwrap().push(query.clone());
        self.answer(self.all().into_iter().map(|(document, text)| DocumentHit { document, snippet: text }).collect())
    }

    fn change_documents(&self, changes: DocumentChanges) -> Future<'_, Result<ChangedDocuments, ports::Error>> {
        let made = if self.failure.is_none() { self.make(changes) } else { ChangedDocuments::Done };
        self.answer(made)
    }
}

struct Setup {
    folder: tempfile::TempDir,
    kept: Arc<Kept>,
    documents: Documents,
}

impl Setup {
    fn new() -> Self {
        Self::failing(None)
    }

    fn failing(failure: Option<ports::Error>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::open(Folders::below(folder.path()), Arc::new(SeededRandom::default()), &Faults::default()).unwrap();
        let kept = Arc::new(Kept { failure, ..Kept::default() });
        let random = Arc::new(SeededRandom::new(3));
        let documents = Documents::on(Arc::new(places), kept.clone(), Arc::new(FixedClock::new()), random).unwrap();
        Self { folder, kept, documents }
    }

    async fn call(&self, action: &str, params: Value) -> Result<Output, Error> {
        call(&self.documents, &format!("documents.{action}"), params).await
    }

    async fn added(&self, title: &str) -> String {
        let added = self.call("add", json!({ "title": title, "text": "one two", "tags": ["b", "a"] })).await.unwrap();
        added.value["document_id"].as_str().unwrap().to_owned()
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.folder.path().join("workspace").join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Calls as the pipeline does: what is prepared is handed to the call, and the effect is verified.
    async fn walked(&self, action: &str, params: &Value) -> (CallContext, Output) {
        let action = ActionId::parse(&format!("documents.{action}")).unwrap();
        let mut context = context();
        context.prepared = self.documents.prepare(&context, &action, params).await.unwrap();
        assert_eq!(self.documents.reconcile(&context, &action, params).await, Ok(Reconciled::DidNot));
        let output = self.documents.call(&context, &action, params).await.unwrap();
        assert_eq!(self.documents.verify(&context, &action, params, &output).await, Ok(vec![Check::passed(READ_BACK)]));
        assert_eq!(self.documents.reconcile(&context, &action, params).await, Ok(Reconciled::Happened(output.clone())));
        // An attempt that is made again finds its work done.
        assert_eq!(self.documents.call(&context, &action, params).await, Ok(output.clone()));
        (context, output)
    }

    async fn reverted(&self, evidence: &Value) -> Result<Output, Error> {
        let action = ActionId::parse("documents.add").unwrap();
        self.documents.check_revert(&context(), &action, evidence).await?;
        self.documents.revert(&context(), &action, evidence).await
    }
}

#[tokio::test]
async fn a_document_is_added_found_read_and_removed() {
    let setup = Setup::new();
    let id = setup.added("Plan").await;
    let digest = digest_of("one two");
    let hits = setup.call("search", json!({ "query": "one" })).await.unwrap().value;
    let hit = json!({ "document_id": id, "title": "Plan", "snippet": "one two", "tags": ["a", "b"], "changed_at": START });
    assert_eq!(hits, json!({ "hits": [hit] }));
    let fetched = setup.call("fetch", json!({ "document_id": id })).await.unwrap().value;
    let expected = json!({ "document_id": id, "title": "Plan", "text": "one two", "tags": ["a", "b"], "sha256": digest, "bytes": 7,
        "created_at": START, "changed_at": START });
    assert_eq!(fetched, expected);
    let tagged = setup.call("tag", json!({ "document_id": id, "add": ["c", "a"], "remove": ["b", "none"] })).await.unwrap();
    assert_eq!(tagged.value, json!({ "document_id": id, "tags": ["a", "c"] }));
    assert_eq!(setup.call("remove", json!({ "document_id": id })).await.unwrap().value, json!({ "document_id": id, "removed": true }));
    for (action, params) in [("fetch", json!({})), ("tag", json!({ "add": ["d"] })), ("remove", json!({}))] {
        for unknown in [id.as_str(), "doc_1", ""] {
            let mut params = params.clone();
            params["document_id"] = json!(unknown);
            assert_eq!(setup.call(action, params).await.unwrap_err().code(), "document_not_found", "{action} {unknown}");
        }
    }
}

#[tokio::test]
async fn a_document_of_another_space_is_not_there() {
    let setup = Setup::new();
    let id = setup.added("Plan").await;
    let elsewhere = CallContext { space: SpaceId::new(Timestamp::from_micros(0), [9; 10]), ..context() };
    for action in ["fetch", "remove", "tag"] {
        let action = ActionId::parse(&format!("documents.{action}")).unwrap();
        let error = setup.documents.call(&elsewhere, &action, &json!({ "document_id": id })).await.unwrap_err();
        assert_eq!(error.code(), "document_not_found", "{action}");
    }
}

#[tokio::test]
async fn every_change_is_verified_reconciled_and_reverted() {
    let setup = Setup::new();
    let id = setup.added("Plan").await;
    setup.write("notes/a.md", b"first");
    for (action, params, changed) in [
        ("add", json!({ "title": "New", "text": "text" }), 2),
        ("tag", json!({ "document_id": id, "add": ["x"] }), 1),
        ("remove", json!({ "document_id": id }), 0),
        ("import_folder", json!({ "path": "notes" }), 2),
    ] {
        let before = setup.kept.all();
        let (_, output) = setup.walked(action, &params).await;
        assert_eq!(setup.kept.all().len(), changed, "{action}");
        assert_ne!(setup.kept.all(), before, "{action}");
        let evidence = output.evidence.unwrap();
        assert!(!evidence.to_string().contains("first"), "no text is in the evidence");
        assert!(setup.reverted(&evidence).await.is_ok(), "{action}");
        assert_eq!(setup.kept.all(), before, "{action}");
        assert!(setup.reverted(&evidence).await.is_ok(), "a second time changes nothing");
    }
}

#[tokio::test]
async fn what_somebody_changed_since_is_not_reverted() {
    let setup = Setup::new();
    let id = setup.added("Plan").await;
    let (_, output) = setup.walked("tag", &json!({ "document_id": id, "add": ["x"] })).await;
    setup.call("tag", json!({ "document_id": id, "add": ["y"] })).await.unwrap();
    let evidence = output.evidence.unwrap();
    assert_eq!(setup.reverted(&evidence).await.unwrap_err().code(), "content_changed");
    let action = ActionId::parse("documents.tag").unwrap();
    assert_eq!(setup.documents.revert(&context(), &action, &evidence).await.unwrap_err().code(), "content_changed");
    assert_eq!(setup.documents.revert(&context(), &action, &json!({ "a": 1 })).await.unwrap_err().code(), "evidence_unreadable");
}

#[tokio::test]
async fn a_dry_run_tells_and_changes_nothing() {
    let setup = Setup::new();
    let id = setup.added("Plan").await;
    setup.write("a.md", b"first");
    let before = setup.kept.all();
    let foreseen =
        async |action: &str, params: Value| preview(&setup.documents, &format!("documents.{action}"), params).await.unwrap().value;
    let (old, new, file) = (digest_of("one two"), digest_of("text"), digest_of("first"));
    assert_eq!(
        foreseen("add", json!({ "title": "New", "text": "text" })).await,
        json!({ "documents": [{ "change": "would_be_added", "title": "New", "tags": [], "sha256": new }] })
    );
    assert_eq!(
        foreseen("tag", json!({ "document_id": id, "add": ["c"] })).await["documents"],
        json!([{ "change": "would_be_changed", "document_id": id, "title": "Plan", "tags": ["a", "b", "c"], "previous_tags": ["a", "b"],
            "sha256": old }])
    );
    assert_eq!(foreseen("tag", json!({ "document_id": id })).await["documents"][0]["change"], "would_be_unchanged");
    assert_eq!(foreseen("remove", json!({ "document_id": id })).await["documents"][0]["change"], "would_be_removed");
    let import = foreseen("import_folder", json!({})).await;
    assert_eq!(
        (&import["added"], &import["documents"][0]["path"], &import["documents"][0]["sha256"]),
        (&json!(1), &json!("a.md"), &json!(file))
    );
    assert_eq!(setup.kept.all(), before);
    for reading in ["search", "fetch"] {
        let error = preview(&setup.documents, &format!("documents.{reading}"), json!({ "document_id": id })).await.unwrap_err();
        assert_eq!(error.code(), "dry_run_unsupported");
    }
}

#[tokio::test]
async fn a_folder_is_imported_and_imported_again() {
    let setup = Setup::new();
    setup.write("notes/a.md", b"first");
    setup.write("notes/deep/b.txt", "zweiter Text: ü".as_bytes());
    setup.write("notes/image.png", &[0xff, 0xd8, 0xff]);
    setup.write("notes/zero.txt", b"a\0b");
    setup.write("notes/empty.txt", b" \n");
    setup.write("notes/large.txt", "a".repeat(DOCUMENT_BYTES_MAX + 1).as_bytes());
    setup.write("other/c.md", b"third");
    let counts = |output: &Output| ["added", "changed", "unchanged", "skipped", "left"].map(|name| output.value[name].as_u64().unwrap());
    let import = json!({ "path": "notes", "tags": ["note"] });
    let first = setup.call("import_folder", import.clone()).await.unwrap();
    assert_eq!(counts(&first), [2, 0, 0, 4, 0]);
    let paths: Vec<_> = first.value["documents"].as_array().unwrap().iter().map(|one| one["path"].clone()).collect();
    assert_eq!(paths, ["notes/a.md", "notes/deep/b.txt"]);
    setup.write("notes/a.md", b"first, changed");
    let second = setup.call("import_folder", import.clone()).await.unwrap();
    assert_eq!(counts(&second), [0, 1, 1, 4, 0]);
    assert_eq!(second.value["documents"][0]["document_id"], first.value["documents"][0]["document_id"], "it is the same document");
    let tagged = setup.call("import_folder", json!({ "path": "notes", "tags": ["more"] })).await.unwrap();
    assert_eq!(counts(&tagged), [0, 2, 0, 4, 0]);
    let (document, text) = setup.kept.all().into_iter().find(|(document, _)| document.path.as_deref() == Some("notes/a.md")).unwrap();
    assert_eq!((document.state.title.as_str(), text.as_str()), ("a.md", "first, changed"));
    assert_eq!(document.state.tags, ["more", "note"]);
}

#[tokio::test]
async fn an_import_keeps_to_the_workspace_to_its_scope_and_to_its_limits() {
    let setup = Setup::new();
    for path in ["../x", "/etc", "~/x"] {
        assert_eq!(setup.call("import_folder", json!({ "path": path })).await.unwrap_err().code(), "path_outside_workspace", "{path}");
    }
    assert_eq!(setup.call("import_folder", json!({ "path": "none" })).await.unwrap_err().code(), "file_not_found");
    setup.write("open/a.md", b"open");
    setup.write("closed/b.md", b"closed");
    let mut narrow = context();
    narrow.scope.forbidden_files = vec!["closed".to_owned()];
    let action = ActionId::parse("documents.import_folder").unwrap();
    let imported = setup.documents.call(&narrow, &action, &json!({})).await.unwrap();
    assert_eq!((&imported.value["added"], &imported.value["documents"][0]["path"]), (&json!(1), &json!("open/a.md")));
    let refused = setup.documents.call(&narrow, &action, &json!({ "path": "closed" })).await.unwrap_err();
    assert_eq!(refused.code(), "outside_scope");
    for number in 0..=DOCUMENT_CHANGES_MAX {
        setup.write(&format!("many/{number}.txt"), number.to_string().as_bytes());
    }
    let many = setup.call("import_folder", json!({ "path": "many" })).await.unwrap();
    assert_eq!((&many.value["added"], &many.value["left"]), (&json!(DOCUMENT_CHANGES_MAX), &json!(1)));
    let rest = setup.call("import_folder", json!({ "path": "many" })).await.unwrap();
    assert_eq!((&rest.value["added"], &rest.value["unchanged"]), (&json!(1), &json!(DOCUMENT_CHANGES_MAX)));
    for number in 0..DOCUMENT_FILES_MAX {
        setup.write(&format!("many/more/{number}.txt"), b"x");
    }
    assert_eq!(setup.call("import_folder", json!({ "path": "many" })).await.unwrap_err().code(), "too_many_files");
}

#[tokio::test]
async fn a_file_that_changes_under_an_import_is_not_imported() {
    let setup = Setup::new();
    setup.write("a.md", b"first");
    let action = ActionId::parse("documents.import_folder").unwrap();
    let mut context = context();
    context.prepared = setup.documents.prepare(&context, &action, &json!({})).await.unwrap();
    setup.write("a.md", b"second");
    assert_eq!(setup.documents.call(&context, &action, &json!({})).await.unwrap_err().code(), "content_changed");
    assert!(setup.kept.all().is_empty());
}

#[tokio::test]
async fn words_tags_and_times_are_read_and_odd_ones_refused() {
    let setup = Setup::new();
    let good = [
        (json!({}), DocumentQuery { limit: 20, ..DocumentQuery::default() }),
        (json!({ "query": " ", "since": "", "tags": [] }), DocumentQuery { limit: 20, ..DocumentQuery::default() }),
        (
            json!({ "query": "robin@example.com \"AND\" Größe*", "limit": 5 }),
            DocumentQuery {
                words: ["robin", "example", "com", "AND", "Größe"].map(str::to_owned).into(),
                limit: 5,
                ..DocumentQuery::default()
            },
        ),
        (
            json!({ "tags": ["x", "a/b:c_d.e-1", "größe"], "since": START, "limit": 100 }),
            DocumentQuery {
                tags: ["a/b:c_d.e-1", "größe", "x"].map(str::to_owned).into(),
                since: Some(START),
                limit: 100,
                ..DocumentQuery::default()
            },
        ),
    ];
    for (params, expected) in good {
        setup.call("search", params.clone()).await.unwrap();
        assert_eq!(setup.kept.asked.lock().unwrap().pop(), Some(expected), "{params}");
    }
    let many = ["a"; DOCUMENT_QUERY_WORDS_MAX + 1].join(" ");
    for (action, params) in [
        ("search", json!({ "query": "?!" })),
        ("search", json!({ "query": many })),
        ("search", json!({ "query": "a".repeat(501) })),
        ("search", json!({ "since": "yesterday" })),
        ("search", json!({ "tags": ["Upper"] })),
        ("search", json!({ "tags": ["a\"b"] })),
        ("search", json!({ "tags": ["a%"] })),
        ("search", json!({ "tags": [""] })),
        ("search", json!({ "limit": -1 })),
        ("add", json!({ "title": " ", "text": "a" })),
        ("add", json!({ "title": "a\nb", "text": "a" })),
        ("add", json!({ "title": "a".repeat(301), "text": "a" })),
        ("add", json!({ "title": "a", "text": " " })),
        ("add", json!({ "title": "a", "text": "a\0" })),
        ("add", json!({ "title": "a", "text": "é".repeat(DOCUMENT_BYTES_MAX / 2 + 1) })),
        ("add", json!({ "title": "a", "text": "a", "tags": (0..33).map(|tag| tag.to_string()).collect::<Vec<_>>() })),
    ] {
        assert_eq!(setup.call(action, params.clone()).await.unwrap_err().code(), "invalid_params", "{action}");
    }
    assert!(setup.kept.all().is_empty());
}

#[tokio::test]
async fn what_the_store_says_decides_whether_it_may_have_happened() {
    use countersign_core::source::AfterError;
    let message = || "disk on fire".to_owned();
    for (failure, code, transient, after) in [
        (ports::Error::Unavailable { message: message() }, "source_unreachable", true, AfterError::NoEffect),
        (ports::Error::Fenced, "source_unreachable", true, AfterError::NoEffect),
        (ports::Error::CommitUnknown { message: message() }, "source_broke", false, AfterError::Unknown),
        (ports::Error::Corrupt { message: message() }, "document_refused", false, AfterError::NoEffect),
    ] {
        let setup = Setup::failing(Some(failure));
        let error = setup.call("add", json!({ "title": "a", "text": "b" })).await.unwrap_err();
        assert_eq!((error.code(), error.was_not_taken_up(), error.after()), (code, transient, after));
    }
}

#[test]
fn its_actions_and_their_tiers_are_these() {
    let expected = [
        "documents.search R0 NoEffect Repeatable Unsupported",
        "documents.fetch R0 NoEffect Repeatable Unsupported",
        "documents.add R2 Reversible NotRepeatable Supported",
        "documents.import_folder R2 Reversible Repeatable Supported",
        "documents.tag R2 Reversible Repeatable Supported",
        "documents.remove R3 Reversible NotRepeatable Supported",
    ];
    assert_eq!(promised(&BUILTIN), expected);
}
