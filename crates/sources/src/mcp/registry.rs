//! Packages of npm and PyPI that a command names, and how they are installed: outside the jail, each version once, below one folder.
//!
//! SECURITY: no code of a package runs outside the jail. npm leaves its install scripts out, and pip takes wheels alone.

use crate::limits::INSTALL_OUTPUT_LINES_MAX;
use crate::program::PLACES;
use crate::words::{failed, refused, said, shown};
use countersign_core::limits::INSTALL_SECONDS_MAX;
use countersign_core::source::Error;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Npm,
    Pypi,
}

/// A package that a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) kind: Kind,
    words: Vec<String>,
    /// The word that names the package, and what stands in it before the name.
    at: usize,
    before: &'static str,
    pub(super) name: String,
    /// The extras of a Python package, with their brackets.
    extras: String,
    /// Which versions are meant, as the package manager is told.
    version: Option<String>,
    /// The program of the package, if it is named.
    pub(super) program: Option<String>,
    /// What follows the program.
    pub(super) args: Vec<String>,
}

/// A package that is installed.
#[derive(Clone, Debug)]
pub(super) struct Installed {
    pub(super) version: String,
    pub(super) root: PathBuf,
    /// Where the program sees it. The folder of the host is not told to it.
    pub(super) jail: PathBuf,
    pub(super) notes: Vec<String>,
}

/// Where the jail shows packages.
pub(super) const IN_JAIL: &str = "/programs";

/// The package that a command names, if it runs one. Words that the package manager itself would understand otherwise are refused.
pub(super) fn asked(command: &[String]) -> Result<Option<Asked>, Error> {
    let kind = match command.first().map(|word| Path::new(word).file_name()) {
        Some(Some(name)) if name == "npx" => Kind::Npm,
        Some(Some(name)) if name == "uvx" => Kind::Pypi,
        _ => return Ok(None),
    };
    let (takes_package, quiet): (&[&str], &[&str]) = match kind {
        Kind::Npm => (&["-p", "--package"], &["-y", "--yes", "-q", "--quiet", "--"]),
        Kind::Pypi => (&["--from"], &["-q", "--quiet", "--"]),
    };
    let runner = if kind == Kind::Npm { "npx" } else { "uvx" };
    let mut package: Option<(usize, &'static str)> = None;
    let mut at = 1;
    loop {
        let Some(word) = command.get(at) else {
            return Err(refused("command_not_allowed", format!("the words after `{runner}` name no package")));
        };
        if quiet.contains(&word.as_str()) {
        } else if takes_package.contains(&word.as_str()) && package.is_none() {
            at += 1;
            package = Some((at, ""));
        } else if kind == Kind::Npm && word.starts_with("--package=") && package.is_none() {
            package = Some((at, "--package="));
        } else if kind == Kind::Pypi && word.starts_with("--from=") && package.is_none() {
            package = Some((at, "--from="));
        } else if word.starts_with('-') {
            let message = format!("`{}` of `{runner}` is not known here: name the package, a version and its own words", shown(word));
            return Err(refused("command_not_allowed", message));
        } else {
            break;
        }
        at += 1;
    }
    let program = package.is_some().then(|| command[at].clone());
    let (at_package, before) = package.unwrap_or((at, ""));
    let word = command.get(at_package).and_then(|word| word.strip_prefix(before)).unwrap_or_default();
    let parsed = match kind {
        Kind::Npm => npm_name(word).map(|(name, version)| (name, String::new(), version)),
        Kind::Pypi => pypi_name(word),
    };
    let Some((name, extras, version)) = parsed else {
        let message = format!("`{}` is not the name of a package in a registry, with or without a version", shown(word));
        return Err(refused("command_not_allowed", message));
    };
    let args = command[at + 1..].to_vec();
    Ok(Some(Asked { kind, words: command.to_vec(), at: at_package, before, name, extras, version, program, args }))
}

impl Asked {
    /// The words with the version that is installed.
    pub(super) fn pinned(&self, version: &str) -> Vec<String> {
        let Self { words, at, before, name, extras, kind, .. } = self;
        let mut words = words.clone();
        words[*at] = match kind {
            Kind::Npm => format!("{before}{name}@{version}"),
            Kind::Pypi => format!("{before}{name}{extras}=={version}"),
        };
        words
    }

    /// The word that names the package, with a version.
    pub(super) fn example(&self) -> String {
        let version = if self.kind == Kind::Npm { "@1.2.3" } else { "==1.2.3" };
        format!("{}{}{version}", self.name, self.extras)
    }

    /// The version, if the words name exactly one.
    pub(super) fn exact(&self) -> Option<&str> {
        let version = self.version.as_deref()?;
        let version = if self.kind == Kind::Pypi { version.strip_prefix("==")? } else { version };
        let is_exact = match self.kind {
            Kind::Npm => {
                let core = version.split(['-', '+']).next().unwrap_or_default();
                core.split('.').count() == 3
                    && core.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
            }
            Kind::Pypi => version.starts_with(|first: char| first.is_ascii_digit()) && !version.contains(['*', ',']),
        };
        is_exact.then_some(version)
    }

    /// Where a version of it is, below the folder of all packages.
    fn place(&self, version: &str) -> PathBuf {
        match self.kind {
            Kind::Npm => Path::new("npm").join(format!("{}@{version}", self.name)),
            Kind::Pypi => Path::new("pypi").join(format!("{}{}=={version}", normal(&self.name), self.extras)),
        }
    }

    fn installed(&self, folder: &Path, version: &str) -> Option<Installed> {
        let place = self.place(version);
        let root = folder.join(&place);
        let notes = match self.kind {
            Kind::Npm => {
                format!("`{}` {version} is installed without the install scripts of npm, so what they download is not there.", self.name)
            }
            Kind::Pypi => format!("`{}` {version} is installed from wheels alone, in an environment of its own.", self.name),
        };
        root.is_dir().then(|| Installed { version: version.to_owned(), root, jail: Path::new(IN_JAIL).join(place), notes: vec![notes] })
    }

    /// The folder of the package manager, if the words name one.
    pub(super) fn beside(&self) -> Option<&Path> {
        self.words.first().map(Path::new).filter(|path| path.is_absolute()).and_then(Path::parent)
    }

    fn what(&self) -> String {
        format!("{}{}", self.name, self.version.as_deref().map_or_else(String::new, |version| format!(" ({version})")))
    }
}

/// The name of an npm package and which versions are meant. Not a folder, an address or an alias.
fn npm_name(word: &str) -> Option<(String, Option<String>)> {
    let (scope, rest) = match word.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').map(|(scope, rest)| (Some(scope), rest))?,
        None => (None, word),
    };
    let (name, version) = rest.split_once('@').map_or((rest, None), |(name, version)| (name, Some(version)));
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_' || first == '~')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let is_version = |version: &str| {
        !version.is_empty()
            && !version.starts_with(['-', '.'])
            && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+^~<>=*".contains(&byte))
    };
    if !is_name(name) || !scope.is_none_or(is_name) || !version.is_none_or(is_version) {
        return None;
    }
    let name = scope.map_or_else(|| name.to_owned(), |scope| format!("@{scope}/{name}"));
    Some((name, version.map(str::to_owned)))
}

