//! Jobs that are refused before anything runs, each with its error message.

use crate::harness::{Setup, attempts, helper, is_root, job, run, setups};
use sandbox::{Bind, Error, Input, Options, Probes, Profile, Program, Sandbox, Spec, View};
use serde_json::json;
use std::path::Path;

#[test]
fn an_ordinary_user_is_refused_high_isolation_and_never_given_less() {
    let mut job = job(Setup::UserDefault, "nothing", Path::new("/nowhere"), &json!({}));
    job["profile"] = json!("high_isolation");
    let report = run(&job);
    let sentence = report["error"].as_str().unwrap();
    assert!(sentence.starts_with("the sandbox is unavailable at step `orders`: profile `high_isolation` needs `"), "{sentence}");
    assert_eq!(report["transient"], false);
}

#[test]
fn the_probes_name_what_they_found_and_what_follows() {
    let probes = Probes::now(&helper());
    let names: Vec<_> = probes.probes.iter().map(|probe| probe.name).collect();
    for name in
        ["landlock", "namespaces", "more_namespaces", "tmpfs", "overlay", "proc", "seccomp", "system_calls", "cgroup", "uid", "ia32"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(probes.probes.iter().all(|probe| !probe.consequence.is_empty()), "{probes:?}");
    let shown = serde_json::to_value(&probes).unwrap();
    assert_eq!(shown["probes"][0]["name"], "landlock");
    assert!(!is_root() || !probes.probes.iter().any(|probe| probe.disables.contains(&Profile::Default)), "{probes:?}");
}

#[test]
fn a_helper_that_is_no_jail_offers_nothing() {
    let probes = Probes::now(Path::new("/bin/true"));
    let sandbox = Sandbox::new(probes, Path::new("/bin/true"), Options::default()).unwrap();
    for profile in Profile::ALL {
        let error = sandbox.offers(profile).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("needs `namespaces`"), "{error}");
    }
}

#[test]
fn another_program_than_expected_does_not_run() {
    let mut spec = spec();
    spec.program.digest = [0; 32];
    let error = sandbox().run_blocking(spec, None, None).unwrap_err();
    assert!(matches!(error, Error::OtherProgram { .. }), "{error}");
    assert!(error.to_string().ends_with("nothing ran"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let check = |change: &dyn Fn(&mut Spec), expected: &str| {
        let mut spec = spec();
        change(&mut spec);
        let error = sandbox().run_blocking(spec, None, None).unwrap_err();
        assert!(error.to_string().contains(expected), "{error} should say {expected:?}");
    };
    let bind = |host: &str, jail: &str| vec![Bind { host: host.into(), jail: jail.into() }];
    let input = |path: &str| vec![Input { path: path.into(), bytes: vec![] }];
    check(&|spec| spec.read_only = bind("/usr", "/"), "not a plain absolute path of the jail");
    check(&|spec| spec.read_only = bind("/usr", "usr"), "not a plain absolute path of the jail");
    check(&|spec| spec.read_only = bind("/usr", "/usr/../etc"), "not a plain absolute path of the jail");
    check(&|spec| spec.read_only = bind("/usr", "/stage/usr"), "the jail has a place of its own there");
    check(&|spec| spec.read_only = bind("/usr", "/tmp/usr"), "the jail has a place of its own there");
    check(&|spec| spec.read_only = bind("usr", "/usr"), "not an absolute path of the host");
    check(&|spec| spec.read_only = bind("/that/is/not/there", "/usr"), "step `mounts`: showing `/that/is/not/there`");
    let view = |only: &[&str]| {
        vec![View { host: "/usr".into(), jail: "/shown".into(), only: only.iter().map(|part| (*part).to_owned()).collect() }]
    };
    for part in ["", ".", "..", "a/../b", "/a", "a//b", "a/", "a\0b"] {
        check(&|spec| spec.views = view(&[part]), "not a plain path of what is shown");
    }
    check(&|spec| spec.views = view(&["a/b", "a-b", "a"]), "it lies in another part");
    check(&|spec| spec.views = view(&["a", "a"]), "it lies in another part");
    check(&|spec| spec.views = vec![View { only: vec!["a".into(); 4097], ..view(&[]).remove(0) }], "more parts than a view may have");
    check(&|spec| spec.views = vec![View { jail: "/stage".into(), ..view(&[]).remove(0) }], "the jail has a place of its own there");
    check(&|spec| spec.inputs = input("/proc/x"), "the jail has a place of its own there");
    check(&|spec| spec.inputs = input("/usr/lib/x"), "step `mounts`");
    check(&|spec| spec.stage.initial = input("/absolute"), "not a plain path relative to the stage");
    check(&|spec| spec.stage.initial = input("../out"), "not a plain path relative to the stage");
    check(&|spec| spec.env = vec![("A=B".into(), String::new())], "not a variable's name");
    for start in ["usr/lib", "/usr/lib/../lib", "/"] {
        check(&|spec| spec.starts_in = Some(start.into()), "not a plain absolute path of the jail");
    }
    check(&|spec| spec.starts_in = Some("/usr".into()), "it starts where nothing is shown");
    check(&|spec| spec.starts_in = Some("/usr/lib/that-is-not-there".into()), "step `directory`: entering `/usr/lib/that-is-not-there`");
    check(&|spec| spec.args = vec!["a\0b".into()], "it has a NUL");
    check(&|spec| spec.stage.bytes_max = 0, "a bound of nothing");
    check(&|spec| spec.limits.open_files = 65_537, "more than 65,536");
    check(&|spec| spec.program.path = "/dev/null".into(), "not a regular file");
    check(&|spec| spec.program.path = "/that/is/not/there".into(), "No such file");
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error_of_the_last_step() {
    for setup in setups() {
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(script.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let report = run(&job(setup, "nothing", Path::new("/nowhere"), &json!({ "program": script.path() })));
        let sentence = report["error"].as_str().unwrap_or_else(|| panic!("{report}"));
        assert!(sentence.starts_with("the sandbox is unavailable at step `exec`"), "{sentence}");
    }
}

fn sandbox() -> Sandbox {
    Sandbox::new(Probes::now(&helper()), &helper(), Options::default()).unwrap()
}

fn spec() -> Spec {
    let program = Program { path: attempts(), digest: sandbox::digest_of(&attempts()).unwrap() };
    let mut spec = Spec::new(Profile::Default, program);
    spec.read_only = vec![Bind { host: "/usr/lib".into(), jail: "/usr/lib".into() }];
    spec
}
