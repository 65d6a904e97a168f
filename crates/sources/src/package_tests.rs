//! Tests of packages, with a jail that returns prepared results instead of running anything.

use super::*;
use crate::builtin::tests::context;
use crate::web::HostRule;
use crate::workspace::{Folders, Place, Places};
use countersign_core::artifact::{ArtifactKind, ArtifactRetention, ArtifactSpec, Visibility};
use countersign_core::checks::Commands;
use countersign_core::effect::{Check, Scope};
use countersign_core::egress::Request;
use countersign_core::fault::Faults;
use countersign_core::jail::{Confined, Confinement, Ended, Error as JailError, Jail, StagedFile, Turn};
use countersign_core::ports::sources::{Variable, VariableValue};
use countersign_core::source::{AfterError, CallContext, Error, OrgSources, Output, Past, Reconciled, Source, SourceRegistry};
use countersign_core::{ActionId, Future, SourceId};
use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use testkit::SeededRandom;

#[path = "package/alias_tests.rs"]
mod aliases;
#[path = "package/escape_tests.rs"]
mod escapes;
#[path = "package/swap_tests.rs"]
mod swaps;

/// A jail that returns what it was given, and remembers what it was asked to run.
#[derive(Default)]
struct Puppet {
    stdout: Mutex<String>,
    staged: Mutex<Vec<StagedFile>>,
    asked: Mutex<Vec<Confinement>>,
    /// Whether it refuses every run as busy.
    is_crowded: AtomicBool,
}

impl Jail for Puppet {
    fn confine(&self, what: Confinement) -> Future<'_, Result<Confined, JailError>> {
        self.asked.lock().push(what);
        if self.is_crowded.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(JailError::Busy { message: "as many programs run as may at once".to_owned() })));
        }
        let confined = Confined {
            ended: Ended::Exited(0),
            stdout: self.stdout.lock().clone().into_bytes(),
            is_cut: false,
            log: String::new(),
            cpu_ms: 5,
            facts: json!({}),
            staged: Ok(self.staged.lock().clone()),
        };
        Box::pin(std::future::ready(Ok(confined)))
    }
}

struct NoCommands;

impl Commands for NoCommands {
    fn refusal(&self, _command: &str, _scope: &Scope) -> Option<String> {
        Some("none is allowed".to_owned())
    }

    fn run<'a>(&'a self, _context: &'a CallContext, _whose: &'a str, command: &'a str) -> Future<'a, Result<Check, Error>> {
        Box::pin(std::future::ready(Ok(Check::failed(command, "none is allowed"))))
    }
}

struct Bench {
    folder: tempfile::TempDir,
    puppet: Arc<Puppet>,
    packages: Packages,
}

fn files(tier: &str) -> PackageFiles {
    files_of(json!({
        "name": "act", "riskTier": tier, "permissions": { "filesystem": "workspace" },
        "verification": { "required": true }, "rollback": { "required": true }
    }))
}

fn files_of(manifest: Value) -> PackageFiles {
    let file = |text: &str| PackageFile { bytes: text.as_bytes().into(), is_executable: false };
    [("action.json", manifest.to_string().as_str()), ("execute.py", "pass"), ("verify.py", "pass")]
        .map(|(name, text)| (format!("actions/act/{name}"), file(text)))
        .into()
}

fn bench(tier: &str) -> Bench {
    let puppet = Arc::new(Puppet::default());
    let bench = Bench { puppet: Arc::clone(&puppet), ..open_bench(puppet, Vec::new()) };
    bench.packages.install("kit", &files(tier)).unwrap();
    bench
}

/// Opens a place with a workspace id of its own.
fn open_place(folder: &std::path::Path) -> Place {
    Place::open(&folder.join("workspace"), &folder.join("snapshots"), &another_random()).unwrap()
}

/// Draws other workspace ids than those before it.
fn another_random() -> SeededRandom {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    SeededRandom::new(OPENED.fetch_add(1, Ordering::SeqCst))
}

fn open_bench(jail: Arc<dyn Jail>, allowed_hosts: Vec<HostRule>) -> Bench {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let places = Places::open(Folders::below(folder.path()), Arc::new(another_random()), &Faults::default()).unwrap();
    let packages = Packages::open(PackagesConfig {
        folder: folder.path().join("packages"),
        places: Arc::new(places),
        jail,
        commands: Arc::new(NoCommands),
        may_run_code: true,
        allowed_hosts,
        allowed_networks: vec!["127.0.0.1/32".parse().unwrap()],
        taken: Vec::new(),
        check_schema: |_| Ok(()),
    })
    .unwrap();
    Bench { folder, puppet: Arc::default(), packages }
}

impl Bench {
    fn sources(&self) -> OrgSources {
        self.packages.sources(&context().org).now_or_never().unwrap()
    }

    fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.sources()[0])
    }

    async fn context(&self) -> CallContext {
        let listed = self.source().list(&context().org).await.unwrap();
        CallContext { code: listed[0].package_sha256, ..context() }
    }

    /// Sets what the next run leaves on its stage, and what it prints.
    fn will_leave(&self, staged: &[(&str, &str)], answer: Value) {
        let file = |(path, text): &(&str, &str)| StagedFile { path: (*path).to_owned(), bytes: text.as_bytes().to_vec(), mode: 0o644 };
        *self.puppet.staged.lock() = staged.iter().map(file).collect();
        *self.puppet.stdout.lock() = answer.to_string();
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.folder.path().join("workspace").join(path), text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("workspace").join(path)).ok()
    }
}

fn act() -> ActionId {
    ActionId::parse("kit.act").unwrap()
}

#[tokio::test]
async fn a_dry_run_says_what_could_be_executed_or_is_run_unasked() {
    let bench = bench("R2");
    bench.write("gone.sh", "old");
    bench.write("tool", "old");
    std::fs::set_permissions(bench.folder.path().join("workspace/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    bench.will_leave(
        &[(".git/hooks/pre-push", "new"), ("run.sh", "new"), ("tool", "new"), ("a", "new")],
        json!({ "output": {}, "deletes": ["gone.sh"] }),
    );
    bench.puppet.staged.lock()[1].mode = 0o700;
    let foreseen = bench.source().preview(&bench.context().await, &act(), &json!({})).await.unwrap().value;
    let told = |change: &Value| (change["path"].as_str().unwrap().to_owned(), change["warnings"].clone());
    let executable = json!(["it is an executable file"]);
    let expected = [
        (".git/hooks/pre-push", json!(["git may run it without being asked (`.git`)"])),
        ("run.sh", executable.clone()),
        ("tool", executable),
        ("a", Value::Null),
        ("gone.sh", Value::Null),
    ];
    let found: Vec<_> = foreseen["changes"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(found, expected.map(|(path, warnings)| (path.to_owned(), warnings)));
}

#[tokio::test]
async fn a_change_is_whole_or_not_at_all_and_what_a_crash_left_half_is_finished() {
    let bench = bench("R2");
    bench.write("a", "old");
    bench.write("c", "old");
    bench.will_leave(&[("a", "new"), ("b", "new")], json!({ "output": { "n": 1 }, "deletes": ["c"] }));
    let mut context = bench.context().await;
    let source = bench.source();
    context.prepared = source.prepare(&context, &act(), &json!({})).await.unwrap();
    assert_eq!((bench.read("a"), bench.read("b")), (Some("old".to_owned()), None), "preparing changed something");
    assert_eq!(source.reconcile(&context, &act(), &json!({})).await.unwrap(), Reconciled::DidNot);
    // Half of the change is there: reconciling makes the rest.
    bench.write("a", "new");
    let Reconciled::Happened(output) = source.reconcile(&context, &act(), &json!({})).await.unwrap() else { panic!("it was half-made") };
    assert_eq!(output.value, json!({ "n": 1 }));
    let held = || (bench.read("a"), bench.read("b"), bench.read("c"));
    assert_eq!(held(), (Some("new".to_owned()), Some("new".to_owned()), None));
    let evidence = context.prepared.clone().unwrap();
    source.revert(&context, &act(), &evidence).await.unwrap();
    source.revert(&context, &act(), &evidence).await.unwrap();
    assert_eq!(held(), (Some("old".to_owned()), None, Some("old".to_owned())));
    // Somebody else's content is not overwritten, and no part of the change is made.
    bench.write("c", "theirs");
    assert_eq!(source.call(&context, &act(), &json!({})).await.unwrap_err().code(), "content_changed");
    assert_eq!(held(), (Some("old".to_owned()), None, Some("theirs".to_owned())));
    assert_eq!(source.reconcile(&context, &act(), &json!({})).await.unwrap(), Reconciled::Unknown);
}

#[tokio::test]
async fn a_script_that_had_no_turn_to_look_has_not_said_no() {
    let bench = bench("R2");
    bench.will_leave(&[("a", "new")], json!({ "output": {} }));
    let mut context = bench.context().await;
    let source = bench.source();
    context.prepared = source.prepare(&context, &act(), &json!({})).await.unwrap();
    let output = source.call(&context, &act(), &json!({})).await.unwrap();
    bench.puppet.is_crowded.store(true, Ordering::SeqCst);
    let error = source.verify(&context, &act(), &json!({}), &output).await.unwrap_err();
    assert_eq!(error.why_no_turn(), Some("as many programs run as may at once"));
    // The turn belongs to this package, so the checks of others do not wait for it.
    let turn = bench.puppet.asked.lock().last().unwrap().turn.clone();
    assert_eq!(turn, Turn::Afterwards { whose: "kit".to_owned() });
    bench.puppet.is_crowded.store(false, Ordering::SeqCst);
    bench.will_leave(&[], json!({ "ok": true }));
    let checks = source.verify(&context, &act(), &json!({}), &output).await.unwrap();
    assert!(checks.len() == 2 && checks.iter().all(|check| check.ok), "{checks:?}");
}

#[tokio::test]
async fn how_good_an_answer_is_its_script_may_say_whether_it_reads_or_writes() {
    for (tier, said, thousandths) in [("R1", json!(0.25), 250), ("R1", json!(1), 1_000), ("R2", json!(0.8), 800)] {
        let bench = bench(tier);
        bench.will_leave(&[], json!({ "output": {}, "quality": said }));
        let mut context = bench.context().await;
        context.prepared = match tier {
            "R2" => bench.source().prepare(&context, &act(), &json!({})).await.unwrap(),
            _ => None,
        };
        let output = bench.source().call(&context, &act(), &json!({})).await.unwrap();
        assert_eq!(output.quality_thousandths, thousandths, "{tier} {said}");
    }
}

#[tokio::test]
async fn what_lies_outside_or_is_not_allowed_is_refused_before_anything_is_kept() {
    let bench = bench("R2");
    let source = bench.source();
    for (staged, deletes, code) in [
        (&[("../x", "x")][..], json!([]), "path_outside_workspace"),
        (&[("/x", "x")], json!([]), "path_outside_workspace"),
        (&[(".countersign-x", "x")], json!([]), "path_not_allowed"),
        (&[("secret/x", "x")], json!([]), "outside_scope"),
        (&[], json!(["nothing"]), "file_not_found"),
        (&[("x", "x")], json!(["x"]), "package_stage_refused"),
        (&[], json!("x"), "package_bad_output"),
        (&[], json!({ "output": 1, "quality": 1.01 }), "package_bad_output"),
        (&[], json!({ "output": 1, "quality": -0.1 }), "package_bad_output"),
        (&[], json!({ "output": 1, "quality": "good" }), "package_bad_output"),
    ] {
        bench.will_leave(staged, json!({ "output": {}, "deletes": deletes }));
        let scope = Scope { forbidden_files: vec!["secret".to_owned()], ..Scope::default() };
        let context = CallContext { scope, ..bench.context().await };
        let error = source.prepare(&context, &act(), &json!({})).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    assert_eq!(std::fs::read_dir(bench.folder.path().join("snapshots")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_read_may_not_write_and_other_code_is_not_run() {
    let bench = bench("R1");
    let source = bench.source();
    bench.will_leave(&[("x", "x")], json!({ "output": {} }));
    let context = bench.context().await;
    assert_eq!(source.call(&context, &act(), &json!({})).await.unwrap_err().code(), "package_may_not_write");
    bench.will_leave(&[], json!({ "output": { "seen": 1 } }));
    assert_eq!(source.call(&context, &act(), &json!({ "key": "value" })).await.unwrap().value, json!({ "seen": 1 }));
    assert_eq!(context.meter.cpu_ms(), Some(10));
    let asked = bench.puppet.asked.lock().last().cloned().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&asked.stdin).unwrap()["input"], json!({ "key": "value" }));
    assert!(asked.inputs.iter().any(|input| input.path.ends_with("package/execute.py")), "{asked:?}");
    let other = CallContext { code: None, ..context };
    assert_eq!(source.call(&other, &act(), &json!({})).await.unwrap_err().code(), "package_changed");
}

#[tokio::test]
async fn a_package_is_replaced_whole_and_its_digest_tells() {
    let bench = bench("R2");
    let before = bench.context().await.code;
    let mut files = files("R2");
    files.insert("actions/act/more.txt".to_owned(), PackageFile { bytes: b"x".as_slice().into(), is_executable: false });
    bench.packages.install("kit", &files).unwrap();
    assert_ne!(bench.context().await.code, before);
    assert!(matches!(bench.packages.install("../kit", &files), Err(Refused::Invalid { .. })));
    files.insert("../outside".to_owned(), PackageFile { bytes: b"x".as_slice().into(), is_executable: false });
    assert!(matches!(bench.packages.install("kit", &files), Err(Refused::Invalid { .. })));
    assert_eq!(bench.packages.remove("kit"), Ok(true));
    assert_eq!(bench.packages.remove("kit"), Ok(false));
    assert!(bench.sources().is_empty());
    // Only copies for a later diff are left.
    let left = std::fs::read_dir(bench.folder.path().join("packages")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), [super::kept::FOLDER]);
}

#[tokio::test]
async fn a_package_can_be_an_mcp_server_alone_and_its_program_has_the_files_that_were_hashed() {
    let (allowed, other) = ("http://127.0.0.1:9", "http://127.0.0.1:10");
    let bench = open_bench(Arc::new(Puppet::default()), vec![allowed.parse().unwrap()]);
    let files = |host: &str, script: &str| -> PackageFiles {
        let command = ["python3", "server.py", "--data", "data.json", "more.json"];
        let manifest = json!({ "command": command, "env": ["TOKEN"], "hosts": [host], "filesystem": "workspace", "memoryMb": 64 });
        [("mcp.json", manifest.to_string().as_str()), ("server.py", script), ("data.json", "{}")]
            .map(|(path, text)| (path.to_owned(), PackageFile { bytes: text.as_bytes().into(), is_executable: false }))
            .into()
    };
    let id = SourceId::parse("kit").unwrap();
    let why_not = || bench.packages.server(&id).err().unwrap().code();
    assert_eq!(why_not(), "package_missing");
    assert_eq!(bench.packages.install("kit", &files(allowed, "pass")).unwrap().len(), 0);
    let server = bench.packages.server(&id).unwrap();
    assert_eq!(server.digest(), Packages::digest(&files(allowed, "pass")));
    let variable = |name: &str| [Variable { name: name.to_owned(), value: VariableValue::Value(String::new()) }];
    assert!(server.check_variables(&variable("TOKEN")).is_ok());
    assert_eq!(server.check_variables(&variable("PATH")).unwrap_err().code(), "package_invalid");

    // What happens on the disk meanwhile is other code, which the server that was read does not run.
    std::fs::write(bench.folder.path().join("packages/kit/server.py"), "raise").unwrap();
    let program = server.program().await.unwrap();
    assert_eq!(program.args, ["-I", "-S", "-B", "/package/server.py", "--data", "/package/data.json", "more.json"]);
    let given: Vec<_> = program.inputs.iter().map(|input| (input.path.to_str().unwrap(), &*input.bytes)).collect();
    assert!(given.contains(&("/package/server.py", b"pass".as_slice())) && given.len() == 3, "{given:?}");
    assert!(program.read_only.iter().any(|(_, jail)| jail.to_str() == Some("/workspace")));
    assert_eq!((program.memory_bytes, server.way_out(&id).is_some(), server.cannot_run().await), (64 << 20, true, None));
    let edited = bench.packages.server(&id).unwrap();
    assert_ne!(edited.digest(), server.digest());
    let changes = bench.packages.server_changes(&id, server.digest()).unwrap();
    assert_eq!(changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["server.py"]);

    bench.packages.install("kit", &files(other, "pass")).unwrap();
    let unreachable = bench.packages.server(&id).unwrap();
    assert_eq!(unreachable.program().await.err().unwrap().code(), "package_network_not_allowed");
    assert!(unreachable.cannot_run().await.unwrap().contains("package_allowed_hosts"));
    bench.packages.install("kit", &self::files("R2")).unwrap();
    assert_eq!(why_not(), "package_invalid");
}

#[test]
fn what_changes_on_the_disk_changes_the_revision() {
    let bench = bench("R2");
    let (source, manifest) = (bench.source(), bench.folder.path().join("packages/kit/actions/act/action.json"));
    let (before, text) = (source.revision(), std::fs::read_to_string(&manifest).unwrap());
    assert_eq!(source.revision(), before);
    std::fs::write(&manifest, text.replace("R2", "R3")).unwrap();
    let changed = source.revision();
    std::fs::write(&manifest, "no manifest").unwrap();
    let broken = source.revision();
    std::fs::write(&manifest, text).unwrap();
    let mended = source.revision();
    assert_eq!(std::collections::BTreeSet::from([before, changed, broken, mended]).len(), 4);
    assert_eq!(source.revision(), mended);
}

#[test]
fn what_is_both_a_file_and_a_folder_is_a_mistake_of_the_package() {
    let bench = bench("R2");
    let mut files = files("R2");
    for path in ["data", "data/deep", "data/deep/one", "data/deep/two"] {
        files.insert(path.to_owned(), PackageFile { bytes: b"x".as_slice().into(), is_executable: false });
    }
    let refused = bench.packages.install("kit", &files);
    let Err(Refused::Invalid { mistakes, .. }) = refused else { panic!("{refused:?}") };
    let said: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
    let both = "it is a file, and a folder with files in it besides";
    assert_eq!(said, [format!("data: {both}"), format!("data/deep: {both}")]);
    assert_eq!(bench.packages.list().len(), 1, "what was installed before is there");
}

#[tokio::test]
async fn a_package_that_cannot_be_removed_is_still_there_and_can_be_used() {
    let bench = bench("R2");
    // Something that is no folder is in the place to which the package would be moved.
    let in_the_way = bench.folder.path().join("packages/.gone-kit");
    std::fs::write(&in_the_way, "").unwrap();
    let refused = bench.packages.remove("kit");
    assert!(matches!(&refused, Err(error @ Refused::Disk { .. }) if error.to_string().ends_with("nothing was changed")), "{refused:?}");
    assert!(bench.packages.list()[0].actions.is_ok());
    assert_eq!(bench.source().list(&context().org).await.unwrap().len(), 1);
    std::fs::remove_file(&in_the_way).unwrap();
    assert_eq!(bench.packages.remove("kit"), Ok(true));
    assert!(bench.packages.list().is_empty());
}

#[tokio::test]
async fn a_manifest_says_which_artifacts_its_action_makes() {
    let image = ArtifactSpec { visibility: Visibility::Private, ..ArtifactSpec::of(ArtifactKind::Image) };
    let document = ArtifactSpec { retention: ArtifactRetention::Permanent, ..ArtifactSpec::of(ArtifactKind::Document) };
    for (makes, expected) in [
        (None, Ok(vec![])),
        (Some(json!([])), Ok(vec![])),
        (
            Some(json!([{ "kind": "image", "visibility": "private" }, { "kind": "document", "retention": "permanent" }])),
            Ok(vec![image, document]),
        ),
        (Some(json!(true)), Err("/producesArtifacts")),
        (Some(json!(["image"])), Err("/producesArtifacts/0")),
        (Some(json!([{ "kind": "film" }])), Err("/producesArtifacts/0/kind")),
        (Some(json!([{ "retention": "default" }])), Err("/producesArtifacts/0/kind")),
        (Some(json!([{ "kind": "data", "for": "all" }])), Err("/producesArtifacts/0/for")),
        (Some(json!([{ "kind": "data" }, { "kind": "data" }])), Err("/producesArtifacts")),
    ] {
        let bench = bench("R2");
        let mut manifest = json!({
            "name": "act", "riskTier": "R2", "permissions": { "filesystem": "workspace" },
            "verification": { "required": true }, "rollback": { "required": true }
        });
        if let Some(makes) = &makes {
            manifest["producesArtifacts"] = makes.clone();
        }
        let installed = bench.packages.install("kit", &files_of(manifest));
        match expected {
            Ok(expected) => {
                installed.unwrap();
                let listed = bench.source().list(&context().org).await.unwrap();
                assert_eq!(listed[0].produces_artifacts, expected, "{makes:?}");
            }
            Err(place) => {
                let refused = format!("{:?}", installed.unwrap_err());
                assert!(refused.contains(&format!("{place:?}")), "{makes:?}: {refused}");
            }
        }
    }
}

#[test]
fn a_package_whose_folder_somebody_took_away_can_be_removed() {
    let bench = bench("R2");
    std::fs::remove_dir_all(bench.folder.path().join("packages/kit")).unwrap();
    assert_eq!((bench.packages.remove("kit"), bench.packages.remove("kit")), (Ok(true), Ok(false)));
}

#[tokio::test]
async fn an_effect_is_taken_back_by_what_was_kept_once_its_package_is_another_or_gone() {
    type Change = fn(&Bench);
    let changes: [Change; 3] = [
        |bench| assert_eq!(bench.packages.remove("kit"), Ok(true)),
        |bench| drop(bench.packages.install("kit", &files("R3")).unwrap()),
        |bench| std::fs::remove_dir_all(bench.folder.path().join("packages/kit")).unwrap(),
    ];
    for change in changes {
        let bench = bench("R2");
        bench.write("a", "old");
        bench.will_leave(&[("a", "new"), ("b", "new")], json!({ "output": {} }));
        let definition = bench.source().list(&context().org).await.unwrap().remove(0);
        let mut context = bench.context().await;
        context.prepared = bench.source().prepare(&context, &act(), &json!({})).await.unwrap();
        let evidence = context.prepared.clone().unwrap();
        bench.source().call(&context, &act(), &json!({})).await.unwrap();
        change(&bench);
        let runs = bench.puppet.asked.lock().len();
        let Past { source: past, action } = bench.packages.past(&context.org, &act(), &evidence).await.unwrap();
        assert_eq!(action, definition);
        // It can only revert and reconcile.
        assert!(matches!(past.reconcile(&context, &act(), &json!({})).await, Ok(Reconciled::Happened(_))));
        assert_eq!(past.prepare(&context, &act(), &json!({})).await.unwrap_err().code(), "unknown_action");
        assert_eq!(past.call(&context, &act(), &json!({})).await.unwrap_err().code(), "unknown_action");
        assert_eq!(past.preview(&context, &act(), &json!({})).await.unwrap_err().code(), "unknown_action");
        assert_eq!(past.list(&context.org).await.unwrap(), []);
        past.revert(&context, &act(), &evidence).await.unwrap();
        assert_eq!((bench.read("a").as_deref(), bench.read("b")), (Some("old"), None));
        assert_eq!(bench.puppet.asked.lock().len(), runs, "code was run");
    }
}

#[tokio::test]
async fn for_a_space_with_members_a_package_sees_and_changes_the_workspace_of_that_space_alone() {
    let bench = bench("R2");
    bench.write("a", "for all");
    bench.will_leave(&[("a", "new")], json!({ "output": {} }));
    let opened = bench.context().await;
    let mut closed = CallContext { has_own_workspace: true, ..opened.clone() };
    closed.prepared = bench.source().prepare(&closed, &act(), &json!({})).await.unwrap();
    let evidence = closed.prepared.clone().unwrap();
    bench.source().call(&closed, &act(), &json!({})).await.unwrap();
    let output = Output::new(json!({}));
    bench.will_leave(&[], json!({ "ok": true }));
    assert!(bench.source().verify(&closed, &act(), &json!({}), &output).await.unwrap().iter().all(|check| check.ok));
    let own = bench.folder.path().canonicalize().unwrap().join("spaces").join(closed.space.as_str()).join("workspace");
    assert_eq!((bench.read("a").as_deref(), std::fs::read_to_string(own.join("a")).unwrap().as_str()), (Some("for all"), "new"));
    for asked in bench.puppet.asked.lock().iter() {
        let shown: Vec<_> = asked.read_only.iter().filter(|(_, jail)| jail.ends_with("workspace")).map(|(host, _)| host.clone()).collect();
        assert_eq!(shown, std::slice::from_ref(&own));
    }
    // It is reverted where it was made, also without the package, and after its space was opened.
    assert_eq!(bench.packages.remove("kit"), Ok(true));
    let Past { source: past, .. } = bench.packages.past(&opened.org, &act(), &evidence).await.unwrap();
    past.revert(&opened, &act(), &evidence).await.unwrap();
    assert_eq!((bench.read("a").as_deref(), own.join("a").exists()), (Some("for all"), false));
}

#[tokio::test]
async fn what_was_kept_of_no_definition_or_of_one_that_is_lost_is_no_past() {
    let bench = bench("R2");
    bench.will_leave(&[("a", "new")], json!({ "output": {} }));
    let context = bench.context().await;
    let evidence = bench.source().prepare(&context, &act(), &json!({})).await.unwrap().unwrap();
    assert!(bench.packages.past(&context.org, &act(), &evidence).await.is_some());
    let mut without = evidence.clone();
    without.as_object_mut().unwrap().remove("definition_sha256");
    let digest = evidence["definition_sha256"].as_str().unwrap();
    let kept = bench.folder.path().join("snapshots").join(digest);
    let text = std::fs::read_to_string(&kept).unwrap();
    for changed in [without, json!({}), json!({ "definition_sha256": digest })] {
        assert!(bench.packages.past(&context.org, &act(), &changed).await.is_none(), "{changed}");
    }
    std::fs::write(&kept, text.replace("R2", "R1")).unwrap();
    assert!(bench.packages.past(&context.org, &act(), &evidence).await.is_none(), "a definition that was changed on the disk was taken");
    // The next call keeps it whole again.
    bench.source().prepare(&context, &act(), &json!({})).await.unwrap();
    assert!(bench.packages.past(&context.org, &act(), &evidence).await.is_some());
}

/// A jail that sends one request in place of a script, and then reports this end.
struct Sender {
    request: Request,
    /// If set, it does not wait for the answer, but only until the server has received the request.
    heard: Option<Arc<tokio::sync::Notify>>,
    ended: Result<Ended, JailError>,
    runs: Mutex<u32>,
}

impl Jail for Sender {
    fn confine(&self, what: Confinement) -> Future<'_, Result<Confined, JailError>> {
        *self.runs.lock() += 1;
        Box::pin(async move {
            let egress = what.egress.unwrap();
            let asking = egress.request(self.request.clone());
            match &self.heard {
                Some(heard) => tokio::select! { answer = asking => panic!("{answer:?}"), () = heard.notified() => {} },
                None => drop(asking.await),
            }
            let stdout = json!({ "output": {} }).to_string().into_bytes();
            let (facts, log) = (json!({}), String::new());
            let ended = self.ended.clone()?;
            Ok(Confined { ended, stdout, is_cut: false, log, cpu_ms: 1, facts, staged: Ok(Vec::new()) })
        })
    }
}

fn lost() -> JailError {
    JailError::Lost { message: "a descriptor broke".to_owned() }
}

/// A server that reads the request, reports that, and answers or stays silent.
async fn listen(answers: bool) -> (u16, Arc<tokio::sync::Notify>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(tokio::sync::Notify::new()));
    let tell = Arc::clone(&heard);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let _read = connection.read(&mut [0; 4096]).await;
            if answers {
                let _gone = connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            }
            tell.notify_one();
            kept.push(connection);
        }
    });
    (port, heard)
}

