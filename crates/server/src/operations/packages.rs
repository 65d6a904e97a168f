//! Who may install and remove packages.

use super::{Error, must, must_be_person};
use api::package::PackageFindingView;
use countersign_core::Principal;
use countersign_core::principal::Permission;

/// Installing and removing packages takes the permission to manage policy.
pub(crate) fn may_manage(by: &Principal) -> Result<(), Error> {
    must(by, Permission::ManagePolicy)
}

/// If the scan of a package found something, a person must read and accept it before the package is installed.
pub(crate) fn may_install(by: &Principal, name: &str, findings: &[PackageFindingView], accepted: bool) -> Result<(), Error> {
    may_manage(by)?;
    if findings.is_empty() {
        return Ok(());
    }
    if !accepted {
        return Err(Error::Findings { name: name.to_owned(), findings: findings.to_vec() });
    }
    must_be_person(by, "accepts what was found in a package").map(|_| ())
}
