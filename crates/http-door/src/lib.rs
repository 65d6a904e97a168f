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
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

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

/// Every route, with its description. One function for all of them would need more than the stack of a thread.
fn routes() -> (Router<App>, utoipa::openapi::OpenApi) {
    let groups = [calls, records, rules, holdings, automations_and_runs, pages_and_logins];
    groups.into_iter().fold(OpenApiRouter::with_openapi(Document::openapi()), |routes, group| group(routes)).split_for_parts()
}

// Each path is written in full: a router nested under a prefix would take it off every request again.

/// Sessions, actions and calls.
fn calls(routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    routes
        .routes(routes!(health::whoami))
        .routes(routes!(health::status))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::show))
        .routes(routes!(sessions::end))
        .routes(routes!(actions::available))
        .routes(routes!(actions::session_guide))
        .routes(routes!(invocations::invoke))
        .routes(routes!(invocations::list_of_session))
        .routes(routes!(invocations::show_in_session))
        .routes(routes!(answers::approve_in_session))
        .routes(routes!(answers::deny_in_session))
        .routes(routes!(actions::list))
        .routes(routes!(actions::show))
        .routes(routes!(actions::stats))
        .routes(routes!(actions::guide))
        .routes(routes!(invocations::list))
        .routes(routes!(invocations::show))
        .routes(routes!(progress::follow))
        .routes(routes!(answers::approve))
        .routes(routes!(answers::deny))
        .routes(routes!(answers::approve_many))
        .routes(routes!(answers::snooze))
        .routes(routes!(invocations::revert, foresight::foresee_revert))
        .routes(routes!(answers::settle))
        .routes(routes!(foresight::foresight))
        .routes(routes!(batches::create))
        .routes(routes!(batches::list))
        .routes(routes!(batches::show))
        .routes(routes!(breakers::list))
        .routes(routes!(breakers::close))
        .routes(routes!(compat::execute))
        .routes(routes!(compat::show_request))
        .routes(routes!(compat::plan))
        .routes(routes!(compat::show_plan))
}

/// Events, receipts and keys.
fn records(routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    routes
        .routes(routes!(stream::follow))
        .routes(routes!(socket::connect))
        .routes(routes!(events::list, events::send))
        .routes(routes!(events::show))
        .routes(routes!(events::types))
        .routes(routes!(filters::test))
        .routes(routes!(event_groups::list))
        .routes(routes!(event_groups::show, event_groups::make, event_groups::remove))
        .routes(routes!(event_groups::claim))
        .routes(routes!(event_groups::ack))
        .routes(routes!(event_groups::nack))
        .routes(routes!(event_groups::reset))
        .routes(routes!(event_groups::replay))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::retry))
        .routes(routes!(dead_letters::drop_letter))
        .routes(routes!(links::create))
        .routes(routes!(invocations::entries))
        .routes(routes!(receipts::list))
        .routes(routes!(receipts::export))
        .routes(routes!(receipts::integrity))
        .routes(routes!(receipts::show))
        .routes(routes!(receipts::prove))
        .routes(routes!(keys::checkpoint))
        .routes(routes!(keys::list))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::master, keys::replace_master))
}

/// What decides.
fn rules(routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    routes
        .routes(routes!(modes::list, modes::replace))
        .routes(routes!(modes::versions))
        .routes(routes!(modes::set, modes::unset))
        .routes(routes!(modes::set_for_automation, modes::unset_for_automation))
        .routes(routes!(prices::list))
        .routes(routes!(prices::set, prices::remove))
        .routes(routes!(grants::list, grants::create))
        .routes(routes!(grants::list_of_session, grants::create_in_session))
        .routes(routes!(grants::show, grants::revoke))
        .routes(routes!(grants::approve))
        .routes(routes!(grants::refuse))
        .routes(routes!(switches::list))
        .routes(routes!(switches::on))
        .routes(routes!(switches::off))
        .routes(routes!(reviews::list))
        .routes(routes!(reviews::show, reviews::review))
        .routes(routes!(spaces::list, spaces::create))
        .routes(routes!(spaces::show, spaces::change))
        .routes(routes!(spaces::add_member, spaces::open))
        .routes(routes!(spaces::remove_member))
        .routes(routes!(observe::report))
        .routes(routes!(crossings::list, crossings::allow, crossings::forbid))
        .routes(routes!(policies::show, policies::set))
        .routes(routes!(policies::versions))
        .routes(routes!(policies::schema))
        .routes(routes!(policies::check))
        .routes(routes!(policies::what_if))
        .routes(routes!(explain::explain))
        .routes(routes!(consents::list, consents::give))
        .routes(routes!(consents::withdraw))
        .routes(routes!(quarantines::list))
        .routes(routes!(quarantines::show))
        .routes(routes!(quarantines::payload))
        .routes(routes!(quarantines::release))
        .routes(routes!(quarantines::discard))
        .routes(routes!(canaries::list, canaries::add))
        .routes(routes!(canaries::remove))
}

