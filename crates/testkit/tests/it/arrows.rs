//! Which package may depend on which. Dev-dependencies are free, but testkit may be nothing else.

use crate::workspace;
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "countersign-";

/// Which of our packages one of them may use, and why no more.
struct Arrow {
    from: &'static str,
    to: &'static [&'static str],
    because: &'static str,
}

const ARROWS: &[Arrow] = &[
    Arrow { from: "core", to: &[], because: "core is nouns and ports, and everything else plugs into it" },
    Arrow { from: "policy", to: &["core"], because: "policy decides from facts and rules alone" },
    Arrow { from: "receipt", to: &["core"], because: "whoever verifies a receipt needs nothing else of ours" },
    Arrow { from: "pipeline", to: &["core", "policy", "receipt", "durable"], because: "the walk sees ports, never an adapter" },
    Arrow { from: "automation", to: &["core"], because: "what a definition says follows from the definition alone" },
    Arrow { from: "runs", to: &["core", "automation", "pipeline", "durable"], because: "runs see ports, never an adapter" },
    Arrow { from: "durable", to: &[], because: "it knows how to go on, and nothing of what goes on" },
    Arrow { from: "bell", to: &[], because: "it wakes whoever waits, and knows nothing of what for" },
    Arrow { from: "store", to: &["core", "receipt", "bell"], because: "adapters do not know each other" },
    Arrow { from: "sources", to: &["core", "bell"], because: "adapters do not know each other" },
    Arrow { from: "sandbox", to: &["core"], because: "adapters do not know each other" },
    Arrow { from: "api", to: &["core", "receipt"], because: "the wire knows the nouns and not how they are served" },
    Arrow { from: "host", to: &["core", "pipeline", "store", "sources"], because: "a host stands below everything that serves on it" },
    Arrow {
        from: "homes",
        to: &["core", "host", "policy", "pipeline", "runs", "store", "sources", "sandbox", "api"],
        because: "what orgs have on a server is made for operations and composed by the server",
    },
    Arrow {
        from: "notify",
        to: &["core", "durable", "policy", "pipeline", "store", "sources"],
        because: "a channel tells of calls, and decides nothing",
    },
    Arrow { from: "stream", to: &["core", "durable", "store", "api"], because: "a stream passes events on, and decides nothing" },
    Arrow {
        from: "operations",
        to: &[
            "core",
            "policy",
            "receipt",
            "pipeline",
            "automation",
            "runs",
            "durable",
            "store",
            "sources",
            "api",
            "host",
            "homes",
            "notify",
            "stream",
        ],
        because: "the rules behind the doors know no door",
    },
    Arrow {
        from: "http-door",
        to: &[
            "core",
            "policy",
            "receipt",
            "pipeline",
            "automation",
            "runs",
            "durable",
            "store",
            "sources",
            "api",
            "host",
            "homes",
            "stream",
            "operations",
        ],
        because: "doors do not know each other, and nothing is composed in them",
    },
    Arrow {
        from: "mcp-door",
        to: &["core", "policy", "pipeline", "store", "api", "operations"],
        because: "doors do not know each other, and nothing is composed in them",
    },
    Arrow {
        from: "server",
        to: &[
            "core",
            "policy",
            "receipt",
            "pipeline",
            "automation",
            "runs",
            "durable",
            "store",
            "sources",
            "sandbox",
            "api",
            "host",
            "homes",
            "notify",
            "operations",
            "http-door",
            "mcp-door",
        ],
        because: "the server composes everything and is used by the binary alone",
    },
    Arrow { from: "demo", to: &[], because: "the world outside of the demo knows nothing of us" },
    Arrow {
        from: "commands",
        to: &["core", "receipt", "api", "store", "host", "homes", "notify", "demo"],
        because: "the command line is a door, and doors hold no rules",
    },
    Arrow { from: "cli", to: &["core", "host", "commands", "server"], because: "the binary is the command line with the server in it" },
    Arrow { from: "testkit", to: &["core"], because: "every crate's tests use testkit, so it uses none of them" },
];

