//! Packages: actions whose code others wrote. Whoever installs one has looked at it: that is the review of each of its actions, so what
//! is odd about them is told first.

use super::body::Large;
use super::caller::Caller;
use super::problem::Refusal;
use crate::App;
use crate::packages::{findings_of, unread};
use api::package::{InstallPackageRequest, PackageActionView, PackageFindingView, PackageView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use countersign_core::Action;
use countersign_core::ledger::Wording;
use countersign_core::limits::PACKAGE_RUNS_AT_ONCE;
use countersign_core::principal::Permission;
use sources::package::{PackageFile, PackageFiles, Packages, Refused};
use std::sync::Arc;

/// Installed packages, with their actions or why they cannot be used.
#[utoipa::path(operation_id = "packages_list", get, path = "/api/v1/packages", tag = "packages",
    responses((status = 200, body = Page<PackageView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<PackageView>>, Refusal> {
    caller.must(Permission::Read)?;
    let packages = installed_in(&app)?;
    let listed = blocking({
        let packages = Arc::clone(&packages);
        move || packages.list()
    })
    .await?;
    let others = app.pipeline().actions_now(&caller.principal.org).await;
    let items = listed.into_iter().map(|installed| match installed.actions {
        Ok(actions) => view(&packages, installed.name.as_str(), &actions, None, findings_of(&actions, &others)),
        Err(why) => view(&packages, installed.name.as_str(), &[], Some(why), Vec::new()),
    });
    Ok(Json(Page { items: items.collect(), next: None }))
}

/// Installs a package, or another version of it. Each of its actions counts as reviewed by whoever installs it, who says besides that
/// what is odd about them was read, where something is.
///
/// What the version before did can still be reverted.
#[utoipa::path(operation_id = "packages_install", put, path = "/api/v1/packages/{name}", tag = "packages", params(("name" = String, Path)), request_body = InstallPackageRequest,
    responses((status = 200, body = PackageView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn install(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Large(body): Large<InstallPackageRequest>,
) -> Result<Json<PackageView>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let packages = installed_in(&app)?;
    let accepts = body.accept_findings;
    let files = Arc::new(files_of(body)?);
    let checked = blocking({
        let (packages, name, files) = (Arc::clone(&packages), name.clone(), Arc::clone(&files));
        move || packages.check(&name, &files)
    });
    let checked = checked.await?.map_err(refusal)?;
    let findings = findings_of(&checked, &app.pipeline().actions_now(&caller.principal.org).await);
    if !findings.is_empty() && !accepts {
        return Err(Refusal(Box::new(unread(&name, &findings))));
    }
    // What was read was read by a person.
    if !findings.is_empty() && !caller.principal.may(Permission::Approve) {
        return Err(Refusal::new(Code::Forbidden, "only a person accepts what was found in a package").hint("ask an admin to install it"));
    }
    let actions = blocking({
        let (packages, name) = (Arc::clone(&packages), name.clone());
        move || packages.install(&name, &files)
    })
    .await?
    .map_err(refusal)?;
    for action in &actions {
        app.pipeline().review(&caller.principal, &action.id, None, Wording::Reviewed).await?;
    }
    Ok(Json(view(&packages, &name, &actions, None, findings)))
}

/// Removes a package. What its actions did stays, with its receipts, and can still be reverted.
#[utoipa::path(operation_id = "packages_remove", delete, path = "/api/v1/packages/{name}", tag = "packages", params(("name" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(name): Path<String>) -> Result<StatusCode, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let packages = installed_in(&app)?;
    let wanted = name.clone();
    let removed = blocking(move || packages.remove(&wanted)).await?.map_err(refusal)?;
    if removed { Ok(StatusCode::NO_CONTENT) } else { Err(Refusal::not_found("package", &name)) }
}

fn installed_in(app: &App) -> Result<Arc<Packages>, Refusal> {
    app.packages().map(Arc::clone).ok_or_else(|| Refusal::new(Code::PackageInvalid, "this server takes no packages"))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::new(Code::Internal, "the packages could not be looked at"))
}

fn files_of(body: InstallPackageRequest) -> Result<PackageFiles, Refusal> {
    let mut files = PackageFiles::new();
    for (path, file) in body.files {
        let bytes = STANDARD.decode(&file.base64).map_err(|_| Refusal::new(Code::InvalidRequest, format!("`{path}` is not in base64")))?;
        files.insert(path, PackageFile { bytes: bytes.into(), is_executable: file.executable });
    }
    Ok(files)
}

fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::Invalid { .. } => Refusal(Box::new(crate::packages::problem_of(&refused))),
        Refused::Disk { .. } => Refusal::new(Code::StoreUnavailable, refused.to_string()),
    }
}

fn view(packages: &Packages, name: &str, actions: &[Arc<Action>], error: Option<String>, findings: Vec<PackageFindingView>) -> PackageView {
    let actions = actions.iter().map(|action| PackageActionView {
        id: action.id.to_string(),
        tier: action.tier,
        title: action.title.clone(),
        package_sha256: action.package_sha256.map(|digest| digest.to_string()),
        profile: action.profile,
    });
    PackageView {
        name: name.to_owned(),
        actions: actions.collect(),
        error,
        code_allowed: packages.may_run_code(),
        runs_at_once: PACKAGE_RUNS_AT_ONCE as u32,
        findings,
    }
}
