//! Installing and removing packages.

use super::{Error, must, must_be_person};
use crate::App;
use countersign_core::ports::sources::{AddedSource, McpServer};
use countersign_core::ports::{AddedSources, Invocations};
use countersign_core::principal::Permission;
use countersign_core::{Action, Digest, OrgId, Principal};
use homes::packages::findings_of;
use sources::package::{Origin, PackageFiles, Packages};
use std::sync::Arc;

/// Installs a package, or another version of it, and returns its actions. If its scan found something, a person must have read and accepted
/// it. New actions then count as reviewed by whoever installs the package.
pub async fn install(
    app: &App,
    by: &Principal,
    name: &str,
    files: PackageFiles,
    accepts_findings: bool,
) -> Result<Vec<Arc<Action>>, Error> {
    must(by, Permission::ManagePolicy)?;
    let packages = packages_of(app, &by.org)?;
    must_be_no_source(app, by, name).await?;
    let (files, owned) = (Arc::new(files), name.to_owned());
    let checked = blocking({
        let (packages, name, files) = (Arc::clone(&packages), owned.clone(), Arc::clone(&files));
        move || packages.check(&name, &files)
    });
    let findings = findings_of(&checked.await??, &app.pipeline().actions_now(&by.org).await);
    if !findings.is_empty() && !accepts_findings {
        return Err(Error::Findings { name: owned, findings });
    }
    if !findings.is_empty() {
        must_be_person(by, "accepts what was found in a package")?;
    }
    let sha256 = Packages::digest(&files);
    let installed = blocking({
        let (packages, name) = (Arc::clone(&packages), owned.clone());
        move || packages.install(&name, &files)
    });
    let actions = installed.await??;
    let noted = note_installed(app, by, packages, &owned, &actions, sha256).await;
    noted.map_err(|why| half_installed(&why, &owned))?;
    Ok(actions)
}

/// A package under the name of an added source would take its place, and with it everything that was set for its actions.
async fn must_be_no_source(app: &App, by: &Principal, name: &str) -> Result<(), Error> {
    let added = app.store().added_sources(&by.org).await?;
    let is_taken = added.iter().any(|source| source.id.as_str() == name);
    if is_taken { Err(Error::SourceTaken { name: name.to_owned() }) } else { Ok(()) }
}

/// Records who installed the package, and that they have looked at its actions. Its files are in place already.
async fn note_installed(
    app: &App,
    by: &Principal,
    packages: Arc<Packages>,
    name: &str,
    actions: &[Arc<Action>],
    sha256: Digest,
) -> Result<(), Error> {
    for action in actions {
        app.pipeline().review_installed(by, &action.id, None).await?;
    }
    let origin = Origin { by: by.id.to_string(), at: app.store().now().await?, sha256 };
    let name = name.to_owned();
    blocking(move || packages.note_origin(&name, &origin)).await
}

/// For what fails once the files of a package are in place.
pub fn half_installed(why: &dyn std::fmt::Display, name: &str) -> Error {
    Error::interrupted(why, format!("package `{name}` is installed, and its actions may not all be reviewed"), format!("packages/{name}"))
}

/// Removes a package. One that a source is the MCP server of stays: the source would have nothing to run.
pub async fn remove(app: &App, by: &Principal, name: &str) -> Result<(), Error> {
    must(by, Permission::ManagePolicy)?;
    must_be_unused(app, by, name).await?;
    let (packages, owned) = (packages_of(app, &by.org)?, name.to_owned());
    let removed = blocking(move || packages.remove(&owned)).await??;
    if removed { Ok(()) } else { Err(Error::not_found("package", name)) }
}

async fn must_be_unused(app: &App, by: &Principal, name: &str) -> Result<(), Error> {
    let is_user = |source: &&AddedSource| match &source.settings.server {
        McpServer::Package { package, .. } => package.as_str() == name,
        McpServer::Http { .. } | McpServer::Program { .. } => false,
    };
    let added = app.store().added_sources(&by.org).await?;
    let sources: Vec<_> = added.iter().filter(is_user).map(|source| source.id.clone()).collect();
    if sources.is_empty() { Ok(()) } else { Err(Error::PackageInUse { name: name.to_owned(), sources }) }
}

pub fn packages_of(app: &App, org: &OrgId) -> Result<Arc<Packages>, Error> {
    app.packages(org).ok_or(Error::NoPackages)
}

/// Packages are on the disk, so their functions block.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| pipeline::Error::Internal { message: "the packages could not be looked at".to_owned() }.into())
}