#[tokio::test]
async fn what_is_sent_and_not_heard_of_again_is_in_doubt_and_what_was_never_sent_is_not() {
    let (answering, _) = listen(true).await;
    let (silent, heard) = listen(false).await;
    let nobody = testkit::nobody().port();
    for (port, method, heard, ended, ends) in [
        (answering, "POST", None, Ok(Ended::Exited(0)), "ok"),
        (answering, "POST", None, Ok(Ended::Exited(1)), "source_broke"),
        (answering, "POST", None, Ok(Ended::OutOfMemory), "source_broke"),
        (answering, "POST", None, Ok(Ended::TimedOut), "source_timed_out"),
        (answering, "GET", None, Ok(Ended::Exited(1)), "package_failed"),
        // The script ended well, but did not wait to learn whether its request was performed.
        (silent, "POST", Some(&heard), Ok(Ended::Exited(0)), "source_broke"),
        (silent, "GET", Some(&heard), Ok(Ended::Exited(0)), "ok"),
        (nobody, "POST", None, Ok(Ended::Exited(1)), "package_failed"),
        (nobody, "POST", None, Ok(Ended::TimedOut), "package_timed_out"),
        (1, "POST", None, Ok(Ended::Exited(1)), "package_failed"),
        // Nobody saw how the run ended.
        (answering, "POST", None, Err(lost()), "source_broke"),
        (answering, "GET", None, Err(lost()), "package_lost"),
        (nobody, "POST", None, Err(lost()), "package_lost"),
    ] {
        let host = format!("http://127.0.0.1:{port}");
        let request = Request { method: method.to_owned(), url: format!("{host}/"), headers: Vec::new(), body: Vec::new() };
        let sender = Arc::new(Sender { request, heard: heard.cloned(), ended: ended.clone(), runs: Mutex::default() });
        let allowed = [answering, silent, nobody].map(|port| format!("http://127.0.0.1:{port}").parse().unwrap());
        let bench = open_bench(Arc::clone(&sender) as Arc<dyn Jail>, allowed.to_vec());
        let declared = if port == 1 { format!("http://127.0.0.1:{answering}") } else { host };
        bench
            .packages
            .install(
                "kit",
                &files_of(json!({ "name": "act", "riskTier": "R3", "hosts": [declared], "verification": { "required": true } })),
            )
            .unwrap();
        let context = bench.context().await;
        let source = bench.source();
        assert_eq!(source.prepare(&context, &act(), &json!({})).await.unwrap(), None);
        assert_eq!(*sender.runs.lock(), 0, "code ran before the intent");
        let preview = source.preview(&context, &act(), &json!({})).await.unwrap_err();
        assert_eq!((preview.code(), *sender.runs.lock()), ("dry_run_unsupported", 0));
        let answer = source.call(&context, &act(), &json!({})).await;
        let code = answer.as_ref().map_or_else(|error| error.code(), |_| "ok");
        assert_eq!(code, ends, "{port} {method} {ended:?}: {answer:?}");
        let after = answer.err().map(|error| error.after());
        let is_in_doubt = after == Some(AfterError::Unknown);
        assert_eq!(is_in_doubt, ends.starts_with("source_"), "{port} {method} {ended:?}");
        // Whether or not it was aborted, a request that was sent is counted.
        let counted: Vec<_> = context.meter.traffic().iter().map(|host| (host.made, host.refused)).collect();
        assert_eq!(counted, [if port == 1 { (0, 1) } else { (1, 0) }], "{port} {method} {ended:?}");
    }
}

