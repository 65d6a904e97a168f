//! Finds out what a command runs in the end: a program that the kernel can run by itself, which is often the interpreter of a script, and the
//! files of the host that it needs.

use super::registry::{Asked, IN_JAIL, Installed, distributions, site_packages};
use crate::program::{PLACES, Program, Programs, is_program, libraries};
use crate::words::{refused, shown};
use countersign_core::source::Error;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A part of the host, and where the program sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) host: PathBuf,
    pub(super) jail: PathBuf,
}

/// What runs.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) program: Program,
    /// The name that it is started under. Python finds its environment by it.
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) shown: Vec<Shown>,
    /// Where it finds the programs that came with it.
    pub(super) path: String,
    pub(super) digest: String,
}

/// How many scripts may be the interpreter of each other.
const SCRIPTS_MAX: usize = 4;
/// How many links may lead to a program.
const LINKS_MAX: usize = 16;
/// The first line of a script is no longer than this; the kernel reads less.
const FIRST_LINE_BYTES_MAX: u64 = 4096;
/// How far above a script the folder of its project may be.
const PROJECT_LEVELS_MAX: usize = 4;
/// Interpreters whose first argument is the script.
const TAKE_SCRIPTS: [&str; 4] = ["node", "python", "bun", "deno"];
/// Where the jail has folders of its own, so that nothing of the host can be shown there.
const OF_JAIL: [&str; 6] = ["/stage", "/tmp", "/proc", "/dev", "/workspace", IN_JAIL];

/// A search under way.
pub(super) struct Finding {
    programs: Programs,
    shown: Vec<Shown>,
    /// Searched first for programs that are named without a folder.
    beside: Vec<PathBuf>,
    hasher: Sha256,
}

impl Finding {
    pub(super) fn new(programs: Programs, words: &[String]) -> Self {
        let mut finding = Self { programs, shown: Vec::new(), beside: Vec::new(), hasher: Sha256::new() };
        for word in words {
            finding.take(word.as_bytes());
        }
        finding
    }

    /// What a command runs.
    pub(super) fn command(self, words: &[String]) -> Result<Located, Error> {
        let (first, args) = words.split_first().ok_or_else(|| refused("command_not_allowed", "the command names no program"))?;
        let at = self.find(first)?;
        self.follow(at, args.to_vec())
    }

    /// The program of an npm package.
    pub(super) fn npm(mut self, asked: &Asked, installed: &Installed) -> Result<Located, Error> {
        self.beside.extend(asked.beside().map(Path::to_owned));
        let script = npm_program(asked, &installed.root)?;
        self.take(&std::fs::read(installed.root.join("package-lock.json")).unwrap_or_default());
        self.shown.push(Shown { host: installed.root.clone(), jail: installed.jail.clone() });
        let in_jail = installed.jail.join(&script).to_string_lossy().into_owned();
        let host = installed.root.join(&script);
        let head = head(&host).ok_or_else(|| missing(&host))?;
        if is_program(&head) {
            return self.program(&host, in_jail, asked.args.clone(), None);
        }
        self.take_file(&host);
        let mut words = interpreter(&head).unwrap_or_else(|| vec!["node".to_owned()]);
        words.push(in_jail);
        words.extend(asked.args.iter().cloned());
        let at = self.find(&words[0])?;
        let name = at.to_string_lossy().into_owned();
        let path = installed.jail.join("node_modules/.bin");
        self.program(&at, name, words.split_off(1), Some(&path))
    }

