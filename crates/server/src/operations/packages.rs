//! Who installs and removes packages.

use super::{Error, must, must_be_person};
use countersign_core::Principal;
use countersign_core::principal::Permission;

/// Whoever manages rules installs and removes packages; what was found in one is accepted by a person.
pub(crate) fn may_manage(by: &Principal) -> Result<(), Error> {
    must(by, Permission::ManagePolicy)
}

pub(crate) fn may_accept_findings(by: &Principal) -> Result<(), Error> {
    may_manage(by)?;
    must_be_person(by, "accepts what was found in a package").map(|_| ())
}