/// Outside packages that only some of ours may use.
struct Reserved {
    packages: &'static [&'static str],
    to: &'static [&'static str],
    because: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        packages: &["axum", "hyper", "hyper-util", "tower", "tokio-rustls"],
        to: &["host", "http-door", "mcp-door", "server", "demo"],
        because: "only the server speaks HTTP to strangers",
    },
    Reserved {
        packages: &["rusqlite", "deadpool-postgres", "redis"],
        to: &["store"],
        because: "only the store knows which database there is",
    },
    Reserved {
        packages: &["tokio-postgres"],
        to: &["store", "testkit"],
        because: "only the store knows which database there is, and testkit makes fresh ones",
    },
    Reserved {
        packages: &["reqwest"],
        to: &["sources", "commands"],
        because: "the outside is reached by sources, and by the command line as a client",
    },
    Reserved { packages: &["ring"], to: &["sources"], because: "what others sign is checked where they are asked" },
    Reserved { packages: &["lettre"], to: &["sources"], because: "the outside is reached by sources" },
    Reserved { packages: &["object_store"], to: &["sources"], because: "a bucket is outside, and whoever keeps artifacts sees a port" },
    Reserved { packages: &["clap", "anyhow", "comfy-table"], to: &["commands"], because: "only the command line talks to a terminal" },
    Reserved { packages: &["getrandom", "rand"], to: &["host"], because: "randomness is a port, and the host fills it in" },
    Reserved {
        packages: &["cedar-policy", "miette"],
        to: &["policy"],
        because: "only policy knows which language policies are written in",
    },
    Reserved {
        packages: &["phonenumber", "rustface", "image"],
        to: &["policy"],
        because: "what is taken out of a call is found in one place",
    },
    Reserved {
        packages: &["libc", "landlock", "seccompiler"],
        to: &["sandbox"],
        because: "only the sandbox starts and confines processes",
    },
    Reserved {
        packages: &["minijinja", "croner", "serde_json_path"],
        to: &["automation"],
        because: "what a definition says is read in one place",
    },
    Reserved { packages: &["jsonschema"], to: &["pipeline", "automation"], because: "params are validated in one place" },
];

/// The packages that decide. They must not reach the outside, not even through another package.
const PURE: &[&str] = &["core", "policy", "receipt", "automation"];
const OUTSIDE: &[&str] = &["tokio", "mio", "socket2", "hyper", "reqwest", "rusqlite", "tokio-postgres", "redis"];

/// Package names that would attract code of every kind.
const HUBS: &[&str] = &["common", "util", "utils", "types", "helpers", "shared", "misc"];

/// It needs a C build of several minutes, and is a second TLS provider beside ring.
const BANNED: &str = "aws-lc-sys";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Product,
    Dev,
}

struct Package {
    name: String,
    dependencies: Vec<(String, Kind)>,
}

/// The workspace as its manifests declare it, and every locked package with its dependencies.
struct Graph {
    packages: Vec<Package>,
    locked: BTreeMap<String, Vec<String>>,
}

#[test]
fn no_arrow_is_forbidden() {
    let broken = broken(&read());
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn broken(graph: &Graph) -> Vec<String> {
    let mut broken = vec![];
    for package in &graph.packages {
        let name = package.name.as_str();
        let folder = folder_of(name);
        let product = package.dependencies.iter().filter(|(_, kind)| *kind == Kind::Product);
        let product: Vec<_> = product.map(|(dependency, _)| dependency.as_str()).collect();
        if HUBS.contains(&folder) {
            broken.push(format!("`{name}` is named after nothing: a noun lives with whoever uses it, and there are no hubs"));
        }
        // The benchmark may use anything, and no product package uses it.
        if folder == "bench" {
            continue;
        }
        let Some(arrow) = ARROWS.iter().find(|arrow| arrow.from == folder) else {
            broken.push(format!("`{name}` has no row in ARROWS: say what it may depend on, and why no more"));
            continue;
        };
        for dependency in product.iter().filter(|dependency| dependency.starts_with(PREFIX)) {
            if folder_of(dependency) == "testkit" {
                broken.push(format!("`{name}` depends on `{dependency}`: testkit is only ever a dev-dependency"));
            } else if !arrow.to.contains(&folder_of(dependency)) {
                broken.push(format!("`{name}` depends on `{dependency}`: {}", arrow.because));
            }
        }
        for reserved in RESERVED.iter().filter(|reserved| !reserved.to.contains(&folder)) {
            for dependency in product.iter().filter(|dependency| reserved.packages.contains(dependency)) {
                broken.push(format!("`{name}` depends on `{dependency}`: {}", reserved.because));
            }
        }
        if PURE.contains(&folder) {
            let reached = reach(graph, &product);
            for outside in OUTSIDE.iter().filter(|outside| reached.contains(**outside)) {
                broken.push(format!("`{name}` reaches `{outside}`: what decides touches no network, no disk and no runtime"));
            }
        }
    }
    if graph.locked.keys().any(|id| id_name(id) == BANNED) {
        broken.push(format!("`{BANNED}` is locked: ring is our only TLS provider"));
    }
    broken
}

/// A package is named after its folder.
fn folder_of(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The names of all packages that the given ones depend on, directly or not, themselves included.
fn reach(graph: &Graph, from: &[&str]) -> BTreeSet<String> {
    let mut open: Vec<&str> = graph.locked.keys().map(String::as_str).filter(|id| from.contains(&id_name(id))).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(graph.locked.get(id).into_iter().flatten().map(String::as_str));
        }
    }
    seen.into_iter().map(|id| id_name(id).to_owned()).collect()
}