    /// The program of a Python package: what one of its entry points names, in the environment that it is installed in.
    pub(super) fn pypi(mut self, asked: &Asked, installed: &Installed) -> Result<Located, Error> {
        let (name, module, function) = entry_point(asked, &installed.root)?;
        for (name, version) in distributions(&installed.root) {
            self.take(format!("{name}=={version}").as_bytes());
        }
        self.shown.push(Shown { host: installed.root.clone(), jail: installed.jail.clone() });
        let code = format!("import sys; sys.argv[0] = '{name}'; from {module} import {}; sys.exit({function}())", first_of(&function));
        let args = ["-c".to_owned(), code].into_iter().chain(asked.args.iter().cloned()).collect();
        let python = installed.jail.join("bin/python").to_string_lossy().into_owned();
        let host = installed.root.join("bin/python");
        self.links(&host);
        self.base_of(&installed.root);
        self.program(&host, python, args, Some(&installed.jail.join("bin")))
    }

    /// Follows a script to its interpreter, and that one if it is a script, too.
    fn follow(mut self, mut at: PathBuf, mut args: Vec<String>) -> Result<Located, Error> {
        for _ in 0..SCRIPTS_MAX {
            let head = head(&at).ok_or_else(|| missing(&at))?;
            if is_program(&head) {
                let name = at.to_string_lossy().into_owned();
                self.script_of(&at, &args);
                return self.program(&at, name, args, None);
            }
            let why = |why: String| refused("program_missing", format!("`{}` cannot run here: {why}", at.display()));
            let mut words = interpreter(&head)
                .ok_or_else(|| why("it is neither a program nor a script whose first line names an interpreter after `#!`".to_owned()))?;
            if at.parent().is_some_and(|folder| folder.ends_with("shims")) {
                let name = at.file_name().unwrap_or_default().to_string_lossy();
                return Err(why(format!("it only leads to the program that is chosen; name that one, which `pyenv which {name}` prints")));
            }
            let script = at.canonicalize().map_err(|_| missing(&at))?;
            self.beside.extend(at.parent().map(Path::to_owned));
            self.show_script(&script);
            self.take_file(&script);
            words.push(script.to_string_lossy().into_owned());
            words.append(&mut args);
            args = words.split_off(1);
            at = self.find(&words[0])?;
        }
        Err(refused("program_missing", format!("`{}` cannot run here: too many scripts are the interpreter of each other", at.display())))
    }

    /// Where a program is. Its folder is without links, but it may be a link itself, as the Python of an environment is.
    fn find(&self, name: &str) -> Result<PathBuf, Error> {
        let path = Path::new(name);
        let found = if path.is_absolute() {
            path.is_file().then(|| path.to_owned())
        } else if name.contains('/') || name.is_empty() {
            None
        } else {
            let places = self.beside.iter().map(PathBuf::as_path).chain(PLACES.iter().map(Path::new));
            places.map(|place| place.join(name)).find(|path| path.is_file())
        };
        let found = found.ok_or_else(|| {
            let message = if path.is_absolute() {
                format!("there is no file `{}`", shown(name))
            } else {
                format!("there is no program `{}` in {}: install it, or name it with its whole path", shown(name), PLACES.join(", "))
            };
            refused("program_missing", message)
        })?;
        let folder = found.parent().and_then(|folder| folder.canonicalize().ok());
        Ok(folder.zip(found.file_name()).map_or_else(|| found.clone(), |(folder, name)| folder.join(name)))
    }

    /// Ends the search at a program, which is started under this name.
    fn program(mut self, at: &Path, name: String, args: Vec<String>, path: Option<&Path>) -> Result<Located, Error> {
        let program = self.programs.find_now(&at.to_string_lossy());
        let program = program.ok_or_else(|| refused("program_missing", format!("`{}` cannot be read as a program", at.display())))?;
        self.take(&program.digest);
        for (host, jail) in libraries(&program.path) {
            self.shown.push(Shown { host, jail });
        }
        let mut folders: Vec<String> = path.map(|path| path.to_string_lossy().into_owned()).into_iter().collect();
        if !name.starts_with(IN_JAIL) {
            // Programs start themselves again: under the name that they have, or by the file that the kernel names.
            let shown = self.shown.len();
            self.links(at);
            self.show(&program.path);
            // It runs also where it cannot be shown.
            let own = self.shown.split_off(shown);
            self.shown.extend(own.into_iter().filter(|own| !is_of_jail(&own.jail)));
            if let Some(root) = environment_of(at) {
                self.show(&root);
                self.base_of(&root);
            }
        }
        folders.extend(at.parent().filter(|_| !name.starts_with(IN_JAIL)).map(|folder| folder.to_string_lossy().into_owned()));
        folders.extend(PLACES.map(str::to_owned));
        folders.dedup();
        let shown = tidy(self.shown)?;
        let mut digest = String::new();
        for byte in self.hasher.finalize() {
            let _ = write!(digest, "{byte:02x}");
        }
        Ok(Located { program, name, args, shown, path: folders.join(":"), digest })
    }

