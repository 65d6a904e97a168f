//! Packages as folders, for who writes them: read and held to the rules as the server would, without one.

use sources::package::Packages;
use sources::workspace::ID_FILE;
use std::collections::BTreeMap;
use std::path::Path;

/// The names packages cannot take.
const OURS: [&str; 3] = ["files", "http", "notify"];

/// One file of a package.
pub struct File {
    pub bytes: Vec<u8>,
    pub executable: bool,
}

/// Every file below a folder, by its path in it.
pub fn read(folder: &Path) -> Result<BTreeMap<String, File>, String> {
    let files = Packages::read(folder)?;
    Ok(files.into_iter().map(|(path, file)| (path, File { bytes: file.bytes.to_vec(), executable: file.is_executable })).collect())
}

/// Every file of a workspace that actions see: all but its id.
pub fn read_workspace(folder: &Path) -> Result<BTreeMap<String, File>, String> {
    let mut files = read(folder)?;
    files.remove(ID_FILE);
    Ok(files)
}

/// The ids of the actions a folder makes, or the rule it breaks.
pub fn check(name: &str, folder: &Path) -> Result<Vec<String>, String> {
    let actions = Packages::check_files(name, &Packages::read(folder)?, &OURS).map_err(|refused| refused.to_string())?;
    for action in &actions {
        for (what, schema) in [("inputSchema", &action.params_schema), ("outputSchema", &action.result_schema)] {
            pipeline::check_condition(schema).map_err(|why| format!("the `{what}` of `{}` does not compile: {why}", action.id))?;
        }
    }
    Ok(actions.iter().map(|action| action.id.to_string()).collect())
}
