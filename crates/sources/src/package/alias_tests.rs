//! `fs_forbidden_by_alias` of the escape corpus: a forbidden file must stay out of reach under every other name it can have.

use super::*;
use crate::workspace::path::WorkspacePath;
use crate::workspace::root::Spelling;
use crate::workspace::scope::check_scope;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Set when this test binary runs inside the namespaces made for it.
const INSIDE: &str = "COUNTERSIGN_TEST_INSIDE";

struct Ground {
    folder: tempfile::TempDir,
    place: Place,
}

impl Ground {
    /// A workspace with a forbidden file, a forbidden folder, and a folder that is not forbidden.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join("workspace").join(path);
        std::fs::create_dir_all(at("secret/deep")).unwrap();
        std::fs::create_dir_all(at("free/inner")).unwrap();
        for path in ["secret/deep/key", "secret/key", ".env", "free/a"] {
            std::fs::write(at(path), "before").unwrap();
        }
        let place = open(folder.path());
        Self { folder, place }
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("workspace").join(path)
    }

    #[track_caller]
    fn check(&self, forbidden: &[&str], path: &str, expected: &str) {
        let scope = Scope { forbidden_files: forbidden.iter().map(|text| (*text).to_owned()).collect(), ..Scope::default() };
        let found = WorkspacePath::parse(path).and_then(|path| check_scope(&self.place, &scope, &path));
        assert_eq!(found.map_or_else(|error| error.code(), |()| "permitted"), expected, "`{path}` with {forbidden:?} forbidden");
    }
}

fn open(folder: &Path) -> Place {
    open_place(folder)
}

const FORBIDDEN: &[&str] = &["secret", ".env"];

#[test]
fn fs_forbidden_by_alias_of_spelling() {
    let ground = Ground::new();
    for path in ["secret/key", "secret/deep/key", "secret/new", "secret", ".env"] {
        ground.check(FORBIDDEN, path, "outside_scope");
    }
    for path in ["free/a", "free/new/b", "secrets", ".env.example"] {
        ground.check(FORBIDDEN, path, "permitted");
    }
    // Each file has exactly one accepted path, so these spellings are refused.
    for path in ["secret//key", "./secret/key", "secret/./key", "free/../secret/key", "//secret/key"] {
        let expected = if path.contains("..") || path.starts_with('/') { "path_outside_workspace" } else { "path_not_allowed" };
        ground.check(FORBIDDEN, path, expected);
    }
    // A forbidden path in the scope may be spelled in any of these ways.
    for forbidden in ["secret/", "./secret", ".//secret/.", "secret/**", "secret/*"] {
        ground.check(&[forbidden], "secret/key", "outside_scope");
    }
}

#[test]
fn fs_forbidden_by_alias_of_a_link() {
    let ground = Ground::new();
    symlink("secret", ground.at("link")).unwrap();
    symlink("free", ground.at("way")).unwrap();
    // A change never goes through a link. A scope that forbids a link also forbids the link's target.
    ground.check(FORBIDDEN, "link/key", "path_outside_workspace");
    ground.check(&["link"], "secret/key", "outside_scope");
    ground.check(&["way/inner"], "free/inner/new", "outside_scope");
    ground.check(&["way/inner"], "free/a", "permitted");
}

#[tokio::test]
async fn fs_forbidden_by_alias_of_a_hard_link() {
    let bench = bench("R2");
    bench.write("secret", "before");
    bench.write("other", "before");
    std::fs::hard_link(bench.folder.path().join("workspace/secret"), bench.folder.path().join("workspace/alias")).unwrap();
    let scope = Scope { forbidden_files: vec!["secret".to_owned()], ..Scope::default() };
    for (path, scope, expected) in [
        ("alias", scope.clone(), "outside_scope"),
        // Even without a scope, a hard link is refused: the file's other name may lie anywhere.
        ("alias", Scope::default(), "hard_link_refused"),
        ("other", scope, "taken"),
    ] {
        bench.will_leave(&[(path, "after")], json!({ "output": {} }));
        let context = CallContext { scope, ..bench.context().await };
        let prepared = bench.source().prepare(&context, &act(), &json!({})).await;
        assert_eq!(prepared.map_or_else(|error| error.code(), |_| "taken"), expected, "{path}");
        assert_eq!(bench.read("secret").as_deref(), Some("before"));
    }
}