    fn show(&mut self, path: &Path) {
        self.shown.push(Shown { host: path.to_owned(), jail: path.to_owned() });
    }

    /// Shows each link that leads to a program, and the program.
    fn links(&mut self, at: &Path) {
        let mut at = at.to_owned();
        for _ in 0..LINKS_MAX {
            let Ok(target) = std::fs::read_link(&at) else { break };
            at = at.parent().map(|folder| folder.join(&target)).unwrap_or(target);
            // Below the folder of packages it is seen elsewhere, and with that folder.
            if !self.shown.iter().any(|shown| at.starts_with(&shown.host)) {
                let plain = at.parent().and_then(|folder| folder.canonicalize().ok()).zip(at.file_name());
                at = plain.map_or(at.clone(), |(folder, name)| folder.join(name));
                self.show(&at);
            }
        }
        if at.is_file() && !self.shown.iter().any(|shown| at.starts_with(&shown.host)) {
            self.show(&at);
        }
    }

    /// Shows what an environment of Python is made from: the modules and libraries of the Python that its `pyvenv.cfg` names.
    fn base_of(&mut self, root: &Path) {
        let settings = std::fs::read_to_string(root.join("pyvenv.cfg")).unwrap_or_default();
        self.take(settings.as_bytes());
        let home = settings.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "home");
        let Some((_, home)) = home else { return };
        for home in [PathBuf::from(home.trim()), PathBuf::from(home.trim()).canonicalize().unwrap_or_default()] {
            if let Some(lib) = home.parent().map(|prefix| prefix.join("lib")).filter(|lib| lib.is_absolute() && lib.is_dir()) {
                self.show(&lib);
            }
        }
    }

    /// Shows the script that an interpreter is given as its first argument.
    fn script_of(&mut self, interpreter: &Path, args: &[String]) {
        let name = interpreter.file_name().unwrap_or_default().to_string_lossy();
        if !TAKE_SCRIPTS.iter().any(|known| name.starts_with(known)) {
            return;
        }
        let script = args.iter().find(|arg| !arg.starts_with('-')).map(Path::new).filter(|path| path.is_absolute() && path.is_file());
        if let Some(script) = script
            && let Ok(real) = script.canonicalize()
        {
            self.show_script(&real);
            self.take_file(&real);
            if real != script {
                self.show(script);
            }
        }
    }

    /// Shows a script with what belongs to it: the environment or the `node_modules` that it is in, the folder of its project, or what is
    /// installed with the folder that it is in.
    fn show_script(&mut self, script: &Path) {
        let modules = script.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
        if let Some(modules) = modules {
            return self.show(modules);
        }
        if let Some(root) = environment_of(script) {
            return self.show(&root);
        }
        let mut folders = script.ancestors().skip(1).take(PROJECT_LEVELS_MAX).filter(|folder| !is_wide(folder));
        if let Some(project) = folders.find(|folder| ["package.json", "pyproject.toml"].iter().any(|file| folder.join(file).is_file())) {
            return self.show(project);
        }
        self.show(script);
        let bin = script.parent().filter(|folder| folder.ends_with("bin"));
        if let Some(lib) = bin.and_then(Path::parent).map(|prefix| prefix.join("lib")).filter(|lib| lib.is_dir()) {
            self.show(&lib);
        }
    }

    /// Makes something a part of the digest.
    fn take(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes.len().to_be_bytes());
        self.hasher.update(bytes);
    }

    fn take_file(&mut self, path: &Path) {
        if let Ok(bytes) = std::fs::read(path) {
            self.take(&bytes);
        }
    }
}

