//! The table of routes: each is served, and described as `#[utoipa::path]` above its handler says. The description is made when it is asked
//! for and not when a server starts, because it takes long.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use operations::App;
use utoipa::openapi::{HttpMethod, OpenApi};
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
        H: Handler<T, App>,
        T: 'static,
    {
        for method in D::methods() {
            self.router = std::mem::take(&mut self.router).route(&D::path(), on(filter(&method), handler.clone()));
        }
        self.descriptions.push(describe::<D>);
    }

    pub(crate) fn describe(&self, document: &mut OpenApi) {
        for describe in &self.descriptions {
            describe(document);
        }
    }
}

fn describe<D: utoipa::Path + SchemaReferences + for<'t> Tags<'t>>(document: &mut OpenApi) {
    let mut operation = D::operation();
    operation.tags.get_or_insert_default().extend(D::tags().into_iter().map(str::to_owned));
    document.paths.add_path_operation(D::path(), D::methods(), operation);
    let mut schemas = Vec::new();
    D::schemas(&mut schemas);
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
