//! Which part of a crate may use which. A part is a file beside `lib.rs`, with the folder of its name; `lib.rs` and `main.rs` may use all, and all
//! may use the numbers in `limits.rs`.
//! Files are read as plain text. A use is `crate::part`, or a call of a method that another part adds to a shared type. Code after
//! `mod tests {`, and files that end in `_tests.rs`, may use anything.

use crate::workspace::{File, files_below};

struct Crate {
    folder: &'static str,
    /// Types to which several parts add methods. Calling such a method is a use too.
    shared: &'static [&'static str],
    /// From the bottom up: each part, and the parts it uses, all of which must be listed above it. So there are no circles.
    parts: &'static [(&'static str, &'static [&'static str])],
}

const CRATES: &[Crate] = &[PIPELINE, SOURCES, HOST, HOMES, SERVER, COMMANDS];

const PIPELINE: Crate = Crate {
    folder: "crates/pipeline/src",
    shared: &["Pipeline"],
    parts: &[
        ("error", &[]),
        ("line", &[]),
        ("request", &["line"]),
        ("catalogue", &[]),
        ("walk", &["error", "line", "request", "catalogue"]),
        ("told", &["request", "walk"]),
        ("pipeline", &["error", "request", "catalogue", "walk", "told"]),
        ("progress", &["error", "walk", "pipeline"]),
        ("preview", &["error", "request", "catalogue", "walk", "told", "pipeline"]),
        ("rules", &["error", "catalogue", "walk", "pipeline"]),
        ("batch", &["error", "request", "walk", "pipeline"]),
        ("answers", &["error", "request", "walk", "pipeline", "preview", "rules", "batch"]),
        ("recovery", &["error", "request", "walk", "pipeline", "batch"]),
        ("callers", &["error", "line", "request", "walk", "told", "pipeline"]),
        ("waiting", &["error", "line", "request", "told", "pipeline", "progress", "callers"]),
        ("artifacts", &["error", "walk", "pipeline"]),
    ],
};

const SOURCES: Crate = Crate {
    folder: "crates/sources/src",
    shared: &[],
    parts: &[
        ("error", &[]),
        ("words", &[]),
        ("program", &[]),
        ("blobs", &[]),
        ("web", &["words"]),
        ("egress", &["web", "words"]),
        ("resolver", &["web"]),
        ("relay", &["resolver", "web", "words"]),
        ("mail", &["words"]),
        ("oauth", &["web", "words"]),
        ("connection", &["mail", "oauth", "web", "words"]),
        ("outbound", &["oauth", "web", "words"]),
        ("workspace", &["words"]),
        ("command", &["program", "words", "workspace"]),
        ("builtin", &["mail", "web", "words", "workspace"]),
        ("package", &["egress", "program", "web", "words", "workspace"]),
        ("mcp", &["egress", "package", "program", "relay", "web", "words"]),
    ],
};

const HOST: Crate = Crate {
    folder: "crates/host/src",
    shared: &[],
    parts: &[
        ("tls", &[]),
        ("config", &["tls"]),
        ("ports", &[]),
        ("telemetry", &["config", "ports"]),
        ("data_dir", &["config"]),
        ("master_key", &["config", "data_dir"]),
        ("look", &["data_dir"]),
        ("open", &["config", "data_dir", "master_key", "ports"]),
    ],
};

const HOMES: Crate = Crate {
    folder: "crates/homes/src",
    shared: &[],
    parts: &[
        ("jail", &[]),
        ("packages", &["jail"]),
        ("homes", &["jail", "packages"]),
        ("allowed", &[]),
        ("source_events", &[]),
        ("added_sources", &["allowed", "homes", "source_events"]),
    ],
};

const SERVER: Crate = Crate {
    folder: "crates/server/src",
    shared: &[],
    parts: &[
        ("energy", &[]),
        ("lease", &[]),
        ("render", &[]),
        ("mcp", &[]),
        ("lag", &[]),
        ("loops", &["lag"]),
        ("compose", &["energy", "render"]),
        ("worker", &["compose", "lease", "loops"]),
    ],
};

