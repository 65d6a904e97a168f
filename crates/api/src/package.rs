//! Packages on the wire.

use countersign_core::Tier;
use countersign_core::action::Profile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Every file of a package, by its path in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstallPackageRequest {
    pub files: BTreeMap<String, PackageFileBody>,
    /// A person has read the findings. Without it, a package with findings is refused.
    #[serde(default)]
    pub accept_findings: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PackageFileBody {
    /// Its bytes, in base64.
    pub base64: String,
    #[serde(default)]
    pub executable: bool,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackageView {
    pub name: String,
    pub actions: Vec<PackageActionView>,
    /// Why it cannot be used, where it cannot.
    pub error: Option<String>,
    /// Whether this server runs the code of packages.
    pub code_allowed: bool,
    /// Calls of it whose code runs at the same time; the next wait for a turn.
    pub runs_at_once: u32,
    /// Safety findings in the definitions of its actions.
    pub findings: Vec<PackageFindingView>,
}

/// What the scan of definitions found in one action of a package. It never quotes what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackageFindingView {
    pub action: String,
    /// The file that says it, and where in it (RFC 6901).
    pub file: String,
    pub pointer: String,
    pub rule: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackageActionView {
    pub id: String,
    pub tier: Tier,
    pub title: String,
    /// Digest of the action's folder: other code is another definition.
    pub package_sha256: Option<String>,
    /// The isolation its code runs in.
    pub profile: Profile,
}