fn id_name(id: &str) -> &str {
    id.split(' ').next().unwrap_or(id)
}

/// Works offline: the manifests say what is declared, and the lock file what follows from it.
fn read() -> Graph {
    let manifest = workspace::root().join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap();
    let packages = metadata.packages.iter().map(|package| {
        let dependencies = package.dependencies.iter().map(|dependency| {
            let kind = if dependency.kind == DependencyKind::Development { Kind::Dev } else { Kind::Product };
            (dependency.name.clone(), kind)
        });
        Package { name: package.name.to_string(), dependencies: dependencies.collect() }
    });
    let lock = std::fs::read_to_string(workspace::root().join("Cargo.lock")).unwrap();
    Graph { packages: packages.collect(), locked: locked(&lock) }
}

/// `name version` of every package, with those it depends on. Our own packages are left out: their lines include dev-dependencies.
fn locked(lock: &str) -> BTreeMap<String, Vec<String>> {
    let lock: toml::Table = lock.parse().unwrap();
    let packages: Vec<_> = lock["package"].as_array().unwrap().iter().filter(|package| package.get("source").is_some()).collect();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let ids: Vec<_> = packages.iter().map(|package| format!("{} {}", text(&package["name"]), text(&package["version"]))).collect();
    // If only one version of a package is locked, its dependents leave the version out.
    let id_of = |dependency: &str| match dependency.split_once(' ') {
        Some((name, rest)) => format!("{name} {}", rest.split(' ').next().unwrap_or(rest)),
        None => ids.iter().find(|id| id_name(id) == dependency).cloned().unwrap_or_else(|| dependency.to_owned()),
    };
    let dependencies = packages.iter().map(|package| {
        let listed = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
        listed.map(|dependency| id_of(&text(dependency))).collect()
    });
    ids.iter().cloned().zip(dependencies).collect()
}

#[test]
fn the_real_workspace_is_what_is_checked() {
    let graph = read();
    let names: Vec<_> = graph.packages.iter().map(|package| package.name.as_str()).collect();
    for known in ["countersign-core", "countersign-cli", "countersign-testkit", "countersign-bench"] {
        assert!(names.contains(&known), "{names:?}");
    }
    let store = graph.packages.iter().find(|package| package.name == "countersign-store").unwrap();
    assert!(reach(&graph, &["rusqlite"]).contains("libsqlite3-sys"));
    assert!(store.dependencies.iter().any(|(name, kind)| name == "countersign-core" && *kind == Kind::Product));
    assert!(store.dependencies.iter().any(|(name, kind)| name == "countersign-testkit" && *kind == Kind::Dev));
}