/// The name of a Python package, its extras, and which versions are meant.
fn pypi_name(word: &str) -> Option<(String, String, Option<String>)> {
    let end = word.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-._".contains(letter)).unwrap_or(word.len());
    let (name, rest) = word.split_at(end);
    if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) || !name.ends_with(|last: char| last.is_ascii_alphanumeric()) {
        return None;
    }
    let (extras, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']').map(|(extras, rest)| (format!("[{extras}]"), rest))?,
        None => (String::new(), rest),
    };
    let is_extra = |letter: u8| letter.is_ascii_alphanumeric() || b"[],-_.".contains(&letter);
    let version = match rest {
        "" | "@latest" => None,
        rest => Some(rest.strip_prefix('@').map_or_else(|| rest.to_owned(), |version| format!("=={version}"))),
    };
    let is_version = |version: &String| {
        version.starts_with(['=', '<', '>', '!', '~'])
            && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+*,<>=!~".contains(&byte))
    };
    let is_good = extras.bytes().all(is_extra) && version.as_ref().is_none_or(is_version);
    is_good.then(|| (name.to_owned(), extras, version))
}

/// The name under which PyPI knows a package, however it is written.
pub(super) fn normal(name: &str) -> String {
    name.to_ascii_lowercase().split(['-', '_', '.']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// One package is installed at a time: two that want the same one get it once. It is as long as the file is open.
async fn alone(folder: &Path) -> std::io::Result<std::fs::File> {
    // Beside the folder, in which there are packages alone.
    let lock = folder.with_extension("lock");
    let locked = tokio::task::spawn_blocking(move || {
        lock.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = std::fs::File::create(lock)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(file)
    });
    locked.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// Installs a package, unless the version that is asked for is there.
pub(super) async fn install(asked: &Asked, folder: &Path) -> Result<Installed, Error> {
    let is_there = || asked.exact().and_then(|version| asked.installed(folder, version));
    if let Some(installed) = is_there() {
        return Ok(installed);
    }
    let _alone = alone(folder).await.map_err(|error| not_installed(asked, &error.to_string()))?;
    if let Some(installed) = is_there() {
        return Ok(installed);
    }
    let new = folder.join(format!(".new-{}", std::process::id()));
    let made = make_room(folder, &new).map_err(|error| not_installed(asked, &error.to_string()));
    let version = match made {
        Ok(()) => match asked.kind {
            Kind::Npm => npm(asked, &new).await,
            Kind::Pypi => pypi(asked, &new).await,
        },
        Err(error) => Err(error),
    };
    let installed = version.and_then(|version| {
        let place = folder.join(asked.place(&version));
        // Another range may have led to a version that is there already. That one stays, because programs run from it.
        let kept = if place.is_dir() {
            Ok(())
        } else {
            place.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::rename(&new, &place))
        };
        kept.map_err(|error| not_installed(asked, &error.to_string()))?;
        asked.installed(folder, &version).ok_or_else(|| not_installed(asked, "its folder is gone"))
    });
    let _ = std::fs::remove_dir_all(&new);
    installed
}

/// Installs the package that a command names, if it names one. That goes on when nobody waits for it any more: whoever asks next finds it.
pub(super) async fn prepare(command: &[String], folder: &Path) -> Result<(), Error> {
    let Some(asked) = asked(command)? else { return Ok(()) };
    let folder = folder.to_owned();
    let installing = tokio::spawn(async move { install(&asked, &folder).await.map(drop) });
    installing.await.unwrap_or_else(|error| Err(failed("program_missing", format!("its package could not be installed: {error}"))))
}

fn make_room(folder: &Path, new: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let _ = std::fs::remove_dir_all(new);
    std::fs::create_dir(new)
}

async fn npm(asked: &Asked, new: &Path) -> Result<String, Error> {
    let npm = tool("npm", asked)?;
    std::fs::write(new.join("package.json"), "{ \"private\": true }\n").map_err(|error| not_installed(asked, &error.to_string()))?;
    let wanted = asked.version.as_ref().map_or_else(|| asked.name.clone(), |version| format!("{}@{version}", asked.name));
    let words = ["install", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--save-exact", "--loglevel=error", "--prefix"];
    run(asked, &npm, words.iter().map(OsStr::new).chain([new.as_os_str(), OsStr::new(&wanted)]), new).await?;
    let manifest = std::fs::read(new.join("node_modules").join(&asked.name).join("package.json")).unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap_or_default();
    let version = manifest["version"].as_str().filter(|version| npm_name(&format!("x@{version}")).is_some());
    version.map(str::to_owned).ok_or_else(|| not_installed(asked, "what was installed does not say which version it is"))
}

async fn pypi(asked: &Asked, new: &Path) -> Result<String, Error> {
    let python = tool("python3", asked)?;
    run(asked, &python, [OsStr::new("-m"), OsStr::new("venv"), new.as_os_str()].into_iter(), new).await?;
    let wanted = format!("{}{}{}", asked.name, asked.extras, asked.version.as_deref().unwrap_or_default());
    let words = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--only-binary=:all:", &wanted];
    run(asked, &new.join("bin/python"), words.iter().map(OsStr::new), new).await?;
    let version = distributions(new).into_iter().find(|(name, _)| normal(name) == normal(&asked.name)).map(|(_, version)| version);
    version.ok_or_else(|| not_installed(asked, "what was installed does not say which version it is"))
}

/// The folder of the packages of an environment.
pub(super) fn site_packages(root: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(root.join("lib")).ok()?.flatten();
    versions.map(|version| version.path().join("site-packages")).find(|path| path.is_dir())
}

/// What is installed in an environment: each name as it is written, and its version.
pub(super) fn distributions(root: &Path) -> Vec<(String, String)> {
    let entries = site_packages(root).and_then(|site| std::fs::read_dir(site).ok());
    let names = entries.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut all: Vec<_> = names
        .filter_map(|name| name.strip_suffix(".dist-info")?.rsplit_once('-').map(|(name, version)| (name.to_owned(), version.to_owned())))
        .collect();
    all.sort();
    all
}

/// A program that is run outside the jail: beside the one that the words name, or where the system has its programs.
fn tool(name: &str, asked: &Asked) -> Result<PathBuf, Error> {
    let places = asked.beside().into_iter().chain(PLACES.iter().map(Path::new));
    places.map(|place| place.join(name)).find(|path| path.is_file()).ok_or_else(|| {
        let places = PLACES.join(", ");
        // It stands beside `npx`.
        let elsewhere = if name == "npm" { ", or write `npx` with its whole path, which `command -v npx` prints" } else { "" };
        refused("program_missing", format!("`{}` cannot be installed: there is no `{name}` in {places}; install it{elsewhere}", asked.name))
    })
}

/// Runs a package manager to its end.
#[expect(clippy::disallowed_methods, reason = "it fetches a package, of which no code runs; the jail has no network for it")]
async fn run<'w>(asked: &Asked, program: &Path, words: impl Iterator<Item = &'w OsStr>, at: &Path) -> Result<(), Error> {
    // What is installed must be readable by the uid that the jail takes on.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "umask 022; exec \"$0\" \"$@\""]).arg(program).args(words);
    let folder = program.parent().map(Path::as_os_str).unwrap_or_default();
    let mut path = folder.to_owned();
    for place in PLACES {
        path.push(":");
        path.push(place);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COUNTERSIGN_")) {
        command.env_remove(name);
    }
    command.env("PATH", path).current_dir(at).process_group(0);
    if std::env::var_os("HOME").is_none() {
        command.env("HOME", at.parent().unwrap_or(at));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| not_installed(asked, &error.to_string()))?;
    let group = rustix::process::Pid::from_child(&child);
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output = match tokio::time::timeout(Duration::from_secs(INSTALL_SECONDS_MAX), waiting).await {
        Ok(Ok(Ok(output))) => output,
        Ok(Ok(Err(error))) => return Err(not_installed(asked, &error.to_string())),
        Ok(Err(error)) => return Err(not_installed(asked, &error.to_string())),
        Err(_) => {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            return Err(not_installed(asked, &format!("it took longer than {INSTALL_SECONDS_MAX} s")));
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stderr, output.stdout].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(INSTALL_OUTPUT_LINES_MAX).map(said).collect();
    Err(not_installed(asked, &lines.join(" | ")))
}

fn not_installed(asked: &Asked, why: &str) -> Error {
    failed("program_missing", format!("the package `{}` could not be installed: {why}", shown(&asked.what())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Option<Asked> {
        asked(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_command_names_a_package_its_program_and_its_version() {
        for (words, name, program, args, exact, pinned) in [
            ("npx -y @a/b", "@a/b", None, 0, None, "npx -y @a/b@9.9.9"),
            ("npx -y @a/b@1.2.3 c -d", "@a/b", None, 2, Some("1.2.3"), "npx -y @a/b@9.9.9 c -d"),
            ("npx a@^1.2.3", "a", None, 0, None, "npx a@9.9.9"),
            (
                "/opt/node/bin/npx --yes -p a@1.2.3-beta.1 b c",
                "a",
                Some("b"),
                1,
                Some("1.2.3-beta.1"),
                "/opt/node/bin/npx --yes -p a@9.9.9 b c",
            ),
            ("npx --package=a@latest b", "a", Some("b"), 0, None, "npx --package=a@9.9.9 b"),
            ("uvx a-b", "a-b", None, 0, None, "uvx a-b==9.9.9"),
            ("uvx a@1.0 x", "a", None, 1, Some("1.0"), "uvx a==9.9.9 x"),
            ("uvx --from a[x,y]==1.0.post1 b", "a", Some("b"), 0, Some("1.0.post1"), "uvx --from a[x,y]==9.9.9 b"),
            ("uvx a>=1,<2", "a", None, 0, None, "uvx a==9.9.9"),
            ("uvx a==1.*", "a", None, 0, None, "uvx a==9.9.9"),
        ] {
            let asked = parsed(words).unwrap();
            assert_eq!((asked.name.as_str(), asked.program.as_deref(), asked.args.len()), (name, program, args), "{words}");
            assert_eq!((asked.exact(), asked.pinned("9.9.9").join(" ").as_str()), (exact, pinned), "{words}");
        }
        assert_eq!(parsed("node x.js"), None);
        assert_eq!(normal("Mcp_Server.time"), "mcp-server-time");
    }

    #[test]
    fn what_is_no_package_of_a_registry_is_refused() {
        for words in [
            "npx",
            "npx -y",
            "npx -p",
            "npx -p a",
            "npx --call x",
            "npx ./a",
            "npx /a",
            "npx git+ssh://a/b",
            "npx a/b",
            "npx npm:a@1.0.0",
            "npx @a",
            "npx @../b",
            "npx a@",
            "npx a@../b",
            "npx -y --registry=http://a b",
            "uvx",
            "uvx --from",
            "uvx --with a b",
            "uvx ./a",
            "uvx git+https://a/b",
            "uvx a[x",
            "uvx a;b",
            "uvx -a",
            "uvx a==1;b",
        ] {
            let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(asked(&words).map_err(|error| error.code()), Err("command_not_allowed"), "{words:?}");
        }
    }
}