const COMMANDS: Crate = Crate {
    folder: "crates/commands/src",
    shared: &[],
    parts: &[
        ("world", &[]),
        ("serving", &[]),
        ("style", &[]),
        ("hints", &["style"]),
        ("exit", &["hints", "style"]),
        ("context", &["exit"]),
        ("client", &["context", "exit", "hints"]),
        ("output", &["exit", "style", "world"]),
        ("flags", &["client", "output"]),
        ("setting", &["client", "context", "exit", "flags", "output", "serving", "style"]),
        ("resource", &["client", "exit", "flags", "output", "style"]),
        ("shared", &["client", "exit", "flags", "output", "resource", "setting", "style"]),
        ("commands", &["client", "context", "output", "serving", "shared", "style", "world"]),
        ("args", &["commands", "exit", "flags", "style"]),
        ("run", &["args", "commands", "context", "exit", "output", "serving", "setting", "world"]),
    ],
};

#[test]
fn the_parts_of_a_crate_use_each_other_one_way() {
    let broken: Vec<_> = CRATES.iter().flat_map(|this| broken(this, &files_below(this.folder))).collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn broken(this: &Crate, files: &[File]) -> Vec<String> {
    let mut broken = circles(this);
    let files: Vec<_> = files.iter().filter_map(|file| Some((part_of(this, file)?, file, product(this, file)))).collect();
    let methods: Vec<_> = files.iter().flat_map(|(part, _, text)| methods(this, text).map(|name| (name, *part))).collect();
    for (part, file, text) in &files {
        let Some((_, may_use)) = this.parts.iter().find(|(name, _)| name == part) else {
            broken.push(format!("{}: `{part}` has no row: say what it may use", file.path));
            continue;
        };
        // A file that does not name a shared type has no value of it to call a method on.
        let named = if this.shared.iter().any(|name| text.contains(name)) { methods.as_slice() } else { &[] };
        for (at, used, how) in paths(this, text).chain(calls(text, named)) {
            if used != *part && !may_use.contains(&used) {
                let line = text[..at].matches('\n').count() + 1;
                broken.push(format!("{}:{line}: `{part}` uses `{used}` (`{how}`), and may use only {may_use:?}", file.path));
            }
        }
    }
    broken
}

/// Rows that use a part listed below them, or one that is not listed.
fn circles(this: &Crate) -> Vec<String> {
    let rows = this.parts.iter().enumerate();
    let pairs = rows.flat_map(|(at, (part, may_use))| may_use.iter().map(move |used| (at, part, used)));
    let wrong = pairs.filter(|(at, _, used)| !this.parts[..*at].iter().any(|(above, _)| above == *used));
    wrong.map(|(_, part, used)| format!("{}: `{used}` does not stand above `{part}`, which may use it", this.folder)).collect()
}

/// The part of a file; `None` if the file may use everything.
fn part_of<'a>(this: &Crate, file: &'a File) -> Option<&'a str> {
    let path = inside(this, file);
    let is_free = ["lib.rs", "main.rs", "limits.rs"].contains(&path) || path.ends_with("_tests.rs") || !path.ends_with(".rs");
    path.split(['/', '.']).next().filter(|_| !is_free)
}

fn inside<'a>(this: &Crate, file: &'a File) -> &'a str {
    file.path[this.folder.len()..].trim_start_matches('/')
}

/// The text of a file up to its tests, without comment lines, and with every path out of its part written as `crate::`.
fn product(this: &Crate, file: &File) -> String {
    let product = file.text.split("\nmod tests {").next().unwrap_or_default();
    let lines: Vec<_> = product.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line }).collect();
    let way_out = "super::".repeat(inside(this, file).split('/').count());
    lines.join("\n").replace(&way_out, "crate::")
}

/// The parts named after `crate::`, or in the braces after it.
fn paths<'a>(this: &'a Crate, text: &'a str) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
    text.match_indices("crate::").flat_map(move |(at, path)| {
        let rest = &text[at + path.len()..];
        let named = if rest.starts_with('{') { rest.split(';').next().unwrap_or(rest) } else { first_word(rest) };
        let names = named.split(|character| !is_word(character)).filter(|name| this.parts.iter().any(|(part, _)| part == name));
        names.map(move |name| (at, name, name))
    })
}