/// A case-insensitive root cannot be made on every machine, so this test sets what would be detected on one.
#[test]
fn fs_forbidden_by_alias_of_case() {
    let mut ground = Ground::new();
    ground.check(&["Secret", ".ENV", "not-there"], "secret/key", "permitted");
    ground.place.workspace.pretend(Spelling::CaseInsensitive);
    for (forbidden, path) in [("Secret", "secret/key"), (".ENV", ".env"), ("not-there", "NOT-there"), ("SECRET/**", "secret/deep/key")] {
        ground.check(&[forbidden], path, "outside_scope");
    }
    ground.check(&["Secret"], "free/a", "permitted");
}

/// A mount can show the forbidden folder, a folder in it, or one of its files under a name that is not forbidden. The mounts are made in
/// namespaces that end with this test. Where an ordinary user may not make namespaces, such a user cannot make this kind of alias either.
#[test]
#[expect(clippy::disallowed_methods, reason = "the namespaces are made by the system's own program, for this test binary")]
fn fs_forbidden_by_alias_of_a_bind_mount() {
    if std::env::var_os(INSIDE).is_some() {
        return inside_the_namespaces();
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--propagation", "private", "--"]).arg(std::env::current_exe().unwrap());
    let output = command.args([&format!("{module}::fs_forbidden_by_alias_of_a_bind_mount"), "--exact"]).env(INSIDE, "1").output().unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let is_refused = !rustix::process::geteuid().is_root() && complaint.contains("unshare failed: ");
    assert!(is_refused || (output.status.success() && said.contains("1 passed")), "{said}\n{complaint}");
}

#[expect(clippy::disallowed_methods, reason = "mounts are made by the system's own program, in namespaces of this test")]
fn inside_the_namespaces() {
    let mut ground = Ground::new();
    for (shown, under) in [("secret", "folder"), ("secret/deep", "inner"), ("free/inner", "free/again")] {
        std::fs::create_dir(ground.at(under)).unwrap();
        mount(&ground, shown, under);
    }
    std::fs::write(ground.at("file"), "").unwrap();
    mount(&ground, "secret/key", "file");
    // Opened after the mounts were made: an earlier descriptor would not see them.
    ground.place = open(ground.folder.path());
    std::fs::write(ground.at("file"), "through the alias").unwrap();
    assert_eq!(std::fs::read_to_string(ground.at("secret/key")).unwrap(), "through the alias", "the mount is no alias");
    for path in ["folder/key", "folder/new", "inner/key", "inner/new", "file", "free/again/new"] {
        ground.check(FORBIDDEN, path, "outside_scope");
        ground.check(&[], path, "permitted");
    }
    // The reverse: a file forbidden under the mount's name is forbidden under its own name too.
    for (forbidden, path) in [("folder", "secret/key"), ("inner", "secret/deep/key"), ("file", "secret/key")] {
        ground.check(&[forbidden], path, "outside_scope");
    }
    ground.check(FORBIDDEN, "free/a", "permitted");
    // Reading: the jail shows no mount, and a scope that forbids a path by the name of a mount cannot be enforced.
    let seen = |forbidden: &[&str]| {
        let scope = Scope { forbidden_files: forbidden.iter().map(|text| (*text).to_owned()).collect(), ..Scope::default() };
        let parts = crate::workspace::view::parts(ground.place.folder(), &scope).map_err(|error| error.code());
        parts.map(|parts| parts.into_iter().filter(|part| part != crate::workspace::ID_FILE).collect::<Vec<_>>())
    };
    assert_eq!(seen(FORBIDDEN).unwrap(), ["free/a", "free/inner"]);
    assert_eq!(seen(&["free/a"]).unwrap(), [".env", "free/inner", "secret"]);
    for forbidden in ["folder", "folder/key", "inner", "file"] {
        assert_eq!(seen(&[forbidden]), Err("outside_scope"), "{forbidden}");
    }

    fn mount(ground: &Ground, shown: &str, under: &str) {
        let status = Command::new("mount").arg("--bind").arg(ground.at(shown)).arg(ground.at(under)).status().unwrap();
        assert!(status.success(), "`{shown}` could not be mounted at `{under}`");
    }
}
