//! What the API's description says of every operation alike: what its answers mean, and how it can fail.

use utoipa::openapi::schema::ArrayItems;
use utoipa::openapi::{ContentBuilder, OpenApi, PathItem, Ref, RefOr, ResponseBuilder, Schema};

pub(super) fn describe(document: &mut OpenApi) {
    document.paths.paths.values_mut().for_each(describe_answers);
    if let Some(components) = &mut document.components {
        for (name, schema) in &mut components.schemas {
            if let (Some(item), RefOr::T(schema)) = (name.strip_prefix("Page_"), schema) {
                refer_to_item(item, schema);
            }
        }
    }
}

/// Every answer has a description, every operation may fail on our side, and what needs a token may be refused.
fn describe_answers(path: &mut PathItem) {
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let failed = ResponseBuilder::new().content("application/problem+json", problem).build();
    let operations = [&mut path.get, &mut path.put, &mut path.post, &mut path.patch, &mut path.delete];
    for operation in operations.into_iter().flatten() {
        let responses = &mut operation.responses.responses;
        responses.entry("5XX".to_owned()).or_insert_with(|| failed.clone().into());
        // An operation that names no security of its own has that of the API, which is a token.
        if operation.security.is_none() {
            responses.entry("4XX".to_owned()).or_insert_with(|| failed.clone().into());
        }
        for (status, response) in responses {
            if let RefOr::T(response) = response
                && response.description.is_empty()
            {
                meaning(status).clone_into(&mut response.description);
            }
        }
    }
}

fn meaning(status: &str) -> &'static str {
    match status {
        "201" => "It was created.",
        "202" => "It is pending.",
        "204" => "It is done; the answer has no body.",
        "4XX" => "The request was refused: `code` says why, and `type` is its page.",
        "502" => "The source failed; the problem has the invocation.",
        "5XX" => "The store is not available, or there is a bug.",
        _ => "It succeeded.",
    }
}

/// A page's items are a schema of their own: generated code has one type for them, wherever they appear.
fn refer_to_item(item: &str, page: &mut Schema) {
    if let Schema::Object(page) = page
        && let Some(RefOr::T(Schema::Array(items))) = page.properties.get_mut("items")
    {
        items.items = ArrayItems::RefOrSchema(Box::new(Ref::from_schema_name(item).into()));
    }
}