/// Whether so much lies in a folder that it is no project: the root, what is directly below it, or the home of a user.
fn is_wide(folder: &Path) -> bool {
    let is_home = std::env::var_os("HOME").is_some_and(|home| folder == Path::new(&home));
    is_home || folder.components().count() <= 2 || folder.parent() == Some(Path::new("/home"))
}

/// The environment of Python in whose `bin` a program or script is.
fn environment_of(program: &Path) -> Option<PathBuf> {
    let root = program.parent()?.parent()?;
    root.join("pyvenv.cfg").is_file().then(|| root.to_owned())
}

/// The words that the first line of a script names.
fn interpreter(head: &[u8]) -> Option<Vec<String>> {
    let text = String::from_utf8_lossy(head);
    let (first, rest) = text.strip_prefix("#!")?.split_once('\n').unwrap_or((text.strip_prefix("#!")?, ""));
    // Where the path of an interpreter is too long or has a space, pip writes a script of the shell that is one of Python as well.
    if let Some(path) = rest.strip_prefix("'''exec' ").and_then(|rest| rest.split_once(" \"$0\"")) {
        return Some(vec![path.0.trim_matches('"').to_owned()]);
    }
    let (name, argument) = match first.trim().split_once([' ', '\t']) {
        Some((name, argument)) => (name, argument.trim()),
        None => (first.trim(), ""),
    };
    let is_env = Path::new(name).file_name().is_some_and(|name| name == "env");
    let mut words: Vec<String> = match argument {
        _ if is_env => argument.split_whitespace().filter(|word| !matches!(*word, "-S" | "--split-string")).map(str::to_owned).collect(),
        "" => vec![name.to_owned()],
        argument => vec![name.to_owned(), argument.to_owned()],
    };
    // `-Snode`, and variables before the program, of which none is set.
    if let Some(first) = words.first_mut()
        && let Some(word) = first.strip_prefix("-S")
    {
        *first = word.to_owned();
    }
    words.first().is_some_and(|word| !word.is_empty() && !word.starts_with('-') && !word.contains('=')).then_some(words)
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(FIRST_LINE_BYTES_MAX).read_to_end(&mut head).ok()?;
    Some(head)
}

fn missing(path: &Path) -> Error {
    refused("program_missing", format!("`{}` cannot be read", path.display()))
}

