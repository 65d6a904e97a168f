//! The HTTP door. Handlers convert and call; `problem` turns every error into RFC 9457; nothing here reaches a source.

pub mod limits;
mod actions;
mod allowed;
mod answers;
mod artifacts;
mod automations;
mod body;
mod batches;
mod breakers;
mod caller;
mod card;
mod cloud_events;
mod compat;
mod canaries;
mod channels;
mod connections;
mod consents;
mod crossings;
mod dead_letters;
mod describe;
mod docs;
mod documents;
mod drafts;
mod event_groups;
mod events;
mod explain;
mod facts;
mod filters;
mod foresight;
mod grants;
mod health;
mod hints;
mod hooks;
mod html;
mod inbox;
mod invitation;
mod invocations;
mod keys;
mod links;
mod listener;
mod login;
mod meanwhile;
mod modes;
mod named;
mod observe;
mod orgs;
mod page;
mod packages;
mod pages;
mod policies;
mod prices;
mod problem;
mod progress;
mod quarantines;
mod reached;
mod receipts;
mod retention;
mod reviews;
mod routes;
mod runs;
mod secrets;
mod sessions;
mod sign_in;
mod slack;
mod socket;
mod sources;
mod spaces;
mod stalled;
mod stream;
mod switches;
mod teller;
mod tokens;
mod trace;
mod users;
mod web;

pub use caller::{Caller, bearer, needs_token};
pub use listener::{Way, address_of, is_open_to_others, listen, reachable, serve, serve_health, serve_over};
pub use meanwhile::answer_meanwhile;
pub use page::Asked;
pub use problem::Refusal;
pub use reached::{OwnAddress, Reached};

use axum::Router;
use operations::App;
use routes::Routes;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

#[derive(OpenApi)]
#[openapi(
    info(title = "Countersign", description = "The action control plane for AI agents.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    servers((url = "/", description = "The server that answers.")),
    modifiers(&BearerToken),
    components(schemas(
        countersign_core::grant::GrantStateName,
        api::invocation::ProgressEvent,
        api::invocation::MissedEvent,
        api::invocation::EndEvent,
        api::stream::StreamEvent,
        api::stream::StreamNotice,
        api::stream::AuthenticateMessage,
        api::stream::AnswerMessage,
        api::stream::MessageAnswer
    )),
    security(("token" = []))
)]
struct Document;

struct BearerToken;

impl utoipa::Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let scheme =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("A token of a user, an agent or a service.")).build();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// Every route.
fn routes() -> Routes {
    let mut routes = Routes::default();
    for group in [calls, records, rules, holdings, automations_and_runs, pages_and_logins] {
        group(&mut routes);
    }
    routes
}

// Each path is written in full: a router nested under a prefix would take it off every request again.

/// Sessions, actions and calls.
fn calls(routes: &mut Routes) {
    routes::add!(
        routes:
        health::whoami,
        health::status,
        sessions::list,
        sessions::create,
        sessions::show,
        sessions::end,
        actions::available,
        actions::session_guide,
        invocations::invoke,
        invocations::list_of_session,
        invocations::show_in_session,
        answers::approve_in_session,
        answers::deny_in_session,
        actions::list,
        actions::show,
        actions::stats,
        actions::guide,
        invocations::list,
        invocations::show,
        progress::follow,
        answers::approve,
        answers::deny,
        answers::approve_many,
        answers::snooze,
        invocations::revert,
        foresight::foresee_revert,
        answers::settle,
        foresight::foresight,
        batches::create,
        batches::list,
        batches::show,
        breakers::list,
        breakers::close,
        compat::execute,
        compat::show_request,
        compat::plan,
        compat::show_plan,
    );
}

/// Events, receipts and keys.
fn records(routes: &mut Routes) {
    routes::add!(
        routes:
        stream::follow,
        socket::connect,
        events::list,
        events::send,
        events::show,
        events::types,
        filters::test,
        event_groups::list,
        event_groups::show,
        event_groups::make,
        event_groups::remove,
        event_groups::claim,
        event_groups::ack,
        event_groups::nack,
        event_groups::reset,
        event_groups::replay,
        dead_letters::list,
        dead_letters::show,
        dead_letters::retry,
        dead_letters::drop_letter,
        links::create,
        invocations::entries,
        receipts::list,
        receipts::export,
        receipts::integrity,
        receipts::show,
        receipts::prove,
        keys::checkpoint,
        keys::list,
        keys::rotate,
        keys::master,
        keys::replace_master,
    );
}

