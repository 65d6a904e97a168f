//! Tests of `files` on a real workspace, with other processes that interfere.

use super::*;
use crate::builtin::tests::{call, preview, promised};
use crate::limits::{FILE_LIST_ENTRIES_MAX, FILE_READ_BYTES_MAX, FILE_WRITE_BYTES_MAX};
use crate::workspace::Kept;
use crate::workspace::id::ID_FILE;
use crate::workspace::path::tests::{NOT_ALLOWED, OUTSIDE};
use countersign_core::Timestamp;
use countersign_core::effect::Scope;
use countersign_core::limits::FILE_SNAPSHOT_BYTES_MAX;
use countersign_core::source::Asked;
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testkit::SeededRandom;

/// A workspace beside a folder that must never be touched.
struct Scratch {
    folder: tempfile::TempDir,
    files: Files,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/secret.txt"), "secret").unwrap();
        let files = open(folder.path()).unwrap();
        Self { folder, files }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    fn snapshots(&self) -> PathBuf {
        self.folder.path().join("snapshots")
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    async fn code(&self, action: &str, params: Value) -> &'static str {
        call(&self.files, action, params).await.map_or_else(|error| error.code(), |_| "accepted")
    }
}

fn open(folder: &Path) -> Result<Files, crate::Error> {
    open_at(folder.join("root"), folder.join("snapshots"))
}

/// Opens a workspace with an id of its own.
fn open_at(root: PathBuf, snapshots: PathBuf) -> Result<Files, crate::Error> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let spaces = snapshots.with_file_name("spaces");
    Files::open(Folders { root, snapshots, spaces }, Arc::new(SeededRandom::new(OPENED.fetch_add(1, Ordering::SeqCst))))
}

/// The number of entries of a folder, without the id of the workspace.
fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != ID_FILE).count()
}

/// Every path below a folder with its content. If two pictures are equal, nothing was changed.
fn picture(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = BTreeMap::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(path) = ahead.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let what = if metadata.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            "folder".to_owned()
        } else if metadata.is_file() {
            let digest = if metadata.len() < 1_000_000 { sha256(fs::read(&path).unwrap()) } else { String::new() };
            format!("file {} {:o} {} {digest}", metadata.ino(), metadata.mode(), metadata.len())
        } else {
            format!("other {:o}", metadata.mode())
        };
        picture.insert(path, what);
    }
    picture
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    countersign_core::Digest::new(Sha256::digest(bytes.as_ref()).into()).to_string()
}

/// The params with which each action would reach `path`.
fn reaching_for(path: &str) -> [(&'static str, Value); 4] {
    [
        ("files.read_text", json!({ "path": path })),
        ("files.list", json!({ "path": path })),
        ("files.write_text", json!({ "path": path, "text": "written" })),
        ("files.delete", json!({ "path": path })),
    ]
}

/// Checks that every action, called and previewed, refuses `path` with one of `codes`, and that nothing changes anywhere.
async fn check_refused(scratch: &Scratch, path: &str, codes: &[&str]) {
    let before = picture(scratch.folder.path());
    for (action, params) in reaching_for(path) {
        if action == "files.list" && path == "." {
            continue;
        }
        let error = call(&scratch.files, action, params.clone()).await.expect_err(&format!("{action} took {path:?}"));
        assert!(codes.contains(&error.code()), "{action} of {path:?}: {error}");
        assert!(!error.to_string().contains("secret\n") && !error.was_not_taken_up(), "{error}");
        let foreseen = preview(&scratch.files, action, params).await.unwrap_err();
        assert!(foreseen.code() == error.code() || foreseen.code() == "dry_run_unsupported", "preview of {action} of {path:?}: {foreseen}");
    }
    assert_eq!(picture(scratch.folder.path()), before, "{path:?} changed something");
}

#[tokio::test]
async fn no_action_accepts_a_path_that_leaves_the_workspace() {
    let scratch = Scratch::new();
    scratch.put("a/b/x", "inside");
    for path in OUTSIDE {
        check_refused(&scratch, path, &["path_outside_workspace"]).await;
    }
    let absolute = scratch.outside().join("secret.txt");
    check_refused(&scratch, absolute.to_str().unwrap(), &["path_outside_workspace"]).await;
    check_refused(&scratch, "../outside/secret.txt", &["path_outside_workspace"]).await;
}

#[tokio::test]
async fn no_action_accepts_a_second_spelling_of_a_path() {
    let scratch = Scratch::new();
    scratch.put("a/b", "inside");
    scratch.put("x/y", "inside");
    for path in NOT_ALLOWED {
        check_refused(&scratch, path, &["path_not_allowed"]).await;
    }
}

#[tokio::test]
async fn links_are_refused_at_the_end_and_on_the_way() {
    let scratch = Scratch::new();
    scratch.put("real/inside.txt", "inside");
    let link = |target: &Path, name: &str| symlink(target, scratch.root().join(name)).unwrap();
    link(&scratch.outside().join("secret.txt"), "absolute");
    link(&scratch.outside(), "folder");
    link(Path::new("../outside/secret.txt"), "climbing");
    link(Path::new("../outside"), "climbing-folder");
    link(Path::new("real/inside.txt"), "inner");
    link(Path::new("real"), "inner-folder");
    link(Path::new("loop"), "loop");
    link(Path::new("/proc/self/root"), "magic");
    link(Path::new("/proc/self/cwd"), "magic-cwd");
    link(Path::new("/nowhere"), "dangling");
    link(Path::new("/dev/full"), "device");
    symlink("../../outside", scratch.root().join("real/deep")).unwrap();
    for path in [
        "absolute",
        "folder",
        "folder/secret.txt",
        "folder/new.txt",
        "folder/new/new.txt",
        "climbing",
        "climbing-folder/secret.txt",
        "inner",
        "inner-folder",
        "inner-folder/inside.txt",
        "loop",
        "loop/x",
        "magic",
        "magic/etc/passwd",
        "magic-cwd/Cargo.toml",
        "dangling",
        "dangling/x",
        "device",
        "real/deep",
        "real/deep/secret.txt",
    ] {
        check_refused(&scratch, path, &["path_outside_workspace"]).await;
    }
}

#[tokio::test]
async fn a_file_with_a_second_name_is_refused() {
    let scratch = Scratch::new();
    fs::hard_link(scratch.outside().join("secret.txt"), scratch.root().join("linked.txt")).unwrap();
    let before = picture(scratch.folder.path());
    for (action, params) in reaching_for("linked.txt") {
        let expected = if action == "files.list" { "path_not_allowed" } else { "hard_link_refused" };
        assert_eq!(scratch.code(action, params).await, expected, "{action}");
    }
    assert_eq!(picture(scratch.folder.path()), before);
}

#[tokio::test]
async fn what_is_not_a_regular_file_is_refused_at_once() {
    let scratch = Scratch::new();
    let root = scratch.root();
    rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    fs::create_dir(root.join("folder")).unwrap();
    let before = picture(scratch.folder.path());
    for path in ["pipe", "socket", "folder"] {
        for (action, params) in reaching_for(path) {
            if action != "files.list" {
                assert_eq!(scratch.code(action, params).await, "not_a_regular_file", "{action} of {path}");
            }
        }
    }
    for (action, params) in reaching_for("pipe/below") {
        assert_eq!(scratch.code(action, params).await, "path_not_allowed", "{action}");
    }
    assert_eq!(picture(scratch.folder.path()), before);
}

/// Stops the other thread, also when an assertion fails; otherwise it would run for ever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// An attacker swaps a folder with a link to the outside, as fast as possible, while every action works in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_swapped_for_a_link_redirects_nothing() {
    const ROUNDS: usize = 500;
    let scratch = Scratch::new();
    scratch.put("swapped/secret.txt", "inside");
    symlink(scratch.outside(), scratch.root().join("link")).unwrap();
    let outside = picture(&scratch.outside());
    let over = AtomicBool::new(false);
    let (folder, link) = (scratch.root().join("swapped"), scratch.root().join("link"));
    let (swaps, refusals) = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0_usize;
            while !over.load(Ordering::SeqCst) {
                rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        });
        let ended = Over(&over);
        let work = async {
            let mut refusals = 0_usize;
            for round in 0..ROUNDS {
                for (action, params) in [
                    ("files.write_text", json!({ "path": "swapped/secret.txt", "text": format!("inside {round}") })),
                    ("files.write_text", json!({ "path": format!("swapped/{round}/new/file.txt"), "text": "inside" })),
                    ("files.read_text", json!({ "path": "swapped/secret.txt" })),
                    ("files.list", json!({ "path": "swapped", "recursive": true })),
                    ("files.delete", json!({ "path": format!("swapped/{round}/new/file.txt") })),
                ] {
                    match call(&scratch.files, action, params).await {
                        Ok(output) => assert!(output.value["text"] != "secret", "read from outside in round {round}"),
                        Err(error) => {
                            let codes = ["path_outside_workspace", "file_not_found", "content_changed"];
                            assert!(codes.contains(&error.code()), "{action}: {error}");
                            refusals += 1;
                        }
                    }
                }
            }
            refusals
        };
        let refusals = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
        drop(ended);
        (swapper.join().unwrap(), refusals)
    });
    assert_eq!(picture(&scratch.outside()), outside, "something outside was touched");
    assert!(swaps >= 2_000 && refusals > 0, "no race took place: {swaps} swaps, {refusals} refusals");
}