/// Methods that a part adds to a shared type. An `impl` block begins and ends at the left margin, as the formatter puts it.
/// Methods in the file that declares the type are left out: every part may call them.
fn methods<'a>(this: &'a Crate, text: &'a str) -> impl Iterator<Item = &'a str> {
    let declares = |name: &str| text.contains(&format!("struct {name} {{"));
    let is_added = move |block: &&str| this.shared.iter().any(|name| *name == first_word(block) && !declares(name));
    let blocks = text.split("\nimpl ").skip(1).filter(is_added);
    let lines = blocks.flat_map(|block| block.split("\n}").next().unwrap_or(block).lines());
    let heads = lines.filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with(' ')));
    heads.filter_map(|head| head.split_once("fn ").map(|(_, name)| first_word(name)))
}

/// Calls of such methods. Another method of the same name counts too, and should be renamed.
fn calls<'a>(text: &'a str, methods: &'a [(&str, &'a str)]) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
    methods.iter().flat_map(move |(name, part)| {
        let after =
            text.match_indices(*name).filter(|(at, _)| text[..*at].ends_with(['.', ':']) && text[at + name.len()..].starts_with('('));
        after.map(move |(at, name)| (at, *part, name))
    })
}

fn first_word(text: &str) -> &str {
    text.split(|character| !is_word(character)).next().unwrap_or(text)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[test]
fn an_arrow_that_runs_back_is_named_with_its_file_and_line() {
    const MADE_UP: Crate = Crate { folder: "crates/x/src", shared: &["Pipeline"], parts: &[("walk", &[]), ("answers", &["walk"])] };
    let broken = |path: &str, text: &str| {
        let answers = "\nimpl Pipeline {\n    pub(crate) async fn approve(&self) {\n        let x = fn inner();\n    }\n}\n";
        let file = |path: &str, text: &str| File { path: format!("crates/x/src/{path}"), text: text.into() };
        self::broken(&MADE_UP, &[file("answers/approve.rs", answers), file(path, text)])
    };
    for (path, text, line, how) in [
        ("walk/admit.rs", "use crate::answers::Answer;", 1, "answers"),
        ("walk.rs", "//!\n\nuse crate::{\n    Error,\n    answers::{A, B},\n};", 3, "answers"),
        ("walk/admit.rs", "fn a() {\n    crate::answers::go()\n}", 2, "answers"),
        ("walk/admit.rs", "use super::super::answers;", 1, "answers"),
        ("walk.rs", "use super::answers;", 1, "answers"),
        ("walk.rs", "impl Pipeline {\n    self\n        .approve()\n}", 3, "approve"),
        ("walk.rs", "Pipeline::approve(self)", 1, "approve"),
    ] {
        assert_eq!(
            broken(path, text),
            [format!("crates/x/src/{path}:{line}: `walk` uses `answers` (`{how}`), and may use only []")],
            "{text}"
        );
    }
    for (path, text) in [
        ("answers/deny.rs", "use crate::walk::Admitted;\nuse super::approve;\nfn a() { self.approve() }"),
        ("walk/admit.rs", "use super::answers;\n// crate::answers::x and self.approve()\nfn approve() { inner(); disapprove() }"),
        ("walk.rs", "\n#[cfg(test)]\nmod tests {\n    use crate::answers;\n}\n"),
        ("walk/admit_tests.rs", "use crate::answers;"),
        ("lib.rs", "use crate::answers; mod walk;"),
    ] {
        assert!(broken(path, text).is_empty(), "{text}");
    }
    assert_eq!(broken("queue.rs", ""), ["crates/x/src/queue.rs: `queue` has no row: say what it may use"]);
    let circle = Crate { parts: &[("walk", &["answers"]), ("answers", &["walk"])], ..MADE_UP };
    assert_eq!(circles(&circle), ["crates/x/src: `answers` does not stand above `walk`, which may use it"]);
}
