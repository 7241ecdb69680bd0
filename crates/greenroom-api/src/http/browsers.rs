//! The attached browsers over HTTP.

use axum::extract::State;
use axum::response::Response;
use greenroom_engine::{BrowserReport, Engine};
use serde::Serialize;
use utoipa::ToSchema;

use super::calls::fresh;

#[derive(Serialize, ToSchema)]
pub(super) struct BrowsersShown {
    browsers: Vec<BrowserShown>,
}

#[derive(Serialize, ToSchema)]
struct BrowserShown {
    /// What calls name it by, if not by its name.
    index: usize,
    name: Option<String>,
    /// Its debugging address, without passwords and queries.
    url: String,
    driver: String,
    tags: Vec<String>,
    /// How the connection to it is, as `list_browsers` has it.
    state: String,
    /// The page that was last seen in it.
    page_url: Option<String>,
    page_title: Option<String>,
    /// Why it could not be reached the last time.
    last_error: Option<String>,
    #[schema(format = "date-time")]
    last_attempt: Option<String>,
    /// How long calls will not cause another attempt.
    cool_down_ms: Option<u64>,
}

/// Show the attached browsers
#[utoipa::path(
    get, path = "/api/browsers", tag = "browsers", operation_id = "list_browsers",
    responses((status = 200, description = "The browsers that were attached, and how each is.", body = BrowsersShown)),
)]
pub(super) async fn all(State(engine): State<Engine>) -> Response {
    let shown = |report: BrowserReport| BrowserShown {
        index: report.index,
        name: report.name,
        url: report.url,
        driver: report.driver,
        tags: report.tags,
        state: report.state.to_owned(),
        page_url: report.page_url,
        page_title: report.page_title,
        last_error: report.last_error,
        last_attempt: report.last_attempt,
        cool_down_ms: report.cool_down_ms,
    };
    fresh(BrowsersShown { browsers: engine.browsers().into_iter().map(shown).collect() })
}