/// A jail that loses every run.
struct Loses;

impl Jail for Loses {
    fn confine(&self, _what: Confinement) -> Future<'_, Result<Confined, JailError>> {
        Box::pin(std::future::ready(Err(lost())))
    }
}

#[tokio::test]
async fn a_run_that_was_lost_is_a_failure_that_changed_nothing_and_is_not_tried_again() {
    let bench = open_bench(Arc::new(Loses), Vec::new());
    bench.packages.install("kit", &files("R2")).unwrap();
    bench.write("a", "old");
    let seen = escapes::held(bench.folder.path());
    let error = bench.source().prepare(&bench.context().await, &act(), &json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.after(), error.was_not_taken_up()), ("package_lost", AfterError::NoEffect, false));
    let said = "`execute.py` of `kit.act` may have run, and how it went was lost: a descriptor broke; nothing was changed";
    assert_eq!(error.to_string(), said);
    assert_eq!(escapes::held(bench.folder.path()), seen);
}

/// A jail in which every run ends like this, with this log.
struct Ends(Ended, &'static str);

impl Jail for Ends {
    fn confine(&self, _what: Confinement) -> Future<'_, Result<Confined, JailError>> {
        let (ended, log) = (self.0, self.1.to_owned());
        let (facts, staged) = (json!({}), Ok(Vec::new()));
        Box::pin(std::future::ready(Ok(Confined { ended, stdout: Vec::new(), is_cut: false, log, cpu_ms: 1, facts, staged })))
    }
}

