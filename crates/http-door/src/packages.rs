//! Packages: actions whose code others wrote. Whoever installs one has looked at it: that is the first review of each of its actions, so
//! what is odd about them is told first. What changed since needs a review of its own.

use super::body::Large;
use super::caller::Caller;
use super::problem::Refusal;
use api::package::{InstallPackageRequest, PackageActionView, PackageFileView, PackageServerView, PackageView};
use api::{Code, Page};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use countersign_core::{Action, SourceId};
use homes::limits::PACKAGE_RUNS_AT_ONCE;
use homes::packages::findings_of;
use operations::App;
use operations::packages::{self, blocking, half_installed, packages_of};
use sources::package::{Details, Installed, PackageFile, PackageFiles, PackageServer, Packages};
use std::sync::Arc;

/// Installed packages, with their actions or why they cannot be used.
#[utoipa::path(operation_id = "packages_list", get, path = "/api/v1/packages", tag = "packages",
    responses((status = 200, body = Page<PackageView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<PackageView>>, Refusal> {
    caller.must_read()?;
    let packages = packages_of(&app, &caller.principal.org)?;
    let listed = blocking({
        let packages = Arc::clone(&packages);
        move || packages.list()
    })
    .await?;
    let mut items = Vec::with_capacity(listed.len());
    for installed in listed {
        items.push(view(&app, &caller, &packages, installed).await?);
    }
    Ok(Json(Page { items, next: None }))
}

/// One package: its actions with their manifests, its files, and who installed it.
#[utoipa::path(operation_id = "packages_show", get, path = "/api/v1/packages/{name}", tag = "packages", params(("name" = String, Path)),
    responses((status = 200, body = PackageView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(name): Path<String>) -> Result<Json<PackageView>, Refusal> {
    caller.must_read()?;
    let packages = packages_of(&app, &caller.principal.org)?;
    let found = blocking({
        let (packages, name) = (Arc::clone(&packages), name.clone());
        move || (packages.list().into_iter().find(|installed| installed.name.as_str() == name), packages.details(&name))
    });
    let (installed, details) = found.await?;
    let installed = installed.ok_or_else(|| Refusal::not_found("package", &name))?;
    let mut view = view(&app, &caller, &packages, installed).await?;
    if let Some(Details { files, sha256, folder, origin }) = details {
        for action in &mut view.actions {
            let path = format!("actions/{}/action.json", action.id.split_once('.').map_or("", |(_, name)| name));
            action.manifest = files.get(&path).and_then(|file| serde_json::from_slice(&file.bytes).ok());
        }
        view.sha256 = Some(sha256.to_string());
        view.folder = Some(folder.display().to_string());
        view.edited = origin.as_ref().is_some_and(|origin| origin.sha256 != sha256);
        view.installed_at = origin.as_ref().map(|origin| origin.at);
        view.installed_by = origin.map(|origin| origin.by);
        view.files = files.iter().map(|(path, file)| file_view(path, file)).collect();
    }
    Ok(Json(view))
}

fn file_view(path: &str, file: &PackageFile) -> PackageFileView {
    PackageFileView {
        path: path.to_owned(),
        bytes: file.bytes.len() as u64,
        sha256: file.sha256().to_string(),
        executable: file.is_executable,
    }
}

/// Installs a package, or another version of it. If the scan found something, `accept_findings` confirms that you have read it.
///
/// An action that is new counts as reviewed by whoever installs it. One that was reviewed as something else needs a review again: until then
/// its calls need approval.
///
/// What the version before did can still be reverted.
#[utoipa::path(operation_id = "packages_install", put, path = "/api/v1/packages/{name}", tag = "packages", params(("name" = String, Path)), request_body = InstallPackageRequest,
    responses((status = 200, body = PackageView)))]
pub(super) async fn install(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Large(body): Large<InstallPackageRequest>,
) -> Result<Json<PackageView>, Refusal> {
    let accepts_findings = body.accept_findings;
    let actions = packages::install(&app, &caller.principal, &name, files_of(body)?, accepts_findings).await?;
    let name = SourceId::parse(&name).map_err(|_| Refusal::not_found("package", &name))?;
    let packages = packages_of(&app, &caller.principal.org)?;
    let shown = view(&app, &caller, &packages, Installed { name: name.clone(), actions: Ok(actions) }).await;
    Ok(Json(shown.map_err(|refusal| half_installed(&refusal.0.detail, name.as_str()))?))
}

/// Removes a package. What its actions did stays, with its receipts, and can still be reverted.
#[utoipa::path(operation_id = "packages_remove", delete, path = "/api/v1/packages/{name}", tag = "packages", params(("name" = String, Path)),
    responses((status = 204)))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(name): Path<String>) -> Result<StatusCode, Refusal> {
    packages::remove(&app, &caller.principal, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn files_of(body: InstallPackageRequest) -> Result<PackageFiles, Refusal> {
    let mut files = PackageFiles::new();
    for (path, file) in body.files {
        let bytes = STANDARD.decode(&file.base64).map_err(|_| Refusal::new(Code::InvalidRequest, format!("`{path}` is not in base64")))?;
        files.insert(path, PackageFile { bytes: bytes.into(), is_executable: file.executable });
    }
    Ok(files)
}

async fn view(app: &App, caller: &Caller, packages: &Packages, installed: Installed) -> Result<PackageView, Refusal> {
    let (actions, error) = match installed.actions {
        Ok(actions) => (actions, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let org = &caller.principal.org;
    let others = app.pipeline().actions_now(org).await;
    let mut cannot_run = packages.cannot_run(&installed.name).await;
    let mut views = Vec::with_capacity(actions.len());
    for action in &actions {
        let now = app.pipeline().definition_of(org, &action.id).await?;
        let review = app.store().find_review(org, &action.id).await?;
        views.push(PackageActionView {
            id: action.id.to_string(),
            tier: action.tier,
            title: action.title.clone(),
            package_sha256: action.package_sha256.map(|digest| digest.to_string()),
            profile: action.profile,
            drift: review.zip(now).map(|(review, now)| now.drift_from(&review.pin)),
            cannot_run: cannot_run.remove(&action.id).or_else(|| no_profile(app, action)),
            manifest: None,
        });
    }
    Ok(PackageView {
        name: installed.name.to_string(),
        findings: findings_of(&actions, &others),
        actions: views,
        mcp_server: match packages.server(&installed.name) {
            Ok(server) => Some(server_view(&server).await),
            Err(_) => None,
        },
        error,
        code_allowed: packages.may_run_code(),
        runs_at_once: PACKAGE_RUNS_AT_ONCE as u32,
        sha256: None,
        folder: None,
        installed_by: None,
        installed_at: None,
        edited: false,
        files: Vec::new(),
    })
}

async fn server_view(server: &PackageServer) -> PackageServerView {
    let manifest = server.manifest();
    PackageServerView {
        command: manifest.command.clone(),
        env: manifest.env.clone(),
        hosts: manifest.hosts.iter().map(ToString::to_string).collect(),
        sees_workspace: manifest.sees_workspace(),
        memory_mb: manifest.memory_mb,
        cannot_run: server.cannot_run().await,
    }
}

fn no_profile(app: &App, action: &Action) -> Option<String> {
    let profile = action.profile;
    let is_there = app.parts.profiles.as_ref().is_none_or(|profiles| profiles.contains(&profile));
    (!is_there).then(|| format!("the sandbox profile `{profile}` is not available on this server"))
}
