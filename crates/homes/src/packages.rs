//! Package folders, for their authors: read and checked by the rules of the server, without a running server.

use crate::jail::SandboxJail;
use api::package::PackageFindingView;
use api::problem::FieldError;
use api::{Code, Problem};
use countersign_core::Action;
use countersign_core::source::BUILTIN_SOURCES;
use sources::package::{Packages, Place, Refused, cases_of, look_at_scripts};
use sources::workspace::ID_FILE;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use sources::package::{Case, Mistake};

/// One file of a package.
pub struct File {
    pub bytes: Vec<u8>,
    pub executable: bool,
}

/// The result for a folder without mistakes.
pub struct Checked {
    /// The ids of the package's actions.
    pub actions: Vec<String>,
    /// The words of the package's MCP server, if it has one.
    pub mcp_server: Option<Vec<String>>,
    /// Findings in the actions' definitions, which are compared with the builtin actions too.
    pub findings: Vec<PackageFindingView>,
    /// The package's tests, by file.
    pub cases: Vec<(String, Case)>,
    /// Checks that could not be made, and why.
    pub remarks: Vec<String>,
}

/// Every file below a folder, by its path in the folder.
pub fn read(folder: &Path) -> Result<BTreeMap<String, File>, Box<Problem>> {
    let files = Packages::read(folder).map_err(|mistakes| invalid(&folder.display().to_string(), mistakes))?;
    Ok(files.into_iter().map(|(path, file)| (path, File { bytes: file.bytes.to_vec(), executable: file.is_executable })).collect())
}

/// Every file of a workspace that actions can see, which is every file except the workspace's id.
pub fn read_workspace(folder: &Path) -> Result<BTreeMap<String, File>, Box<Problem>> {
    let mut files = read(folder)?;
    files.remove(ID_FILE);
    Ok(files)
}

/// Checks that a package may have this name.
pub fn check_name(name: &str) -> Result<(), Mistake> {
    Packages::check_name(name, &BUILTIN_SOURCES)
}

/// Checks a folder: its actions, or everything that is wrong with it. None of its code runs.
pub async fn check(name: &str, folder: &Path) -> Result<Checked, Box<Problem>> {
    let (files, mut mistakes) = Packages::look_at(folder);
    let actions = match Packages::check_files(name, &files, &BUILTIN_SOURCES, pipeline::check_schema) {
        Ok(actions) => actions,
        Err(Refused::Invalid { mistakes: found, .. }) => {
            mistakes.extend(found);
            Vec::new()
        }
        Err(refused @ Refused::Disk { .. }) => return Err(Box::new(problem_of(&refused))),
    };
    let cases = cases_of(&files, &mut mistakes);
    // Scripts are only parsed, not run, so a degraded sandbox is good enough.
    let jail = tokio::task::spawn_blocking(|| SandboxJail::open(true)).await;
    let jail = jail.map_err(|error| Box::new(Problem::new(Code::Internal, format!("the host could not be looked at: {error}"))))?;
    let looked = look_at_scripts(&files, &jail).await;
    mistakes.extend(looked.mistakes);
    if mistakes.is_empty() {
        let ours = sources::builtin::definitions();
        let ours = ours.map_err(|error| Box::new(Problem::new(Code::Internal, format!("our own actions could not be read: {error}"))))?;
        let findings = findings_of(&actions, &ours);
        let actions = actions.iter().map(|action| action.id.to_string()).collect();
        let mcp_server = Packages::server_of(&files).map(|server| server.command);
        return Ok(Checked { actions, mcp_server, findings, cases, remarks: looked.unseen.into_iter().collect() });
    }
    Err(invalid(name, mistakes))
}

/// The findings that a person has to read before these actions are used. Each action is compared with all others.
pub fn findings_of(actions: &[Arc<Action>], others: &[Arc<Action>]) -> Vec<PackageFindingView> {
    let known: Vec<_> = actions.iter().chain(others).map(Arc::clone).collect();
    let found = actions.iter().flat_map(|action| policy::scan_definition(action, &known).into_iter().map(move |found| (action, found)));
    let view = found.map(|(action, found)| PackageFindingView {
        action: action.id.to_string(),
        file: format!("actions/{}/action.json", action.id.name()),
        pointer: pointer_in_manifest(&found.pointer),
        rule: found.rule.to_owned(),
        message: found.message,
    });
    view.collect()
}

/// Translates a pointer into a definition to the field names of the manifest.
fn pointer_in_manifest(pointer: &str) -> String {
    let mut steps: Vec<_> = pointer.split('/').collect();
    if let Some(field) = steps.get_mut(1) {
        *field = match *field {
            "id" => "name",
            "params_schema" => "inputSchema",
            "result_schema" => "outputSchema",
            same => same,
        };
    }
    steps.join("/")
}

/// The error for an installation whose findings nobody has accepted yet.
pub fn unread(name: &str, findings: &[PackageFindingView]) -> Problem {
    let places = if findings.len() == 1 { "1 place".to_owned() } else { format!("{} places", findings.len()) };
    let detail = format!("package `{name}` is not installed: a person has to read {places} of it first");
    let mut problem = Problem::new(Code::PackageFindings, detail);
    let said = |found: &PackageFindingView| format!("{} (`{}` of `{}`)", found.message, found.rule, found.action);
    problem.errors = findings
        .iter()
        .map(|found| FieldError { file: Some(found.file.clone()), ..FieldError::new(&found.pointer, said(found)) })
        .collect();
    problem
}

/// All mistakes as one error, sorted by file.
fn invalid(name: &str, mut mistakes: Vec<Mistake>) -> Box<Problem> {
    mistakes.sort_by_key(|mistake| mistake.file.clone());
    mistakes.dedup();
    Box::new(problem_of(&Refused::Invalid { name: name.to_owned(), mistakes }))
}

/// The error for a package that was refused.
pub fn problem_of(refused: &Refused) -> Problem {
    match refused {
        Refused::Invalid { mistakes, .. } => {
            let mut problem = Problem::new(Code::PackageInvalid, refused.to_string());
            problem.errors = mistakes.iter().map(field_error).collect();
            problem
        }
        Refused::Disk { .. } => Problem::new(Code::StoreUnavailable, refused.to_string()),
    }
}

fn field_error(mistake: &Mistake) -> FieldError {
    let (pointer, line, column) = match &mistake.place {
        Place::Whole => (String::new(), None, None),
        Place::Field(pointer) => (pointer.clone(), None, None),
        Place::Text { line, column } => (String::new(), Some(*line), Some(*column)),
    };
    let file = (!mistake.file.is_empty()).then(|| mistake.file.clone());
    FieldError { pointer, message: mistake.message.clone(), file, hint: Some(mistake.hint.clone()), line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_as_its_author_wrote_it() {
        for (pointer, expected) in [
            ("/id", "/name"),
            ("/description", "/description"),
            ("/params_schema/properties/params_schema/description", "/inputSchema/properties/params_schema/description"),
            ("/result_schema", "/outputSchema"),
            ("", ""),
        ] {
            assert_eq!(pointer_in_manifest(pointer), expected);
        }
    }
}
