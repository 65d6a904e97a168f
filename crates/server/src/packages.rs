//! Packages as folders, for who writes them: read and held to the rules as the server would, without one.

use crate::jail::SandboxJail;
use api::problem::FieldError;
use api::{Code, Problem};
use sources::package::{Packages, Place, Refused, cases_of, look_at_scripts};
use sources::workspace::ID_FILE;
use std::collections::BTreeMap;
use std::path::Path;

pub use sources::package::{Case, Mistake};

/// The names packages cannot take.
const OURS: [&str; 3] = ["files", "http", "notify"];

/// One file of a package.
pub struct File {
    pub bytes: Vec<u8>,
    pub executable: bool,
}

/// A folder nothing is wrong with.
pub struct Checked {
    /// The ids of the actions it makes.
    pub actions: Vec<String>,
    /// Its tests, by their files.
    pub cases: Vec<(String, Case)>,
    /// What could not be looked at, and why.
    pub remarks: Vec<String>,
}

/// Every file below a folder, by its path in it.
pub fn read(folder: &Path) -> Result<BTreeMap<String, File>, Box<Problem>> {
    let files = Packages::read(folder).map_err(|mistakes| invalid(&folder.display().to_string(), mistakes))?;
    Ok(files.into_iter().map(|(path, file)| (path, File { bytes: file.bytes.to_vec(), executable: file.is_executable })).collect())
}

/// Every file of a workspace that actions see: all but its id.
pub fn read_workspace(folder: &Path) -> Result<BTreeMap<String, File>, Box<Problem>> {
    let mut files = read(folder)?;
    files.remove(ID_FILE);
    Ok(files)
}

/// Whether a package may be called so.
pub fn check_name(name: &str) -> Result<(), Mistake> {
    Packages::check_name(name, &OURS)
}

/// What a folder makes, or all that is wrong with it. None of its code is run.
pub async fn check(name: &str, folder: &Path) -> Result<Checked, Box<Problem>> {
    let (files, mut mistakes) = Packages::look_at(folder);
    let actions = match Packages::check_files(name, &files, &OURS, pipeline::check_condition) {
        Ok(actions) => actions,
        Err(Refused::Invalid { mistakes: found, .. }) => {
            mistakes.extend(found);
            Vec::new()
        }
        Err(refused @ Refused::Disk { .. }) => return Err(Box::new(problem_of(&refused))),
    };
    let cases = cases_of(&files, &mut mistakes);
    // Scripts are parsed and not run, so it matters little how tightly they are held.
    let jail = tokio::task::spawn_blocking(|| SandboxJail::open(true)).await;
    let jail = jail.map_err(|error| Box::new(Problem::new(Code::Internal, format!("the host could not be looked at: {error}"))))?;
    let looked = look_at_scripts(&files, &jail).await;
    mistakes.extend(looked.mistakes);
    if mistakes.is_empty() {
        let actions = actions.iter().map(|action| action.id.to_string()).collect();
        return Ok(Checked { actions, cases, remarks: looked.unseen.into_iter().collect() });
    }
    Err(invalid(name, mistakes))
}

/// In the order somebody would go through them: file by file, and in each from the top.
fn invalid(name: &str, mut mistakes: Vec<Mistake>) -> Box<Problem> {
    mistakes.sort_by_key(|mistake| mistake.file.clone());
    mistakes.dedup();
    Box::new(problem_of(&Refused::Invalid { name: name.to_owned(), mistakes }))
}

/// What is told to whoever wanted it installed.
pub(crate) fn problem_of(refused: &Refused) -> Problem {
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