#[tokio::test]
async fn a_new_file_is_written_with_its_folders_and_can_be_read() {
    let scratch = Scratch::new();
    let text = "grüße\r\n\0\u{202e}end";
    let output = call(&scratch.files, "files.write_text", json!({ "path": "a/b/c.txt", "text": text })).await.unwrap();
    let digest = sha256(text);
    assert_eq!(output.value, json!({ "bytes_written": text.len(), "sha256_text": digest, "created": true }));
    assert_eq!(
        output.evidence,
        Some(json!({ "path": "a/b/c.txt", "previous_sha256": null, "new_sha256": digest, "mode": null, "made_folders": ["a", "a/b"],
            "workspace": scratch.files.places.shared.id }))
    );
    assert_eq!(output.quality_thousandths, 1_000);
    let read = call(&scratch.files, "files.read_text", json!({ "path": "a/b/c.txt" })).await.unwrap();
    assert_eq!(read.value, json!({ "text": text, "bytes": text.len(), "sha256": digest }));
    assert_eq!(fs::read_dir(scratch.root().join("a/b")).unwrap().count(), 1, "something was left beside the file");
    assert_eq!(fs::read_dir(scratch.snapshots()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_a_write_replaces_is_kept_under_its_digest() {
    let scratch = Scratch::new();
    scratch.put("run.sh", [0xff, 0xfe, b'o', b'l', b'd']);
    fs::set_permissions(scratch.root().join("run.sh"), fs::Permissions::from_mode(0o4755)).unwrap();
    let output = call(&scratch.files, "files.write_text", json!({ "path": "run.sh", "text": "new" })).await.unwrap();
    let previous = sha256([0xff, 0xfe, b'o', b'l', b'd']);
    assert_eq!(output.value["previous_sha256"], json!(previous));
    assert_eq!(output.value["created"], json!(false));
    assert_eq!(
        output.evidence.unwrap(),
        json!({ "path": "run.sh", "previous_sha256": previous, "new_sha256": sha256("new"), "mode": 0o755, "made_folders": [],
            "workspace": scratch.files.places.shared.id })
    );
    assert_eq!(fs::read(scratch.snapshots().join(&previous)).unwrap(), [0xff, 0xfe, b'o', b'l', b'd']);
    let metadata = fs::metadata(scratch.root().join("run.sh")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o755, "permissions are kept, set-id bits are not");
    assert_eq!(fs::metadata(scratch.snapshots().join(&previous)).unwrap().mode() & 0o777, 0o600);
    assert_eq!(scratch.content("run.sh"), "new");
}

#[tokio::test]
async fn what_was_kept_long_ago_is_forgotten_and_nothing_else() {
    let scratch = Scratch::new();
    for text in ["old", "new", "newest"] {
        call(&scratch.files, "files.write_text", json!({ "path": "x", "text": text })).await.unwrap();
    }
    let snapshot = |text| scratch.snapshots().join(sha256(text));
    scratch.put("../snapshots/README", "not one of ours");
    let then = Timestamp::from_micros(1_000_000 * 1_000_000);
    for (path, seconds) in [(snapshot("old"), 999_999), (snapshot("new"), 1_000_000), (scratch.snapshots().join("README"), 1)] {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    let kept = scratch.files.places.forget(then, u64::MAX, then).unwrap();
    assert_eq!(kept, Kept { files: 1, bytes: 3, forgotten: 1 });
    assert_eq!((snapshot("old").exists(), snapshot("new").exists()), (false, true));
    assert!(scratch.snapshots().join("README").exists());
    // Keeping the same content again renews its age.
    scratch.put("x", "new");
    call(&scratch.files, "files.write_text", json!({ "path": "x", "text": "other" })).await.unwrap();
    assert_eq!(scratch.files.places.forget(then.plus_seconds(60), u64::MAX, then).unwrap(), Kept { forgotten: 0, ..kept });
}

#[tokio::test]
async fn of_too_many_bytes_the_oldest_snapshots_go_but_none_that_is_young() {
    let scratch = Scratch::new();
    for text in ["a", "bb", "ccc", "last"] {
        call(&scratch.files, "files.write_text", json!({ "path": "x", "text": text })).await.unwrap();
    }
    let snapshot = |text| scratch.snapshots().join(sha256(text));
    for (text, seconds) in [("a", 3_000), ("bb", 1_000), ("ccc", 2_000)] {
        let file = fs::File::options().write(true).open(snapshot(text)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
    let there = || ["a", "bb", "ccc"].map(|text| snapshot(text).exists());
    assert_eq!(scratch.files.places.forget(at(0), 6, at(9_000)).unwrap(), Kept { files: 3, bytes: 6, forgotten: 0 });
    assert_eq!(scratch.files.places.forget(at(0), 5, at(9_000)).unwrap(), Kept { files: 2, bytes: 4, forgotten: 1 });
    assert_eq!(there(), [true, false, true], "the oldest is gone");
    assert_eq!(scratch.files.places.forget(at(0), 0, at(3_000)).unwrap(), Kept { files: 1, bytes: 1, forgotten: 1 });
    assert_eq!(there(), [true, false, false], "what was kept since then stays");
}

#[tokio::test]
async fn writing_twice_equals_writing_once() {
    let scratch = Scratch::new();
    for created in [true, false, false] {
        let output = call(&scratch.files, "files.write_text", json!({ "path": "x", "text": "same" })).await.unwrap();
        assert_eq!((&output.value["created"], scratch.content("x")), (&json!(created), "same".to_owned()));
    }
    assert_eq!(count(&scratch.root()), 1);
}

#[tokio::test]
async fn a_write_that_expects_other_content_changes_nothing() {
    let scratch = Scratch::new();
    scratch.put("x", "one");
    let before = picture(scratch.folder.path());
    for params in [
        json!({ "path": "x", "text": "two", "expected_sha256": sha256("other") }),
        json!({ "path": "absent", "text": "two", "expected_sha256": sha256("one") }),
        json!({ "path": "new/folder/absent", "text": "two", "expected_sha256": sha256("") }),
    ] {
        assert_eq!(scratch.code("files.write_text", params.clone()).await, "content_changed");
        assert_eq!(preview(&scratch.files, "files.write_text", params).await.unwrap_err().code(), "content_changed");
    }
    assert_eq!(picture(scratch.folder.path()), before);
    assert_eq!(scratch.code("files.write_text", json!({ "path": "x", "text": "two", "expected_sha256": sha256("one") })).await, "accepted");
    assert_eq!(scratch.content("x"), "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_writes_that_expect_the_same_content_exactly_one_wins() {
    let scratch = Scratch::new();
    for round in 0..20 {
        scratch.put("x", "before");
        let writes = (0..8).map(|writer| {
            let params = json!({ "path": "x", "text": format!("{round} {writer}"), "expected_sha256": sha256("before") });
            call(&scratch.files, "files.write_text", params)
        });
        let results = futures_util::future::join_all(writes).await;
        let won: Vec<usize> = results.iter().enumerate().filter(|(_, result)| result.is_ok()).map(|(writer, _)| writer).collect();
        assert_eq!(won.len(), 1, "round {round}");
        assert_eq!(scratch.content("x"), format!("{round} {}", won[0]));
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            assert_eq!(error.code(), "content_changed", "{error}");
        }
    }
    let absent = (0..8).map(|writer| call(&scratch.files, "files.write_text", json!({ "path": "fresh/y", "text": format!("{writer}") })));
    let created = futures_util::future::join_all(absent).await;
    assert_eq!(created.iter().flatten().filter(|output| output.value["created"] == true).count(), 1);
    assert_eq!(fs::read_dir(scratch.root().join("fresh")).unwrap().count(), 1, "a half-written file was left");
}

/// Another program replaces the file by renaming, as fast as possible, while it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_the_old_text_or_the_new_one_and_never_neither() {
    let scratch = Scratch::new();
    let texts = ["a".repeat(100_000), "b".repeat(100_000)];
    scratch.put("x", &texts[0]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for text in texts.iter().cycle().take_while(|_| !over.load(Ordering::SeqCst)) {
                fs::write(scratch.root().join("y"), text).unwrap();
                fs::rename(scratch.root().join("y"), scratch.root().join("x")).unwrap();
            }
        });
        let ended = Over(&over);
        let work = async {
            for _ in 0..1_000 {
                let read = call(&scratch.files, "files.read_text", json!({ "path": "x" })).await.unwrap();
                assert!(texts.iter().any(|text| read.value["text"] == json!(text)));
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
        drop(ended);
    });
}

#[tokio::test]
async fn a_write_that_was_given_up_leaves_nothing_behind() {
    let scratch = Scratch::new();
    scratch.put("x", "before");
    let commitment = crate::workspace::commitment::Commitment::new("files");
    commitment.abandon();
    let before = picture(&scratch.root());
    for path in ["x", "new/folders/y"] {
        let params = read_params(&ActionId::parse("files.write_text").unwrap(), &json!({ "path": path, "text": "late" })).unwrap();
        let evidence = write::prepare(&scratch.files.places.shared, &params, &Scope::default(), ".countersign-t").unwrap();
        let error = write::write_text(&scratch.files.places.shared, &params, &evidence, ".countersign-t", &commitment).unwrap_err();
        assert!(matches!(error, Error::NoTurn { .. }), "{error}");
    }
    let params = read_params(&ActionId::parse("files.delete").unwrap(), &json!({ "path": "x" })).unwrap();
    let evidence = delete::prepare(&scratch.files.places.shared, &params, &Scope::default(), ".countersign-t").unwrap();
    assert!(matches!(delete::delete(&scratch.files.places.shared, &params, &evidence, &commitment), Err(Error::NoTurn { .. })));
    assert_eq!(picture(&scratch.root()), before);
}

#[tokio::test]
async fn sizes_are_bounded_and_the_error_names_the_size() {
    let scratch = Scratch::new();
    let limit = usize::try_from(FILE_READ_BYTES_MAX).unwrap();
    scratch.put("fits", vec![b'a'; limit]);
    scratch.put("long", vec![b'a'; limit + 1]);
    assert_eq!(scratch.code("files.read_text", json!({ "path": "fits" })).await, "accepted");
    let error = call(&scratch.files, "files.read_text", json!({ "path": "long" })).await.unwrap_err();
    assert_eq!(error.code(), "file_too_large");
    assert!(error.to_string().contains(&(limit + 1).to_string()), "{error}");
    let text = "é".repeat(FILE_WRITE_BYTES_MAX / 2);
    assert_eq!(scratch.code("files.write_text", json!({ "path": "new", "text": text })).await, "accepted");
    assert_eq!(scratch.code("files.write_text", json!({ "path": "newer", "text": format!("{text}!") })).await, "file_too_large");
    // The file is sparse, so it takes no space whatever its length.
    for bytes in [FILE_SNAPSHOT_BYTES_MAX + 1, 1 << 42] {
        fs::File::create(scratch.root().join("vast")).unwrap().set_len(bytes).unwrap();
        for (action, params) in reaching_for("vast") {
            if action != "files.list" {
                assert_eq!(scratch.code(action, params).await, "file_too_large", "{action}");
            }
        }
        assert_eq!(fs::metadata(scratch.root().join("vast")).unwrap().len(), bytes);
    }
    assert!(!scratch.root().join("newer").exists());
}

#[tokio::test]
async fn only_utf8_is_read_as_text() {
    let scratch = Scratch::new();
    for content in [&[0xff, 0xfe][..], b"caf\xe9", b"\xed\xa0\x80", b"ok\xc0\x80"] {
        scratch.put("x", content);
        assert_eq!(scratch.code("files.read_text", json!({ "path": "x" })).await, "not_utf8");
    }
    scratch.put("empty", "");
    let read = call(&scratch.files, "files.read_text", json!({ "path": "empty" })).await.unwrap();
    assert_eq!(read.value, json!({ "text": "", "bytes": 0, "sha256": sha256("") }));
}

#[tokio::test]
async fn a_deleted_file_is_kept_and_cannot_be_deleted_twice() {
    let scratch = Scratch::new();
    scratch.put("a/x", "content");
    let output = call(&scratch.files, "files.delete", json!({ "path": "a/x" })).await.unwrap();
    let digest = sha256("content");
    assert_eq!(output.value, json!({ "deleted": true, "previous_sha256": digest }));
    assert_eq!(
        output.evidence,
        Some(json!({ "path": "a/x", "previous_sha256": digest, "new_sha256": null, "mode": 0o644, "made_folders": [],
            "workspace": scratch.files.places.shared.id }))
    );
    assert_eq!(fs::read_to_string(scratch.snapshots().join(digest)).unwrap(), "content");
    assert!(scratch.root().join("a").exists() && !scratch.root().join("a/x").exists());
    for path in ["a/x", "a/y", "b/x"] {
        for action in ["files.delete", "files.read_text"] {
            assert_eq!(scratch.code(action, json!({ "path": path })).await, "file_not_found");
        }
        assert_eq!(preview(&scratch.files, "files.delete", json!({ "path": path })).await.unwrap_err().code(), "file_not_found");
    }
    assert_eq!(scratch.code("files.list", json!({ "path": "b" })).await, "file_not_found");
}

#[tokio::test]
async fn a_preview_tells_the_change_and_makes_none() {
    let scratch = Scratch::new();
    scratch.put("notes.md", "one\ntwo\nthree\n");
    scratch.put("binary", [0xff, 0x00]);
    fs::set_permissions(scratch.root().join("binary"), fs::Permissions::from_mode(0o700)).unwrap();
    let before = picture(scratch.folder.path());
    let foresee = async |path: &str, text: &str| {
        preview(&scratch.files, "files.write_text", json!({ "path": path, "text": text })).await.unwrap().value
    };

    let change = foresee("notes.md", "one\n2\nthree\nfour\n").await;
    assert_eq!((&change["change"], &change["added_lines"], &change["removed_lines"]), (&json!("would_change"), &json!(2), &json!(1)));
    assert_eq!(change["diff"], json!("@@ -1 +1 @@\n one\n-two\n+2\n three\n+four\n"));
    assert_eq!((&change["previous_sha256"], &change["diff_truncated"]), (&json!(sha256("one\ntwo\nthree\n")), &json!(false)));

    let same = foresee("notes.md", "one\ntwo\nthree\n").await;
    assert_eq!((&same["change"], &same["diff"]), (&json!("no_change"), &json!("")));
    let created = foresee("new/folder/x", "a\nb\n").await;
    assert_eq!((&created["change"], &created["added_lines"], created.get("previous_sha256")), (&json!("would_create"), &json!(2), None));
    assert_eq!((&created["path"], &created["bytes_written"]), (&json!("new/folder/x"), &json!(4)));
    let hook = foresee(".git/hooks/pre-commit", "#!/bin/sh\n").await;
    assert_eq!(hook["warnings"], json!(["git may run it without being asked (`.git`)"]));
    assert_eq!(foresee("binary", "text").await["warnings"], json!(["it is an executable file"]));
    assert_eq!(created.get("warnings"), None);
    let opaque = foresee("binary", "text").await;
    assert_eq!((&opaque["change"], &opaque["diff"]), (&json!("would_change"), &Value::Null));

    let gone = preview(&scratch.files, "files.delete", json!({ "path": "notes.md" })).await.unwrap().value;
    let expected = json!({ "path": "notes.md", "change": "would_delete", "bytes": 14, "previous_sha256": sha256("one\ntwo\nthree\n"),
        "added_lines": 0, "removed_lines": 3, "diff": "@@ -1 +1 @@\n-one\n-two\n-three\n", "diff_truncated": false });
    assert_eq!(gone, expected);
    let opaque = preview(&scratch.files, "files.delete", json!({ "path": "binary" })).await.unwrap().value;
    assert_eq!((&opaque["change"], &opaque["diff"]), (&json!("would_delete"), &Value::Null));
    for action in ["files.read_text", "files.list"] {
        let error = preview(&scratch.files, action, json!({ "path": "notes.md" })).await.unwrap_err();
        assert_eq!(error.code(), "dry_run_unsupported");
    }
    assert_eq!(picture(scratch.folder.path()), before);
}

#[tokio::test]
async fn a_list_is_sorted_and_follows_no_link() {
    let scratch = Scratch::new();
    scratch.put("b.txt", "12345");
    scratch.put("a/deep/x", "1");
    symlink(scratch.outside(), scratch.root().join("link")).unwrap();
    symlink(".", scratch.root().join("a/loop")).unwrap();
    rustix::fs::mknodat(CWD, scratch.root().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    fs::write(scratch.root().join(".countersign-busy"), "half").unwrap();
    let listed = async |params: Value| call(&scratch.files, "files.list", params).await.unwrap().value;
    let top = json!({ "entries": [
        { "path": "a", "kind": "folder" },
        { "path": "b.txt", "kind": "file", "bytes": 5 },
        { "path": "link", "kind": "link" },
        { "path": "pipe", "kind": "other" },
    ], "omitted": 0 });
    assert_eq!(listed(json!({})).await, top);
    assert_eq!(listed(json!({ "path": ".", "recursive": false })).await, top);
    assert_eq!(
        listed(json!({ "path": "a", "recursive": true })).await,
        json!({ "entries": [
            { "path": "a/deep", "kind": "folder" },
            { "path": "a/deep/x", "kind": "file", "bytes": 1 },
            { "path": "a/loop", "kind": "link" },
        ], "omitted": 0 })
    );
    assert_eq!(scratch.code("files.list", json!({ "path": "b.txt" })).await, "path_not_allowed");
    assert_eq!(scratch.code("files.list", json!({ "path": "link" })).await, "path_outside_workspace");
}

#[tokio::test]
async fn a_long_list_is_cut_and_odd_names_are_counted() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    for number in 0..FILE_LIST_ENTRIES_MAX + 5 {
        scratch.put(&format!("{number:05}"), "");
    }
    for odd in [&b"not-utf8-\xff"[..], b"line\nbreak", b"trailing ", b"back\\slash", "bidi\u{202e}".as_bytes(), b"~home"] {
        let path = scratch.root().join(std::ffi::OsStr::from_bytes(odd));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "").unwrap();
    }
    // Deeper than any path may be.
    let deepest = vec!["d"; crate::limits::FILE_DEPTH_MAX].join("/");
    scratch.put(&format!("{deepest}/too-deep"), "");
    let value = call(&scratch.files, "files.list", json!({ "recursive": true })).await.unwrap().value;
    let paths: Vec<&str> = value["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..FILE_LIST_ENTRIES_MAX).map(|number| format!("{number:05}")).collect();
    assert_eq!(paths, expected);
    assert_eq!(value["omitted"], json!(5 + 6 + crate::limits::FILE_DEPTH_MAX + 1));
    let deep = call(&scratch.files, "files.list", json!({ "path": deepest, "recursive": true })).await.unwrap().value;
    assert_eq!(deep, json!({ "entries": [], "omitted": 1 }));
}

#[tokio::test]
async fn names_that_differ_in_case_or_letters_are_different_files() {
    let scratch = Scratch::new();
    let names = ["A.txt", "a.txt", "é", "e", "ﬁ", "fi", "ß", "ss", "İ", "i\u{307}"];
    for name in names {
        assert_eq!(scratch.code("files.write_text", json!({ "path": name, "text": name })).await, "accepted");
    }
    for name in names {
        assert_eq!(scratch.content(name), name);
    }
}

#[tokio::test]
async fn where_case_does_not_count_only_the_spelling_on_disk_is_accepted() {
    let mut scratch = Scratch::new();
    scratch.put("Notes/Today.md", "x");
    let places = Arc::get_mut(&mut scratch.files.places).unwrap();
    Arc::get_mut(&mut places.shared).unwrap().workspace.pretend(Spelling::CaseInsensitive);
    let before = picture(&scratch.root());
    for path in ["notes/Today.md", "NOTES/Today.md", "Notes/today.md", "Notes/TODAY.MD"] {
        for (action, params) in reaching_for(path) {
            let error = call(&scratch.files, action, params).await.unwrap_err();
            assert_eq!(error.code(), "path_not_allowed", "{action} of {path}");
        }
    }
    assert_eq!(picture(&scratch.root()), before);
    assert_eq!(scratch.code("files.read_text", json!({ "path": "Notes/Today.md" })).await, "accepted");
    assert_eq!(scratch.code("files.write_text", json!({ "path": "Notes/new.md", "text": "" })).await, "accepted");
}

#[test]
fn the_case_of_names_is_probed_and_the_probe_leaves_nothing() {
    let scratch = Scratch::new();
    assert_eq!(count(&scratch.root()), 0);
    fs::write(scratch.root().join("probe"), "").unwrap();
    let folds = scratch.root().join("PROBE").exists();
    assert_eq!(scratch.files.spelling(), if folds { Spelling::CaseInsensitive } else { Spelling::CaseSensitive });
}

#[test]
fn what_a_crash_left_is_removed_and_nothing_else() {
    let scratch = Scratch::new();
    scratch.put(".countersign-inv_1-1", "half");
    scratch.put("a/b/.countersign-inv_2-1", "half");
    scratch.put("a/keep.txt", "whole");
    scratch.put("a/.counter", "whole");
    fs::write(scratch.snapshots().join(".countersign-inv_3-1"), "half").unwrap();
    fs::write(scratch.snapshots().join(sha256("kept")), "kept").unwrap();
    symlink(scratch.outside(), scratch.root().join("a/link")).unwrap();
    fs::write(scratch.outside().join(".countersign-other"), "theirs").unwrap();
    symlink(scratch.outside().join(".countersign-other"), scratch.root().join(".countersign-link")).unwrap();
    fs::create_dir(scratch.root().join(".countersign-folder")).unwrap();
    open(scratch.folder.path()).unwrap();
    let left: Vec<String> = picture(scratch.folder.path())
        .into_keys()
        .filter_map(|path| path.strip_prefix(scratch.folder.path()).unwrap().to_str().map(str::to_owned))
        .filter(|path| path.contains(".counter"))
        .collect();
    assert_eq!(
        left,
        [
            "outside/.countersign-other",
            "root/.countersign-folder",
            "root/.countersign-link",
            "root/.countersign-workspace",
            "root/a/.counter"
        ]
    );
    assert_eq!(fs::read_to_string(scratch.snapshots().join(sha256("kept"))).unwrap(), "kept");
}

#[tokio::test]
async fn a_folder_removed_under_a_write_fails_it_cleanly() {
    let scratch = Scratch::new();
    scratch.put("a/x", "before");
    let path = crate::workspace::path::WorkspacePath::parse("a/y").unwrap();
    let reached = scratch.files.places.shared.workspace.reach(&path, path.folders()).unwrap();
    fs::remove_dir_all(scratch.root().join("a")).unwrap();
    let staged = staged::Staged::create(&reached.folder, ".countersign-t", Mode::RUSR, &path);
    assert_eq!(staged.err().map(|error| error.code()), Some("file_not_found"));
    assert!(rustix::fs::statat(&reached.folder, "y", AtFlags::empty()).is_err());
}

#[test]
fn folders_are_made_for_us_alone_and_must_lie_apart() {
    let scratch = Scratch::new();
    for folder in [scratch.root(), scratch.snapshots()] {
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
    }
    let at = |path: &str| scratch.folder.path().join(path);
    symlink(scratch.root(), at("alias")).unwrap();
    for (root, snapshots) in [("same", "same"), ("outer", "outer/inner"), ("outer/inner", "outer"), ("root", "alias/inside")] {
        let error = open_at(at(root), at(snapshots)).err().unwrap();
        assert!(matches!(error, crate::Error::FoldersOverlap { .. }), "{error}");
    }
    fs::write(at("file"), "").unwrap();
    let error = open_at(at("file"), at("elsewhere")).err().unwrap();
    assert!(matches!(error, crate::Error::Folder { .. }), "{error}");
}

#[tokio::test]
async fn the_longest_and_deepest_paths_that_are_allowed_work() {
    let scratch = Scratch::new();
    let deepest = vec!["d"; crate::limits::FILE_DEPTH_MAX].join("/");
    let longest = format!("{}/{}/{}/{}", "x".repeat(255), "y".repeat(255), "z".repeat(255), "é".repeat(127));
    for path in [deepest, longest] {
        assert_eq!(scratch.code("files.write_text", json!({ "path": path, "text": "x" })).await, "accepted");
        assert_eq!(scratch.code("files.read_text", json!({ "path": path })).await, "accepted");
        assert_eq!(scratch.code("files.delete", json!({ "path": path })).await, "accepted");
    }
}

#[test]
fn only_small_regular_files_of_the_same_disk_are_read_in_place() {
    let scratch = Scratch::new();
    scratch.put("a/small.txt", "small");
    scratch.put("large.txt", vec![b'x'; 64 * 1024 + 1]);
    symlink(scratch.outside().join("secret.txt"), scratch.root().join("link")).unwrap();
    symlink(scratch.outside(), scratch.root().join("out")).unwrap();
    rustix::fs::mknodat(CWD, scratch.root().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let workspace = &scratch.files.places.shared.workspace;
    let at_hand = |path: &str| workspace.is_at_hand(&crate::workspace::path::WorkspacePath::parse(path).unwrap());
    // Read once, so that the kernel has the names cached. The machine decides which file system this is; if it is not a local one, nothing
    // is at hand.
    assert_eq!(scratch.content("a/small.txt"), "small");
    let local = at_hand("a/small.txt");
    for path in ["large.txt", "link", "out/secret.txt", "pipe", "a", "absent.txt"] {
        assert!(!at_hand(path), "{path}");
    }
    // A path at which nothing exists, in a folder that is at hand and reached through no link.
    let free_at_hand = |path: &str| workspace.is_free_at_hand(&crate::workspace::path::WorkspacePath::parse(path).unwrap());
    assert_eq!((free_at_hand("a/absent.txt"), free_at_hand("absent.txt")), (local, local));
    for path in ["a/small.txt", "large.txt", "link", "out/absent.txt", "pipe", "no-folder/absent.txt", "large.txt/absent.txt"] {
        assert!(!free_at_hand(path), "{path}");
    }
    let kind = rustix::fs::statfs(scratch.root()).unwrap().f_type;
    assert_eq!(local, [0xef53, 0x0102_1994, 0x794c_7630, 0x5846_5342, 0x9123_683e].contains(&u64::try_from(kind).unwrap()), "{kind:x}");
}

/// The three kinds of change, each with the content before it.
const CHANGES: [(&str, Option<&str>, &str); 3] = [
    ("files.write_text", None, "deep/new/note.txt"),
    ("files.write_text", Some("before"), "note.txt"),
    ("files.delete", Some("before"), "note.txt"),
];

fn params_of(action: &str, path: &str) -> Value {
    if action == "files.delete" { json!({ "path": path }) } else { json!({ "path": path, "text": "after" }) }
}

/// Prepares a change, and returns its context.
async fn prepared(scratch: &Scratch, action: &ActionId, before: Option<&str>, path: &str) -> CallContext {
    if let Some(before) = before {
        scratch.put(path, before);
    }
    let mut context = crate::builtin::tests::context();
    let seen = picture(&scratch.root());
    context.prepared = scratch.files.prepare(&context, action, &params_of(action.as_str(), path)).await.unwrap();
    assert!(context.prepared.is_some());
    assert_eq!(picture(&scratch.root()), seen, "preparing changes nothing anybody sees");
    context
}

#[tokio::test]
async fn a_change_that_was_made_is_seen_and_can_be_taken_back() {
    for (action, before, path) in CHANGES {
        let scratch = Scratch::new();
        let id = ActionId::parse(action).unwrap();
        let context = prepared(&scratch, &id, before, path).await;
        let params = params_of(action, path);
        assert_eq!(scratch.files.reconcile(&context, &id, &params).await, Ok(Reconciled::DidNot), "{action}");
        let output = scratch.files.call(&context, &id, &params).await.unwrap();
        assert_eq!(output.evidence, context.prepared, "what was kept before is what undoes it");
        assert_eq!(scratch.files.verify(&context, &id, &params, &output).await, Ok(vec![Check::passed("read_back")]));
        assert_eq!(scratch.files.reconcile(&context, &id, &params).await, Ok(Reconciled::Happened(output.clone())), "{action}");
        let evidence = output.evidence.unwrap();
        for _ in 0..2 {
            let restored = scratch.files.revert(&context, &id, &evidence).await.unwrap();
            assert_eq!(restored.value["restored"], path);
            match before {
                Some(before) => assert_eq!(scratch.content(path), before),
                None => assert_eq!(count(&scratch.root()), 0, "{action} left something behind"),
            }
        }
    }
}

#[tokio::test]
async fn what_somebody_else_has_changed_since_is_neither_called_ours_nor_overwritten() {
    for (action, before, path) in CHANGES {
        let scratch = Scratch::new();
        let id = ActionId::parse(action).unwrap();
        let context = prepared(&scratch, &id, before, path).await;
        let params = params_of(action, path);
        scratch.put(path, "somebody else's");
        assert_eq!(scratch.files.call(&context, &id, &params).await.unwrap_err().code(), "content_changed", "{action}");
        assert_eq!(scratch.files.reconcile(&context, &id, &params).await, Ok(Reconciled::Unknown), "{action}");
        let output = Output { evidence: context.prepared.clone(), ..Output::new(json!({})) };
        let checks = scratch.files.verify(&context, &id, &params, &output).await.unwrap();
        assert!(checks.len() == 1 && !checks[0].ok, "{checks:?}");
        let evidence = context.prepared.as_ref().unwrap();
        let foreseen = scratch.files.check_revert(&context, &id, evidence).await.unwrap_err();
        let refused = scratch.files.revert(&context, &id, evidence).await.unwrap_err();
        assert_eq!((refused.code(), &refused), ("content_changed", &foreseen));
        assert!(refused.to_string().starts_with(&format!("`{path}` was changed after the call")), "{refused}");
        assert_eq!(scratch.content(path), "somebody else's");
        // A change that was made in another workspace cannot be reverted here, whatever is here.
        let mut elsewhere = evidence.clone();
        elsewhere["workspace"] = json!("0".repeat(32));
        assert_eq!(scratch.files.check_revert(&context, &id, &elsewhere).await, Err(Error::WorkspaceElsewhere));
    }
}

#[tokio::test]
async fn whether_a_change_could_be_taken_back_is_seen_without_touching_anything() {
    for (action, before, path) in CHANGES {
        let scratch = Scratch::new();
        let id = ActionId::parse(action).unwrap();
        let context = prepared(&scratch, &id, before, path).await;
        let evidence = context.prepared.clone().unwrap();
        // Before the change is made, after it is made, and after it is reverted.
        assert_eq!(scratch.files.check_revert(&context, &id, &evidence).await, Ok(()), "{action}");
        scratch.files.call(&context, &id, &params_of(action, path)).await.unwrap();
        let made = picture(scratch.folder.path());
        assert_eq!(scratch.files.check_revert(&context, &id, &evidence).await, Ok(()), "{action}");
        assert_eq!(picture(scratch.folder.path()), made);
        scratch.files.revert(&context, &id, &evidence).await.unwrap();
        assert_eq!(scratch.files.check_revert(&context, &id, &evidence).await, Ok(()), "{action}");
    }
}

#[tokio::test]
async fn a_snapshot_that_is_gone_or_was_changed_restores_nothing() {
    for spoil in [(|path: &Path| fs::remove_file(path).unwrap()) as fn(&Path), |path| fs::write(path, "forged").unwrap()] {
        let scratch = Scratch::new();
        let id = ActionId::parse("files.write_text").unwrap();
        let context = prepared(&scratch, &id, Some("before"), "note.txt").await;
        scratch.files.call(&context, &id, &params_of("files.write_text", "note.txt")).await.unwrap();
        spoil(&scratch.snapshots().join(sha256("before")));
        let lost = scratch.files.revert(&context, &id, context.prepared.as_ref().unwrap()).await.unwrap_err();
        assert_eq!(lost.code(), "snapshot_lost");
        assert_eq!(scratch.content("note.txt"), "after");
        assert_eq!(count(&scratch.root()), 1, "nothing half-written is left");
    }
}

#[tokio::test]
async fn evidence_of_another_call_is_refused() {
    let scratch = Scratch::new();
    let write = ActionId::parse("files.write_text").unwrap();
    let context = prepared(&scratch, &write, Some("before"), "note.txt").await;
    for params in [json!({ "path": "note.txt", "text": "other" }), json!({ "path": "other.txt", "text": "after" })] {
        assert_eq!(scratch.files.call(&context, &write, &params).await.unwrap_err().code(), "evidence_of_another_call");
    }
    let delete = ActionId::parse("files.delete").unwrap();
    let refused = scratch.files.call(&context, &delete, &json!({ "path": "note.txt" })).await.unwrap_err();
    assert_eq!(refused.code(), "evidence_of_another_call");
    assert_eq!(scratch.content("note.txt"), "before");
}

#[tokio::test]
async fn a_call_acts_only_where_its_scope_lets_it() {
    let scratch = Scratch::new();
    scratch.put("src/a.txt", "before");
    let scope = Scope { allowed_dirs: vec!["src".into()], forbidden_files: vec!["src/secret".into()], ..Scope::default() };
    let context = CallContext { scope, ..crate::builtin::tests::context() };
    let seen = picture(&scratch.root());
    for path in ["a.txt", "src/secret", "src/secret/deep.txt", "srcs/a.txt"] {
        let write = ActionId::parse("files.write_text").unwrap();
        let params = json!({ "path": path, "text": "after" });
        assert_eq!(scratch.files.prepare(&context, &write, &params).await.unwrap_err().code(), "outside_scope", "{path}");
        assert_eq!(scratch.files.call(&context, &write, &params).await.unwrap_err().code(), "outside_scope", "{path}");
        assert_eq!(scratch.files.preview(&context, &write, &params).await.unwrap_err().code(), "outside_scope", "{path}");
        let delete = ActionId::parse("files.delete").unwrap();
        assert_eq!(scratch.files.prepare(&context, &delete, &json!({ "path": path })).await.unwrap_err().code(), "outside_scope");
    }
    assert_eq!(picture(&scratch.root()), seen);
    let write = ActionId::parse("files.write_text").unwrap();
    scratch.files.call(&context, &write, &json!({ "path": "src/a.txt", "text": "after" })).await.unwrap();
}

/// Calls an action with this scope, and returns its error code, or `accepted`.
async fn code_in(scratch: &Scratch, scope: &Scope, action: &str, params: Value) -> &'static str {
    let context = CallContext { scope: scope.clone(), ..crate::builtin::tests::context() };
    let answer = scratch.files.call(&context, &ActionId::parse(action).unwrap(), &params).await;
    answer.map_or_else(|error| error.code(), |_| "accepted")
}

#[tokio::test]
async fn a_call_reads_only_where_its_scope_lets_it() {
    let scratch = Scratch::new();
    for path in ["a.txt", "secret.txt", "src/a.txt", "src/secret/deep.txt"] {
        scratch.put(path, "text");
    }
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let except = Scope { forbidden_files: texts(&["secret.txt", "src/secret"]), ..Scope::default() };
    let within = Scope { allowed_dirs: texts(&["src"]), ..Scope::default() };
    for (scope, path, expected) in [
        (&except, "a.txt", "accepted"),
        (&except, "src/a.txt", "accepted"),
        (&except, "secret.txt", "outside_scope"),
        (&except, "src/secret/deep.txt", "outside_scope"),
        // The answer does not reveal whether the file exists, either.
        (&except, "src/secret/none.txt", "outside_scope"),
        (&within, "src/secret/deep.txt", "accepted"),
        (&within, "a.txt", "outside_scope"),
        (&within, "none.txt", "outside_scope"),
    ] {
        assert_eq!(code_in(&scratch, scope, "files.read_text", json!({ "path": path })).await, expected, "{path} in {scope:?}");
    }
    // A forbidden file is forbidden under every name it has.
    symlink("src", scratch.root().join("alias")).unwrap();
    let by_link = Scope { forbidden_files: texts(&["alias"]), ..Scope::default() };
    assert_eq!(code_in(&scratch, &by_link, "files.read_text", json!({ "path": "src/a.txt" })).await, "outside_scope");
}

#[tokio::test]
async fn a_list_leaves_out_what_lies_outside_the_scope_of_the_call() {
    let scratch = Scratch::new();
    for path in ["a.txt", "src/a.txt", "src/deep/b.txt", "src/deep/c.txt", "src/secret/key", "odd\\name"] {
        scratch.put(path, "text");
    }
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let scope = |files: &[&str], dirs: &[&str], forbidden: &[&str]| Scope {
        allowed_files: texts(files),
        allowed_dirs: texts(dirs),
        forbidden_files: texts(forbidden),
    };
    let everything: &[&str] =
        &["a.txt", "src", "src/a.txt", "src/deep", "src/deep/b.txt", "src/deep/c.txt", "src/secret", "src/secret/key"];
    for (scope, expected, omitted) in [
        (scope(&[], &[], &[]), everything, 1),
        (scope(&[], &[], &["src/secret", "a.txt"]), &["src", "src/a.txt", "src/deep", "src/deep/b.txt", "src/deep/c.txt"], 1),
        // Folders on the way are walked through but not listed. Entries outside the scope are not counted.
        (scope(&[], &["src/deep"], &[]), &["src/deep", "src/deep/b.txt", "src/deep/c.txt"], 0),
        (scope(&["src/deep/b.txt"], &[], &[]), &["src/deep/b.txt"], 0),
        (scope(&[], &["src"], &["src/deep", "src/secret"]), &["src", "src/a.txt"], 0),
        (scope(&[], &[], &["."]), &[], 0),
    ] {
        let context = CallContext { scope: scope.clone(), ..crate::builtin::tests::context() };
        let list = ActionId::parse("files.list").unwrap();
        let listed = scratch.files.call(&context, &list, &json!({ "recursive": true })).await.unwrap().value;
        let paths: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
        assert_eq!((paths.as_slice(), &listed["omitted"]), (expected, &json!(omitted)), "{scope:?}");
    }
    let except = scope(&[], &[], &["src/secret"]);
    assert_eq!(code_in(&scratch, &except, "files.list", json!({ "path": "src/secret" })).await, "outside_scope");
    assert_eq!(code_in(&scratch, &except, "files.list", json!({ "path": "src/secret/none" })).await, "outside_scope");
    assert_eq!(code_in(&scratch, &scope(&[], &["src/deep"], &[]), "files.list", json!({ "path": "src" })).await, "outside_scope");
    assert_eq!(code_in(&scratch, &scope(&[], &["src"], &[]), "files.list", json!({ "path": "src/deep" })).await, "accepted");
}

#[tokio::test]
async fn a_list_leaves_out_what_is_forbidden_under_another_name() {
    let scratch = Scratch::new();
    scratch.put("src/key", "text");
    fs::hard_link(scratch.root().join("src/key"), scratch.root().join("twin")).unwrap();
    symlink("src", scratch.root().join("alias")).unwrap();
    let list = ActionId::parse("files.list").unwrap();
    for (forbidden, expected) in [("src/key", &["alias", "src"][..]), ("alias", &["twin"])] {
        let scope = Scope { forbidden_files: vec![forbidden.to_owned()], ..Scope::default() };
        let context = CallContext { scope, ..crate::builtin::tests::context() };
        let listed = scratch.files.call(&context, &list, &json!({ "recursive": true })).await.unwrap().value;
        let paths: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
        assert_eq!(paths, expected, "{forbidden}");
    }
}

#[tokio::test]
async fn what_was_done_in_another_workspace_is_neither_found_out_nor_touched_in_this_one() {
    for (action, before, path) in CHANGES {
        let id = ActionId::parse(action).unwrap();
        let params = params_of(action, path);
        let theirs = Scratch::new();
        let context = prepared(&theirs, &id, before, path).await;
        let output = theirs.files.call(&context, &id, &params).await.unwrap();
        let evidence = output.evidence.clone().unwrap();
        // This workspace looks as the other did before the change, or after it. Neither says anything about the other workspace.
        for content in [before, Some("after"), None] {
            let ours = Scratch::new();
            if let Some(content) = content {
                ours.put(path, content);
            }
            let seen = picture(ours.folder.path());
            assert_eq!(ours.files.reconcile(&context, &id, &params).await, Ok(Reconciled::Unknown), "{action} on {content:?}");
            assert_eq!(ours.files.revert(&context, &id, &evidence).await, Err(Error::WorkspaceElsewhere), "{action} on {content:?}");
            assert_eq!(ours.files.call(&context, &id, &params).await, Err(Error::WorkspaceElsewhere), "{action} on {content:?}");
            let checks = ours.files.verify(&context, &id, &params, &output).await.unwrap();
            assert!(checks.len() == 1 && !checks[0].ok, "{checks:?}");
            assert!(checks[0].detail.as_ref().unwrap().contains("another workspace than the one this server has"), "{checks:?}");
            assert_eq!(picture(ours.folder.path()), seen, "something was changed");
        }
    }
}

#[tokio::test]
async fn evidence_from_before_workspaces_had_ids_is_taken_as_ours() {
    for (action, before, path) in CHANGES {
        let scratch = Scratch::new();
        let id = ActionId::parse(action).unwrap();
        let params = params_of(action, path);
        let mut context = prepared(&scratch, &id, before, path).await;
        let older = context.prepared.as_mut().unwrap();
        assert!(older.as_object_mut().unwrap().remove("workspace").is_some());
        let older = older.clone();
        assert_eq!(scratch.files.reconcile(&context, &id, &params).await, Ok(Reconciled::DidNot), "{action}");
        scratch.files.call(&context, &id, &params).await.unwrap();
        scratch.files.revert(&context, &id, &older).await.unwrap();
        assert_eq!(fs::read_to_string(scratch.root().join(path)).ok().as_deref(), before, "{action}");
    }
}

#[tokio::test]
async fn what_a_path_can_never_reach_is_told_before_anybody_is_asked() {
    let scratch = Scratch::new();
    let checked_for = async |action: &str, scope: Scope, params: Option<Value>| {
        let action = ActionId::parse(action).unwrap();
        let asked = Asked { action: &action, params: params.as_ref(), scope: &scope, code: None };
        scratch.files.check(asked).await.map_err(|error| error.code())
    };
    let checked = async |scope: Scope, params: Option<Value>| checked_for("files.write_text", scope, params).await;
    for path in OUTSIDE.iter().chain(NOT_ALLOWED) {
        assert!(checked(Scope::default(), Some(json!({ "path": path, "text": "x" }))).await.is_err(), "{path:?}");
    }
    let only_notes = || Scope { allowed_dirs: vec!["notes".into()], ..Scope::default() };
    assert_eq!(checked(only_notes(), Some(json!({ "path": "other.txt" }))).await, Err("outside_scope"));
    // A file that does not exist yet, an action without a path, and params that can no longer be read are accepted.
    assert_eq!(checked(only_notes(), Some(json!({ "path": "notes/new.txt", "text": "x" }))).await, Ok(()));
    assert_eq!(checked_for("files.list", Scope::default(), Some(json!({ "path": "." }))).await, Ok(()));
    assert_eq!(checked_for("files.list", Scope::default(), Some(json!({}))).await, Ok(()));
    assert_eq!(checked(Scope::default(), None).await, Ok(()));
}

#[test]
fn its_actions_and_their_tiers_are_these() {
    let expected = [
        "files.read_text R0 NoEffect Repeatable Unsupported",
        "files.list R0 NoEffect Repeatable Unsupported",
        "files.write_text R2 Reversible Repeatable Supported",
        "files.delete R3 Reversible NotRepeatable Supported",
    ];
    assert_eq!(promised(&BUILTIN), expected);
}
