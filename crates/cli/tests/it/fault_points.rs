//! Tests that the crash tests kill the server at every fault point in the code, so that no step can be added without such a test.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_server_is_killed_at_every_point_there_is() {
    let killed_at = crate::step_crash::points().chain(crate::package_crash::points()).chain(crate::batch_crash::points());
    let killed_at = killed_at.chain(crate::find_out_crash::points()).chain(crate::two_workspaces::points());
    let killed_at: BTreeSet<_> = killed_at.map(|point| point.split(':').next().unwrap_or_default().to_owned()).collect();
    let there_are = points_in_the_code();
    let unkilled: Vec<_> = there_are.difference(&killed_at).collect();
    assert!(unkilled.is_empty(), "no test kills the server at {unkilled:?}: add each to a table of `*_crash.rs`");
    let unknown: Vec<_> = killed_at.difference(&there_are).collect();
    assert!(unknown.is_empty(), "{unknown:?} are killed at and nowhere in the code");
}

/// Every name that the source code passes to `fault` or `point`.
fn points_in_the_code() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for crate_name in ["pipeline", "server", "sources", "store", "sandbox"] {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_name).join("src"), &mut found);
    }
    assert!(
        found.contains("execute.intended") && found.contains("package.committed_one"),
        "this test no longer reads the source: {found:?}"
    );
    found
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for call in [".fault(", ".point("] {
            for after in text.split(call).skip(1) {
                let argument = after.split(')').next().unwrap_or_default().trim();
                match argument.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                    Some(name) => drop(found.insert(name.to_owned())),
                    // A function that only passes a name on gets it from a caller that writes it out.
                    None => assert_eq!(argument, "point", "{}: a point has a name that can be read here", path.display()),
                }
            }
        }
    }
}
