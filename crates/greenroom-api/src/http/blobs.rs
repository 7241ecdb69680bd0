//! Images, PDFs and large results over HTTP.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use greenroom_engine::{Blob, Caller, Engine, ReadFailure};
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::failure::{ErrorBody, Kind, Refused};

/// What is named by its digest stays as it is for as long as it is there.
const KEEP: &str = "private, max-age=3600";

/// How much is read from the disk at once.
const CHUNK: usize = 64 * 1024;

/// A blob
///
/// An image, PDF or large result, as `blobs` of a call and the links `blob://sha256/…` in replies name it.
#[utoipa::path(
    get, path = "/api/blobs/{sha256}", tag = "blobs", operation_id = "get_blob",
    params(("sha256" = String, Path, description = "The 64 hexadecimal digits of its SHA-256.")),
    responses(
        (status = 200, description = "The bytes, with the type that they came with.", content_type = "*/*"),
        (status = 304, description = "Whoever asks has it already (`If-None-Match`)."),
        (status = 400, description = "`invalid_request`: that is no digest.", body = ErrorBody),
        (status = 404, description = "`unknown_blob`: there is none, or it has expired.", body = ErrorBody),
    ),
)]
pub(super) async fn one(
    State(engine): State<Engine>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let Path(name) = name?;
    let blob = engine.desk(&Caller::local()).blob(&name).await?;
    let tag = format!("\"{}\"", blob.digest);
    let mut response = if is_known(&headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        whole(&blob).await?
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(&tag).map_err(|_| Kind::INTERNAL.says("No ETag."))?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(KEEP));
    Ok(response)
}

/// It came from some web page, so a browser that is shown it here neither guesses what it is nor runs what is in it.
async fn whole(blob: &Blob) -> Result<Response, Refused> {
    let gone = |_| Refused::from(ReadFailure::NoBlob);
    let file = File::open(&blob.path).await.map_err(gone)?;
    let size = file.metadata().await.map_err(gone)?.len();
    let kind = HeaderValue::from_str(&blob.mime_type);
    let kind = kind.unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    let is_shown = blob.mime_type.starts_with("image/") || blob.mime_type == "application/pdf";
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_LENGTH, size.into()),
        (CONTENT_DISPOSITION, HeaderValue::from_static(if is_shown { "inline" } else { "attachment" })),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, Body::from_stream(ReaderStream::with_capacity(file, CHUNK))).into_response())
}

pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|list| list.split(',')).map(|item| item.trim().trim_start_matches("W/")).any(|item| {
        // A star stands for whatever there is.
        item == tag || item == "*"
    })
}
