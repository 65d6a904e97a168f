//! Reads policies from a file or a folder: one Cedar text for each gate, and for a what-if also the org's modes.

use crate::shared::*;
use api::gates::PoliciesFile;
use api::rules::ModeLine;
use serde::Deserialize;
use std::path::Path;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign policy set policies.toml                       abac = '''forbid (…) when { … };'''
  countersign policy set policies/                           with abac.cedar and the like
  countersign policy set policies/ --dry-run";

/// A file of rules is small; a larger file is a mistake.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const GATES: [&str; 4] = ["rbac", "abac", "consent", "space"];

/// The rules in a file. Rules that the file does not contain stay as they are.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RulesFile {
    pub(super) policies: Option<PoliciesFile>,
    pub(super) modes: Option<Vec<ModeLine>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    rbac: Option<String>,
    abac: Option<String>,
    consent: Option<String>,
    space: Option<String>,
    modes: Option<Vec<ModeLine>>,
}

impl RulesFile {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let about = std::fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
        let written = if about.is_dir() { folder(path)? } else { file(path)? };
        let Written { rbac, abac, consent, space, modes } = written;
        let has_policies = [&rbac, &abac, &consent, &space].into_iter().any(Option::is_some);
        let text = Option::unwrap_or_default;
        let policies = PoliciesFile { rbac: text(rbac), abac: text(abac), consent: text(consent), space: text(space) };
        if !has_policies && modes.is_none() {
            return Err(Failure::new(Exit::Invalid, format!("`{}` holds no rules", path.display()))
                .hint(format!("its keys are {}; a folder has files such as abac.cedar", GATES.join(", "))));
        }
        Ok(Self { policies: has_policies.then_some(policies), modes })
    }

    /// The policies of a file that may hold nothing but policies.
    pub(super) fn policies_alone(self, path: &Path) -> Result<PoliciesFile, Failure> {
        match self {
            Self { policies: Some(policies), modes: None } => Ok(policies),
            Self { modes: _, .. } => Err(Failure::usage(format!("`{}` holds modes, which are not policies", path.display()))
                .hint("set modes with countersign mode import; try both with countersign policy what-if")),
        }
    }
}

fn folder(path: &Path) -> Result<Written, Failure> {
    let mut written = Written::default();
    for entry in std::fs::read_dir(path).map_err(|error| Failure::file(path, &error))? {
        let file = entry.map_err(|error| Failure::file(path, &error))?.path();
        if file.extension().is_none_or(|extension| extension != "cedar") {
            continue;
        }
        let place = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some("rbac") => &mut written.rbac,
            Some("abac") => &mut written.abac,
            Some("consent") => &mut written.consent,
            Some("space") => &mut written.space,
            _ => {
                return Err(Failure::usage(format!("`{}` belongs to no gate", file.display()))
                    .hint("the files are rbac.cedar, abac.cedar, consent.cedar and space.cedar"));
            }
        };
        *place = Some(text(&file)?);
    }
    Ok(written)
}

fn file(path: &Path) -> Result<Written, Failure> {
    let text = text(path)?;
    let read = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str(&text).map_err(|error| error.to_string()),
        Some("json") => serde_json::from_str(&text).map_err(|error| error.to_string()),
        Some("yaml" | "yml") => serde_saphyr::from_str(&text).map_err(|error| error.to_string()),
        _ => {
            return Err(Failure::usage(format!("`{}` is neither TOML, JSON, YAML nor a folder", path.display()))
                .hint("name it .toml, .json or .yaml; Cedar texts go into a folder, as abac.cedar"));
        }
    };
    read.map_err(|error| Failure::new(Exit::Invalid, format!("`{}` is not a file of policies", path.display())).cause(error.trim()))
}

fn text(path: &Path) -> Result<String, Failure> {
    let about = std::fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
    if about.len() > FILE_BYTES_MAX {
        return Err(Failure::new(Exit::Invalid, format!("`{}` is larger than {FILE_BYTES_MAX} bytes", path.display())));
    }
    std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Mode;

    fn check(name: &str, text: &str, expected: &RulesFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(&RulesFile::read(&path).unwrap(), expected, "{name}");
    }

    #[test]
    fn the_same_rules_in_every_syntax() {
        let policies = PoliciesFile { abac: "permit (principal, action, resource);\n".into(), ..PoliciesFile::default() };
        let modes = vec![ModeLine { action: "files.list".into(), automation: None, mode: Mode::Deny, locked: true }];
        let expected = RulesFile { policies: Some(policies), modes: Some(modes) };
        check(
            "a.toml",
            "abac = '''\npermit (principal, action, resource);\n'''\n[[modes]]\naction = \"files.list\"\nmode = \"deny\"\nlocked = true\n",
            &expected,
        );
        check(
            "a.yaml",
            "abac: |\n  permit (principal, action, resource);\nmodes:\n  - action: files.list\n    mode: deny\n    locked: true\n",
            &expected,
        );
        check(
            "a.json",
            r#"{"abac": "permit (principal, action, resource);\n", "modes": [{"action": "files.list", "mode": "deny", "locked": true}]}"#,
            &expected,
        );
    }

    #[test]
    fn a_folder_has_a_file_for_each_gate() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RulesFile::read(folder.path()).unwrap_err().exit, Exit::Invalid);
        std::fs::write(folder.path().join("README.md"), "words").unwrap();
        std::fs::write(folder.path().join("abac.cedar"), "text").unwrap();
        let found = RulesFile::read(folder.path()).unwrap().policies_alone(folder.path()).unwrap();
        assert_eq!(found, PoliciesFile { abac: "text".into(), ..PoliciesFile::default() });
        std::fs::write(folder.path().join("abacus.cedar"), "text").unwrap();
        assert_eq!(RulesFile::read(folder.path()).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn what_is_misspelt_or_unknown_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.toml", "abak = ''"), ("a.json", "{"), ("a.yaml", "abac: [1]"), ("a.txt", ""), ("b.json", "{}")] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            assert!(matches!(RulesFile::read(&path).unwrap_err().exit, Exit::Invalid | Exit::Usage), "{name}");
        }
    }
}
