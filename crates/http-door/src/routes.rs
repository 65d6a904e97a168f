//! The table of routes: each is served, and described as `#[utoipa::path]` above its handler says. The description is made when it is asked
//! for and not when a server starts, because it takes long.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use operations::App;
use std::pin::Pin;
use std::sync::Arc;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{HttpMethod, OpenApi, RefOr};
// `utoipa::path` implements these for each handler, and its own routers read them.
use utoipa::__dev::{SchemaReferences, Tags};

#[derive(Default)]
pub(crate) struct Routes {
    pub(crate) router: Router<App>,
    descriptions: Vec<fn(&mut OpenApi)>,
}

/// `add!(routes: module::handler, …)` adds handlers, each with what `#[utoipa::path]` says above it.
macro_rules! add {
    ($routes:ident: $($module:ident::$handler:ident),* $(,)?) => {
        pastey::paste! { $($routes.add::<$module::[<__path_ $handler>], _, _>($module::$handler);)* }
    };
}
pub(crate) use add;

impl Routes {
    pub(crate) fn add<D, H, T>(&mut self, handler: H)
    where
        D: utoipa::Path + SchemaReferences + for<'t> Tags<'t>,
        H: Handler<T, App, Future = Answer>,
        T: 'static,
    {
        self.serve(&D::path(), &D::methods(), Erased(Arc::new(move |request, app| handler.clone().call(request, app))));
        self.descriptions.push(|document| {
            let mut schemas = Vec::new();
            D::schemas(&mut schemas);
            describe(document, D::path(), D::methods(), D::operation(), D::tags(), schemas);
        });
    }

    fn serve(&mut self, path: &str, methods: &[HttpMethod], handler: Erased) {
        for method in methods {
            self.router = std::mem::take(&mut self.router).route(path, on(filter(method), handler.clone()));
        }
    }

    pub(crate) fn describe(&self, document: &mut OpenApi) {
        for describe in &self.descriptions {
            describe(document);
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler whose type is forgotten, so that the router's own generic code is compiled once and not for each of the handlers.
#[derive(Clone)]
struct Erased(Arc<dyn Fn(Request, App) -> Answer + Send + Sync>);

impl Handler<(), App> for Erased {
    type Future = Answer;

    fn call(self, request: Request, app: App) -> Answer {
        (self.0)(request, app)
    }
}

fn describe(
    document: &mut OpenApi,
    path: String,
    methods: Vec<HttpMethod>,
    mut operation: Operation,
    tags: Vec<&str>,
    schemas: Vec<(String, RefOr<Schema>)>,
) {
    operation.tags.get_or_insert_default().extend(tags.into_iter().map(str::to_owned));
    document.paths.add_path_operation(path, methods, operation);
    document.components.get_or_insert_default().schemas.extend(schemas);
}

const fn filter(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
    }
}