/// What an org has: packages, people, credentials, channels, sources.
fn holdings(routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    routes
        .routes(routes!(packages::list))
        .routes(routes!(packages::show, packages::install, packages::remove))
        .routes(routes!(users::list, users::create))
        .routes(routes!(users::change))
        .routes(routes!(users::disable))
        .routes(routes!(users::invite))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(tokens::redeem))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::show, secrets::set, secrets::delete))
        .routes(routes!(secrets::used_by))
        .routes(routes!(connections::list, connections::create))
        .routes(routes!(connections::show, connections::remove))
        .routes(routes!(connections::test))
        .routes(routes!(connections::login, connections::start_login))
        .routes(routes!(connections::callback))
        .routes(routes!(connections::client))
        .routes(routes!(channels::list, channels::add))
        .routes(routes!(channels::show, channels::remove))
        .routes(routes!(channels::test))
        .routes(routes!(channels::retry))
        .routes(routes!(channels::drop_letters))
        .routes(routes!(channels::deliveries))
        .routes(routes!(slack::interact))
        .routes(routes!(sources::list, sources::add))
        .routes(routes!(sources::show, sources::edit, sources::remove))
        .routes(routes!(sources::test))
        .routes(routes!(sources::refresh))
        .routes(routes!(sources::review))
        .routes(routes!(sources::drift))
        .routes(routes!(allowed::list, allowed::add))
        .routes(routes!(allowed::plan))
        .routes(routes!(allowed::remove))
        .routes(routes!(orgs::list, orgs::create))
        .routes(routes!(orgs::disable))
        .routes(routes!(retention::show, retention::set))
}

/// Automations and their runs.
fn automations_and_runs(routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    routes
        .routes(routes!(automations::list, automations::create))
        .routes(routes!(automations::validate))
        .routes(routes!(automations::dry_run))
        .routes(routes!(automations::import))
        .routes(routes!(automations::show, automations::save))
        .routes(routes!(automations::plan_of))
        .routes(routes!(automations::diff))
        .routes(routes!(automations::pause))
        .routes(routes!(automations::resume))
        .routes(routes!(automations::archive))
        .routes(routes!(automations::versions))
        .routes(routes!(automations::export))
        .routes(routes!(automations::run))
        .routes(routes!(automations::triggers))
        .routes(routes!(automations::enable))
        .routes(routes!(automations::disable))
        .routes(routes!(automations::rotate_token))
        .routes(routes!(automations::firings))
        .routes(routes!(hooks::fire))
        .routes(routes!(drafts::list))
        .routes(routes!(drafts::show, drafts::discard))
        .routes(routes!(drafts::save))
        .routes(routes!(documents::list))
        .routes(routes!(documents::show))
        .routes(routes!(runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::rerun))
        .routes(routes!(artifacts::list))
        .routes(routes!(artifacts::show))
        .routes(routes!(artifacts::link))
        .routes(routes!(artifacts::quarantine))
        .routes(routes!(artifacts::download))
        .routes(routes!(automations::automation_schema))
        .routes(routes!(automations::filter_schema))
}

/// Pages, and who sits at a browser.
fn pages_and_logins(routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    routes
        .routes(routes!(health::notifications))
        .routes(routes!(health::openapi))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(pages::welcome))
        .routes(routes!(pages::error))
        .routes(routes!(pages::errors))
        .routes(routes!(pages::page))
        .routes(routes!(pages::top_page))
        .routes(routes!(links::show, links::answer))
        .routes(routes!(inbox::home))
        .routes(routes!(inbox::show, inbox::answer))
        .routes(routes!(login::show, login::log_in))
        .routes(routes!(login::log_out))
        .routes(routes!(login::word))
        .routes(routes!(login::show_once, login::log_in_once))
        .routes(routes!(invitation::show, invitation::accept))
        .routes(routes!(sign_in::start))
        .routes(routes!(sign_in::come_back))
}

/// Every route, without what `trace` puts around each answer. Those beside ours are of a door whose protocol describes itself.
fn router(app: App, beside: Router<App>) -> Router {
    // Only what `routes` lists is served, and that is described: a route added here would be known to nobody.
    let (api, _) = routes();
    api.merge(beside).fallback(web::or_unknown).method_not_allowed_fallback(problem::method_not_allowed).with_state(app)
}

/// The API's description, generated from the code above; committed as a golden file.
pub fn openapi_json() -> String {
    let (_, mut document) = routes();
    describe::describe(&mut document);
    document.to_pretty_json().map(|text| text + "\n").unwrap_or_default()
}