#[test]
fn every_package_that_is_named_exists() {
    let graph = read();
    let ours: BTreeSet<_> = graph.packages.iter().map(|package| folder_of(&package.name)).collect();
    let locked: BTreeSet<_> = graph.locked.keys().map(|id| id_name(id)).collect();
    let named =
        ARROWS.iter().flat_map(|arrow| arrow.to.iter().chain([&arrow.from])).chain(RESERVED.iter().flat_map(|reserved| reserved.to));
    let unknown: Vec<_> = named.chain(PURE).filter(|name| !ours.contains(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are no packages of ours");
    let reserved = RESERVED.iter().flat_map(|reserved| reserved.packages);
    let unknown: Vec<_> = reserved.chain(OUTSIDE).filter(|name| !locked.contains(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are in no lock file");
}

#[test]
fn every_forbidden_arrow_is_noticed_with_its_sentence() {
    for (from, to, sentence) in [
        ("core", "countersign-policy", "core is nouns and ports, and everything else plugs into it"),
        ("policy", "countersign-store", "policy decides from facts and rules alone"),
        ("receipt", "countersign-store", "whoever verifies a receipt needs nothing else of ours"),
        ("pipeline", "countersign-store", "the walk sees ports, never an adapter"),
        ("automation", "countersign-sources", "what a definition says follows from the definition alone"),
        ("store", "countersign-sources", "adapters do not know each other"),
        ("sources", "countersign-store", "adapters do not know each other"),
        ("sandbox", "countersign-store", "adapters do not know each other"),
        ("api", "countersign-pipeline", "the wire knows the nouns and not how they are served"),
        ("server", "countersign-cli", "the server composes everything and is used by the binary alone"),
        ("http-door", "countersign-mcp-door", "doors do not know each other, and nothing is composed in them"),
        ("operations", "countersign-http-door", "the rules behind the doors know no door"),
        ("commands", "countersign-server", "the command line is a door, and doors hold no rules"),
        ("cli", "countersign-pipeline", "the binary is the command line with the server in it"),
        ("testkit", "countersign-store", "every crate's tests use testkit, so it uses none of them"),
        ("core", "countersign-bench", "core is nouns and ports, and everything else plugs into it"),
        ("server", "countersign-testkit", "testkit is only ever a dev-dependency"),
        ("pipeline", "axum", "only the server speaks HTTP to strangers"),
        ("cli", "hyper", "only the server speaks HTTP to strangers"),
        ("server", "rusqlite", "only the store knows which database there is"),
        ("testkit", "redis", "only the store knows which database there is"),
        ("server", "tokio-postgres", "only the store knows which database there is, and testkit makes fresh ones"),
        ("server", "reqwest", "the outside is reached by sources, and by the command line as a client"),
        ("server", "object_store", "a bucket is outside, and whoever keeps artifacts sees a port"),
        ("server", "clap", "only the command line talks to a terminal"),
        ("store", "anyhow", "only the command line talks to a terminal"),
        ("store", "getrandom", "randomness is a port, and the host fills it in"),
        ("pipeline", "cedar-policy", "only policy knows which language policies are written in"),
        ("pipeline", "phonenumber", "what is taken out of a call is found in one place"),
        ("server", "seccompiler", "only the sandbox starts and confines processes"),
        ("server", "jsonschema", "params are validated in one place"),
    ] {
        let name = format!("{PREFIX}{from}");
        check(&name, &[(to, Kind::Product)], &[&format!("`{name}` depends on `{to}`: {sentence}")]);
    }
}

#[test]
fn what_decides_cannot_reach_the_outside_through_somebody_else() {
    for name in ["countersign-core", "countersign-policy", "countersign-receipt"] {
        let sentence = |outside| format!("`{name}` reaches `{outside}`: what decides touches no network, no disk and no runtime");
        check(name, &[("innocent", Kind::Product)], &[&sentence("tokio"), &sentence("mio")]);
        check(name, &[("innocent", Kind::Dev)], &[]);
    }
    check("countersign-sources", &[("innocent", Kind::Product)], &[]);
}

#[test]
fn tests_and_benchmarks_may_use_what_they_need() {
    check("countersign-pipeline", &[("countersign-testkit", Kind::Dev), ("axum", Kind::Dev), ("countersign-store", Kind::Dev)], &[]);
    check("countersign-bench", &[("countersign-store", Kind::Product), ("reqwest", Kind::Product)], &[]);
}

#[test]
fn a_new_package_must_say_where_it_stands_and_may_not_be_a_hub() {
    let row = "`countersign-queue` has no row in ARROWS: say what it may depend on, and why no more";
    check("countersign-queue", &[], &[row]);
    let hub = "`countersign-common` is named after nothing: a noun lives with whoever uses it, and there are no hubs";
    let row = "`countersign-common` has no row in ARROWS: say what it may depend on, and why no more";
    check("countersign-common", &[], &[hub, row]);
}

#[test]
fn a_second_tls_provider_is_noticed() {
    let mut graph = made_up("countersign-core", &[]);
    graph.locked.insert("aws-lc-sys 0.30.0".into(), vec![]);
    assert_eq!(broken(&graph), ["`aws-lc-sys` is locked: ring is our only TLS provider"]);
}

#[test]
fn a_lock_file_is_read_with_its_versions() {
    let lock = r#"
        version = 4
        [[package]]
        name = "countersign-core"
        version = "0.1.0"
        dependencies = ["proptest"]
        [[package]]
        name = "a"
        version = "1.0.0"
        source = "registry"
        dependencies = ["b 2.0.0", "c", "b 1.0.0 (registry)"]
        [[package]]
        name = "c"
        version = "3.0.0"
        source = "registry"
    "#;
    let expected =
        [("a 1.0.0".to_owned(), vec!["b 2.0.0".to_owned(), "c 3.0.0".to_owned(), "b 1.0.0".to_owned()]), ("c 3.0.0".to_owned(), vec![])];
    assert_eq!(locked(lock), BTreeMap::from(expected));
}

fn check(name: &str, dependencies: &[(&str, Kind)], expected: &[&str]) {
    assert_eq!(broken(&made_up(name, dependencies)), expected, "{name}");
}

fn made_up(name: &str, dependencies: &[(&str, Kind)]) -> Graph {
    let dependencies = dependencies.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    let locked = [
        ("innocent 1.0.0", vec!["between 2.0.0"]),
        ("between 2.0.0", vec!["tokio 1.0.0"]),
        ("tokio 1.0.0", vec!["mio 1.0.0"]),
        ("mio 1.0.0", vec![]),
    ];
    let locked = locked.into_iter().map(|(id, dependencies)| (id.to_owned(), dependencies.into_iter().map(str::to_owned).collect()));
    Graph { packages: vec![Package { name: name.into(), dependencies }], locked: locked.collect() }
}