#[tokio::test]
async fn a_script_that_was_ended_is_named_and_the_time_is_said_that_it_had() {
    let bench = open_bench(Arc::new(Ends(Ended::TimedOut, "counting")), Vec::new());
    bench.packages.install("kit", &files("R2")).unwrap();
    for (timeout_ms, said) in [
        (30_000, "did not end within 29000 ms: of the 30000 ms of its `timeoutMs`, 1000 ms are for what comes after it"),
        (1_000, "did not end within 800 ms: of the 1000 ms this call has, 200 ms are for what comes after it"),
    ] {
        let context = CallContext { timeout_ms, ..bench.context().await };
        let error = bench.source().prepare(&context, &act(), &json!({})).await.unwrap_err();
        let expected = format!("`execute.py` of `kit.act` {said}, saying `counting`; nothing was changed");
        assert_eq!((error.code(), error.to_string()), ("package_timed_out", expected));
    }
}

#[tokio::test]
async fn a_verdict_that_did_not_come_names_its_script_and_quotes_it_as_it_spoke() {
    let bench = open_bench(Arc::new(Ends(Ended::Exited(1), r#"Error: it's not "x""#)), Vec::new());
    bench.packages.install("kit", &files("R2")).unwrap();
    let checks = bench.source().verify(&bench.context().await, &act(), &json!({}), &Output::new(json!({}))).await.unwrap();
    let why = r#"`verify.py` of `kit.act` ended with code 1, saying `Error: it's not "x"`"#;
    assert_eq!(checks, [Check::failed("verify", why)]);
    let says_no = verdict_on(&json!({ "ok": false })).await;
    assert_eq!(says_no, [Check::failed("verify", "`verify.py` says no")]);
    let unreadable = verdict_on(&json!({ "fine": true })).await;
    assert!(unreadable[0].detail.as_ref().unwrap().starts_with("the verdict of `verify.py` does not read: "), "{unreadable:?}");
}

/// The checks of a verification whose script prints this verdict.
async fn verdict_on(verdict: &Value) -> Vec<Check> {
    let bench = bench("R2");
    *bench.puppet.stdout.lock() = verdict.to_string();
    bench.source().verify(&bench.context().await, &act(), &json!({}), &Output::new(json!({}))).await.unwrap()
}

#[tokio::test]
async fn what_a_package_did_in_another_workspace_is_neither_found_out_nor_touched_in_this_one() {
    let theirs = bench("R2");
    theirs.write("a", "old");
    theirs.will_leave(&[("a", "new"), ("b", "new")], json!({ "output": { "n": 1 } }));
    let mut context = theirs.context().await;
    context.prepared = theirs.source().prepare(&context, &act(), &json!({})).await.unwrap();
    let output = theirs.source().call(&context, &act(), &json!({})).await.unwrap();
    let evidence = output.evidence.clone().unwrap();
    // As the other workspace was before the change, half-way through it, and after it.
    for (a, b) in [("old", None), ("new", None), ("new", Some("new"))] {
        let ours = bench("R2");
        ours.write("a", a);
        if let Some(b) = b {
            ours.write("b", b);
        }
        let seen = escapes::held(ours.folder.path());
        let source = ours.source();
        assert_eq!(source.reconcile(&context, &act(), &json!({})).await, Ok(Reconciled::Unknown), "{a}, {b:?}");
        assert_eq!(source.revert(&context, &act(), &evidence).await, Err(Error::WorkspaceElsewhere), "{a}, {b:?}");
        assert_eq!(source.check_revert(&context, &act(), &evidence).await, Err(Error::WorkspaceElsewhere), "{a}, {b:?}");
        assert_eq!(source.call(&context, &act(), &json!({})).await, Err(Error::WorkspaceElsewhere), "{a}, {b:?}");
        let checks = source.verify(&context, &act(), &json!({}), &output).await.unwrap();
        assert!(checks.len() == 1 && !checks[0].ok, "{checks:?}");
        assert!(checks[0].detail.as_ref().unwrap().contains("another workspace than the one this server has"), "{checks:?}");
        assert!(ours.puppet.asked.lock().is_empty(), "code ran that could only have looked at the wrong files");
        assert_eq!(escapes::held(ours.folder.path()), seen, "something was changed");
    }
    // A journal from before workspaces had ids counts as ours.
    let mut older = evidence.clone();
    assert!(older.as_object_mut().unwrap().remove("workspace").is_some());
    theirs.source().revert(&context, &act(), &older).await.unwrap();
    assert_eq!((theirs.read("a"), theirs.read("b")), (Some("old".to_owned()), None));
}
