//! The description of everything under `/api`, made from the routes themselves.

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use greenroom_engine::Engine;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{blobs, calls, pools};

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) engine: Engine,
    /// Bytes that a request's body may have.
    pub(super) max_body: usize,
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
    info(title = "Greenroom", description = "Calls, what is on record of them, and the pools of browsers."),
    tags(
        (name = "calls", description = "Making calls, and reading what became of them."),
        (name = "blobs", description = "Images, PDFs and large results."),
        (name = "pools", description = "The pools of browsers."),
        (name = "about", description = "This description."),
    ),
)]
struct Description;

/// A route is described where it is made, so that none is without its description.
fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Description::openapi())
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
        .routes(routes!(show))
}

/// Everything under `/api`.
pub(super) fn routes(engine: Engine, max_body: usize) -> (Router<Api>, Api) {
    let (routes, description) = described().split_for_parts();
    let description = serde_json::to_vec(&description).expect("a description is plain JSON");
    (routes, Api { engine, max_body, description: description.into() })
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
        for schema in ["CallOrder", "CallAnswer", "CallRecord", "ErrorBody"] {
            assert!(schemas[schema]["properties"].is_object(), "{schema}");
        }
    }
}