/// What decides.
fn rules(routes: &mut Routes) {
    routes::add!(
        routes:
        modes::list,
        modes::replace,
        modes::versions,
        modes::set,
        modes::unset,
        modes::set_for_automation,
        modes::unset_for_automation,
        prices::list,
        prices::set,
        prices::remove,
        grants::list,
        grants::create,
        grants::list_of_session,
        grants::create_in_session,
        grants::show,
        grants::revoke,
        grants::approve,
        grants::refuse,
        switches::list,
        switches::on,
        switches::off,
        reviews::list,
        reviews::show,
        reviews::review,
        spaces::list,
        spaces::create,
        spaces::show,
        spaces::change,
        spaces::add_member,
        spaces::open,
        spaces::remove_member,
        observe::report,
        crossings::list,
        crossings::allow,
        crossings::forbid,
        policies::show,
        policies::set,
        policies::versions,
        policies::schema,
        policies::check,
        policies::what_if,
        explain::explain,
        consents::list,
        consents::give,
        consents::withdraw,
        quarantines::list,
        quarantines::show,
        quarantines::payload,
        quarantines::release,
        quarantines::discard,
        canaries::list,
        canaries::add,
        canaries::remove,
    );
}

/// What an org has: packages, people, credentials, channels, sources.
fn holdings(routes: &mut Routes) {
    routes::add!(
        routes:
        packages::list,
        packages::show,
        packages::install,
        packages::remove,
        users::list,
        users::create,
        users::change,
        users::disable,
        users::invite,
        tokens::list,
        tokens::create,
        tokens::revoke,
        tokens::redeem,
        secrets::list,
        secrets::show,
        secrets::set,
        secrets::delete,
        secrets::used_by,
        connections::list,
        connections::create,
        connections::show,
        connections::remove,
        connections::test,
        connections::login,
        connections::start_login,
        connections::callback,
        connections::client,
        channels::kinds,
        channels::list,
        channels::add,
        channels::show,
        channels::remove,
        channels::test,
        channels::retry,
        channels::drop_letters,
        channels::deliveries,
        slack::interact,
        sources::list,
        sources::add,
        sources::show,
        sources::edit,
        sources::remove,
        sources::test,
        sources::refresh,
        sources::review,
        sources::drift,
        allowed::list,
        allowed::add,
        allowed::plan,
        allowed::remove,
        orgs::list,
        orgs::create,
        orgs::disable,
        retention::show,
        retention::set,
    );
}

/// Automations and their runs.
fn automations_and_runs(routes: &mut Routes) {
    routes::add!(
        routes:
        automations::list,
        automations::create,
        automations::validate,
        automations::dry_run,
        automations::import,
        automations::show,
        automations::save,
        automations::plan_of,
        automations::diff,
        automations::pause,
        automations::resume,
        automations::archive,
        automations::versions,
        automations::export,
        automations::run,
        automations::triggers,
        automations::enable,
        automations::disable,
        automations::rotate_token,
        automations::firings,
        hooks::fire,
        drafts::list,
        drafts::show,
        drafts::discard,
        drafts::save,
        documents::list,
        documents::show,
        runs::list,
        runs::show,
        runs::cancel,
        runs::rerun,
        artifacts::list,
        artifacts::show,
        artifacts::link,
        artifacts::quarantine,
        artifacts::download,
        automations::automation_schema,
        automations::filter_schema,
    );
}

/// Pages, and who sits at a browser.
fn pages_and_logins(routes: &mut Routes) {
    routes::add!(
        routes:
        health::notifications,
        health::openapi,
        health::healthz,
        health::readyz,
        health::metrics,
        pages::welcome,
        pages::error,
        pages::errors,
        pages::page,
        pages::top_page,
        links::show,
        links::answer,
        inbox::home,
        inbox::show,
        inbox::answer,
        login::show,
        login::log_in,
        login::log_out,
        login::word,
        login::show_once,
        login::log_in_once,
        invitation::show,
        invitation::accept,
        sign_in::start,
        sign_in::come_back,
    );
}

/// Every route, without what `trace` puts around each answer. Those beside ours are of a door whose protocol describes itself.
fn router(app: App, beside: Router<App>) -> Router {
    // Only what `routes` lists is served, and that is described: a route added here would be known to nobody.
    routes().router.merge(beside).fallback(web::or_unknown).method_not_allowed_fallback(problem::method_not_allowed).with_state(app)
}

/// The API's description, generated from the code above; committed as a golden file.
pub fn openapi_json() -> String {
    let mut document = Document::openapi();
    routes().describe(&mut document);
    describe::describe(&mut document);
    document.to_pretty_json().map(|text| text + "\n").unwrap_or_default()
}
