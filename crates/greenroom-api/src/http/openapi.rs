//! The description of everything under `/api`, made from the routes themselves.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use greenroom_engine::Engine;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{blobs, browser_sessions, browsers, calls, live, pools, streams};

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) engine: Engine,
    /// Bytes that a request's body may have.
    pub(super) max_body: usize,
    /// Where this server is reached, without a slash at the end.
    pub(super) base: Arc<str>,
    /// Cancelled when the server stops.
    pub(super) shutdown: CancellationToken,
    /// The WebSockets that are open.
    pub(super) sockets: TaskTracker,
    /// The description, ready to be sent.
    description: Bytes,
}

impl FromRef<Api> for Engine {
    fn from_ref(api: &Api) -> Self {
        api.engine.clone()
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Greenroom",
        description = "Sessions in browsers and how they look, calls and what is on record of them, and the pools of browsers.",
    ),
    tags(
        (name = "browser-sessions", description = "Sessions for conversations: starting, looking at and stopping them."),
        (name = "live", description = "What happens, as it happens."),
        (name = "calls", description = "Making calls, and reading what became of them."),
        (name = "blobs", description = "Images, PDFs and large results."),
        (name = "pools", description = "The pools of browsers."),
        (name = "browsers", description = "The attached browsers."),
        (name = "about", description = "This description."),
    ),
    components(schemas(
        browser_sessions::SessionShown, streams::ScreenshotShown, streams::CallEventShown, streams::Missed,
        live::Told, live::Asked,
    )),
)]
struct Description;

/// A route is described where it is made, so that none is without its description.
fn described() -> OpenApiRouter<Api> {
    let mut described = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(browser_sessions::list, browser_sessions::start))
        .routes(routes!(browser_sessions::one, browser_sessions::stop))
        .routes(routes!(browser_sessions::tabs))
        .routes(routes!(browser_sessions::screenshot))
        .routes(routes!(browser_sessions::pdf))
        .routes(routes!(streams::screenshots))
        .routes(routes!(live::live))
        .routes(routes!(streams::events))
        .routes(routes!(calls::list, calls::make))
        .routes(routes!(calls::one))
        .routes(routes!(calls::content))
        .routes(routes!(calls::console))
        .routes(routes!(blobs::one))
        .routes(routes!(pools::all))
        .routes(routes!(pools::one))
        .routes(routes!(pools::restart_all))
        .routes(routes!(pools::scale))
        .routes(routes!(pools::restart))
        .routes(routes!(browsers::all))
        .routes(routes!(show));
    for item in described.get_openapi_mut().paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete, &mut item.patch];
        operations.into_iter().flatten().for_each(at_the_door);
    }
    described
}

/// Every request passes the door, which may refuse it.
fn at_the_door(operation: &mut Operation) {
    let refused = ResponseBuilder::new()
        .description("`forbidden`: `Host` is not this server's, or `Origin` may not ask.")
        .content("application/json", Content::new(Some(Ref::from_schema_name("ErrorBody"))))
        .build();
    operation.responses.responses.insert("403".to_owned(), refused.into());
}

/// Everything under `/api`.
pub(super) fn routes(
    engine: Engine,
    max_body: usize,
    base: &str,
    shutdown: &CancellationToken,
    sockets: &TaskTracker,
) -> (Router<Api>, Api) {
    let (routes, description) = described().split_for_parts();
    let description = serde_json::to_vec(&description).expect("a description is plain JSON");
    let api = Api {
        engine,
        max_body,
        base: base.trim_end_matches('/').into(),
        shutdown: shutdown.clone(),
        sockets: sockets.clone(),
        description: description.into(),
    };
    (routes, api)
}

/// This description
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "about", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1.", content_type = "application/json")),
)]
async fn show(State(api): State<Api>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], api.description)
}

#[cfg(test)]
mod tests {
    use super::described;

    /// The router's own list cannot be read, so what is looked at is its source.
    #[test]
    fn nothing_under_api_is_served_without_its_description() {
        for source in [include_str!("../http.rs"), include_str!("openapi.rs")] {
            let undescribed = [".route(\"", "/api"].concat();
            assert!(!source.contains(&undescribed), "use routes!, which describes what it routes");
        }
    }

    #[test]
    fn every_operation_says_what_it_does_and_what_goes_wrong() {
        let description = serde_json::to_value(described().into_openapi()).expect("it is JSON");
        assert!(description["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
        let paths = description["paths"].as_object().expect("there are paths");
        assert!(paths.len() >= 11, "{paths:?}");
        let schemas = &description["components"]["schemas"];
        for (path, operation) in paths.iter().flat_map(|(path, item)| {
            item.as_object().into_iter().flat_map(move |item| item.iter().map(move |entry| (path, entry)))
        }) {
            let (method, operation) = operation;
            assert!(path.starts_with("/api/"), "{path}");
            for field in ["summary", "operationId"] {
                assert!(operation[field].is_string(), "{method} {path} has no {field}");
            }
            for name in path.split(['{', '}']).skip(1).step_by(2) {
                let parameters = operation["parameters"].as_array().expect("it has parameters");
                assert!(parameters.iter().any(|parameter| parameter["name"] == name), "{path}: {name}");
            }
        }
        for schema in ["CallOrder", "CallAnswer", "CallRecord", "PoolsShown", "ErrorBody"] {
            assert!(schemas[schema]["properties"].is_object(), "{schema}");
        }
    }
}