/// Which file of an npm package runs, relative to where it is installed.
fn npm_program(asked: &Asked, root: &Path) -> Result<PathBuf, Error> {
    let wrong = |why: String| refused("program_missing", format!("the package `{}` {why}", asked.name));
    let folder = Path::new("node_modules").join(&asked.name);
    let manifest = std::fs::read(root.join(&folder).join("package.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&manifest).map_err(|_| wrong("has no readable package.json".to_owned()))?;
    let own = asked.name.rsplit('/').next().unwrap_or_default();
    let programs = &manifest["bin"];
    let file = match (programs.as_object(), &asked.program) {
        (Some(programs), Some(program)) => programs.get(program).and_then(Value::as_str),
        (Some(programs), None) if programs.len() == 1 => programs.values().next().and_then(Value::as_str),
        (Some(programs), None) => programs.get(own).and_then(Value::as_str),
        (None, program) => programs.as_str().filter(|_| program.as_deref().is_none_or(|program| program == own)),
    };
    let file = file.map(Path::new).filter(|file| file.components().all(|part| !matches!(part, std::path::Component::ParentDir)));
    let file = file.filter(|file| !file.is_absolute()).ok_or_else(|| {
        let names: Vec<_> =
            manifest["bin"].as_object().map(|programs| programs.keys().map(|name| shown(name)).collect()).unwrap_or_default();
        let names = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        wrong(format!("does not say which program to run: {names}; name it with `npx -p {} PROGRAM`", asked.name))
    })?;
    Ok(folder.join(file.strip_prefix(".").unwrap_or(file)))
}

/// The entry point of a Python package: its name, its module, and the function in it.
fn entry_point(asked: &Asked, root: &Path) -> Result<(String, String, String), Error> {
    let wanted = asked.program.as_deref().unwrap_or(&asked.name);
    let site = site_packages(root).unwrap_or_default();
    let mut names = Vec::new();
    for (name, version) in distributions(root) {
        let is_own = super::registry::normal(&name) == super::registry::normal(&asked.name);
        let text = std::fs::read_to_string(site.join(format!("{name}-{version}.dist-info/entry_points.txt"))).unwrap_or_default();
        let section =
            text.lines().map(str::trim).skip_while(|line| *line != "[console_scripts]").skip(1).take_while(|line| !line.starts_with('['));
        let mut own: Vec<_> = section.filter_map(parsed_entry).collect();
        let is_it =
            |name: &str| name == wanted || (asked.program.is_none() && super::registry::normal(name) == super::registry::normal(wanted));
        if let Some(at) = own.iter().position(|(name, ..)| is_it(name)).filter(|_| is_own || asked.program.is_some()) {
            return Ok(own.swap_remove(at));
        }
        if is_own && asked.program.is_none() && own.len() == 1 {
            return Ok(own.swap_remove(0));
        }
        names.extend(own.into_iter().filter(|_| is_own).map(|(name, ..)| name));
    }
    let names = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
    let message =
        format!("the package `{0}` does not say which program to run: {names}; name it with `uvx --from {0} PROGRAM`", asked.name);
    Err(refused("program_missing", message))
}

/// `name = module:function`, with nothing in it that is more than a name.
fn parsed_entry(line: &str) -> Option<(String, String, String)> {
    let (name, rest) = line.split_once('=')?;
    let (module, function) = rest.split('[').next()?.split_once(':')?;
    let (name, module, function) = (name.trim(), module.trim(), function.trim());
    let is_dotted = |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '.');
    let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.".contains(letter));
    (is_name && is_dotted(module) && is_dotted(function)).then(|| (name.to_owned(), module.to_owned(), function.to_owned()))
}

fn first_of(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

fn is_of_jail(path: &Path) -> bool {
    OF_JAIL.iter().any(|own| path.starts_with(own))
}

/// Each path once, and none that is seen with another. What cannot be shown where it is, is refused.
fn tidy(mut all: Vec<Shown>) -> Result<Vec<Shown>, Error> {
    all.sort_by(|one, other| one.jail.cmp(&other.jail));
    let mut tidy: Vec<Shown> = Vec::new();
    for shown in all {
        if shown.jail == shown.host && is_of_jail(&shown.jail) {
            let message = format!(
                "`{}` cannot be shown to the program: the jail has a folder of its own there; move it elsewhere",
                shown.host.display()
            );
            return Err(refused("program_missing", message));
        }
        let is_seen = tidy.iter().any(|other| {
            shown.jail.strip_prefix(&other.jail).is_ok_and(|inside| other.host.join(inside) == shown.host || inside.as_os_str().is_empty())
        });
        if !is_seen {
            tidy.push(shown);
        }
    }
    Ok(tidy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        for (head, expected) in [
            ("#!/usr/bin/env node\n", Some(vec!["node"])),
            ("#!/usr/bin/env -S node --no-warnings\nx", Some(vec!["node", "--no-warnings"])),
            ("#!/usr/bin/env -Snode\n", Some(vec!["node"])),
            ("#! /opt/venv/bin/python -E -s\n", Some(vec!["/opt/venv/bin/python", "-E -s"])),
            ("#!/bin/sh\n'''exec' \"/opt/a b/bin/python\" \"$0\" \"$@\"\n' '''\n", Some(vec!["/opt/a b/bin/python"])),
            ("#!/bin/sh\r\necho\n", Some(vec!["/bin/sh"])),
            ("#!", None),
            ("#!\n", None),
            ("#!/usr/bin/env\n", None),
            ("#!/usr/bin/env A=1 node\n", None),
            ("echo\n", None),
            ("", None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(interpreter(head.as_bytes()), expected, "{head:?}");
        }
    }

    fn found(words: &[&str]) -> Result<Located, Error> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        Finding::new(Programs::default(), &words).command(&words)
    }

    #[test]
    fn what_is_installed_is_found_with_what_it_needs() {
        let installed = testkit::mcp_servers().canonicalize().unwrap();
        let at = |path: &str| installed.join(path).to_str().unwrap().to_owned();
        let shows =
            |located: &Located, path: &Path| located.shown.iter().any(|shown| shown.jail == shown.host && path.starts_with(&shown.host));
        // The Python of an environment keeps its name, by which it finds the environment.
        let python = at("python/bin/python");
        let located = found(&[&python, "-m", "kit"]).unwrap();
        assert_eq!((&located.name, located.args.as_slice()), (&python, &["-m".to_owned(), "kit".to_owned()][..]));
        assert_eq!(located.program.path, Path::new(&python).canonicalize().unwrap());
        assert!(shows(&located, &installed.join("python/lib")) && shows(&located, &located.program.path), "{located:?}");
        assert!(located.path.starts_with(&at("python/bin:")), "{located:?}");
        // So does a script of it.
        let script = at("python/bin/fastmcp");
        let located = found(&[&script, "run"]).unwrap();
        assert!(located.name.starts_with(&at("python/bin/python")), "{located:?}");
        assert_eq!(located.args, [script, "run".to_owned()]);
        // The script of a package names `node`, and sees the packages beside it.
        let located = found(&[&at("node_modules/.bin/mcp-server-everything"), "stdio"]).unwrap();
        let script = installed.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        assert_eq!(located.args, [script.to_str().unwrap().to_owned(), "stdio".to_owned()]);
        assert!(shows(&located, &installed.join("node_modules")), "{located:?}");
        // The same by the interpreter itself; other words make another digest.
        let named = found(&["node", script.to_str().unwrap(), "stdio"]).unwrap();
        assert!(shows(&named, &installed.join("node_modules")) && named.args == located.args, "{named:?}");
        assert_ne!(named.digest, located.digest);
    }

    #[test]
    fn what_cannot_run_says_why() {
        let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        std::fs::create_dir(folder.path().join("shims")).unwrap();
        let (text, own) = (write("text", "hello"), write("own.sh", "#!/bin/sh\n"));
        let shim = write("shims/kit", "#!/usr/bin/env bash\n");
        let ring = folder.path().join("ring").to_str().unwrap().to_owned();
        write("ring", &format!("#!{ring}\n"));
        for (word, expected) in [
            ("/opt/countersign-has-none", "there is no file"),
            ("countersign-has-none", "there is no program `countersign-has-none` in /usr/local/bin"),
            ("bin/kit", "there is no program"),
            (&text, "neither a program nor a script"),
            (&own, "the jail has a folder of its own there"),
            (&shim, "`pyenv which kit`"),
            (&ring, "too many scripts"),
        ] {
            let error = found(&[word]).unwrap_err();
            assert!(error.code() == "program_missing" && error.to_string().contains(expected), "{word}: {error}");
        }
    }

    #[test]
    fn an_entry_point_is_a_name_and_a_function_and_no_code() {
        assert!(parsed_entry("mcp-server-time = mcp_server_time:main").is_some());
        assert!(parsed_entry("a = b.c:D.main [extra]").is_some());
        for line in ["a = b", "a'; x = b:c", "a = b:c()", "a = b;c:d", "# a = b:c", ""] {
            assert_eq!(parsed_entry(line), None, "{line}");
        }
    }
}
