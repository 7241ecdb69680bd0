//! Calls over HTTP: making them, and reading what is on record of them.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use greenroom_core::ids::RefId;
use greenroom_core::target::{Parameters, SessionMode, SessionName};
use greenroom_engine::{
    Bound, Call, CallHandle, CallRequest, CallStatus, Caller, ConsoleArguments, ContentArguments, Desk,
    Engine, FailureKind, Format, ListArguments, Origin, Outcome, Part, ReadFailure, describe, parse_ref,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::failure::{self, ErrorBody, Kind, Refused};
use super::front;
use super::openapi::Api;

/// How many calls a list has where nobody says, and at most.
const LISTED: i64 = 50;
const MOST_LISTED: i64 = 1000;

/// A call to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallOrder {
    /// The session that it is for. Left out: what a call over MCP gets that names none.
    #[serde(default)]
    session_id: Option<String>,
    /// Name of the tool.
    #[schema(example = "browser_navigate")]
    tool: String,
    /// The tool's arguments.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    params: Option<Map<String, Value>>,
    /// A UUID that becomes the call's ref id. The same one again gets the first answer, and nothing is run.
    #[serde(default)]
    #[schema(format = "uuid")]
    request_id: Option<String>,
}

/// What became of a call.
#[derive(Serialize, ToSchema)]
pub(super) struct CallAnswer {
    /// The call's name on record; null where it is not.
    #[schema(format = "uuid")]
    ref_id: Option<String>,
    session_id: Option<String>,
    #[schema(example = "success")]
    status: String,
    /// When it was made.
    #[schema(format = "date-time")]
    timestamp: String,
    metadata: Metadata,
    /// What went wrong, where the status is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The tool's own answer: where it is asked for, and where there is no ref id to read it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize, Serialize, ToSchema)]
pub(super) struct Metadata {
    tool: String,
    has_snapshot: bool,
    has_console_logs: bool,
    console_error_count: u64,
}

/// A call on record.
#[derive(Deserialize, Serialize, ToSchema)]
pub(super) struct CallRecord {
    #[schema(format = "uuid")]
    ref_id: String,
    session_id: Option<String>,
    tool: String,
    /// The arguments that the tool got.
    #[schema(value_type = Object)]
    params: Value,
    /// `pending`, `success` or `error`.
    status: String,
    #[schema(format = "date-time")]
    timestamp: String,
    duration_ms: Option<f64>,
    pool: Option<String>,
    instance: Option<String>,
    /// What the page was afterwards.
    url: Option<String>,
    title: Option<String>,
    metadata: Metadata,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The script that it is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// What it brought along; `/api/blobs/{sha256}` has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blobs: Vec<BlobLink>,
    /// The tool's own answer, where it is asked for.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
}

#[derive(Deserialize, Serialize, ToSchema)]
pub(super) struct BlobLink {
    #[schema(example = "blob://sha256/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    uri: String,
    mime_type: String,
    size: u64,
}

#[derive(Serialize, ToSchema)]
pub(super) struct CallList {
    /// The newest first.
    calls: Vec<CallRecord>,
    /// `before` of the next page, if there is one.
    next: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ContentAnswer {
    #[schema(format = "uuid")]
    ref_id: String,
    content: String,
    /// Lines, or items of a query's list, in all.
    total: usize,
    /// Where the next page begins, if there is one.
    next_offset: Option<usize>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ConsoleAnswer {
    #[schema(format = "uuid")]
    ref_id: String,
    content: String,
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Include {
    /// `result` to get the tool's own answer too.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    include: Option<Included>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Included {
    Result,
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listing {
    /// Only calls of this session.
    #[serde(default)]
    session_id: Option<String>,
    /// Only calls of this tool.
    #[serde(default)]
    tool: Option<String>,
    /// Only calls that ended so: `success`, `error` or `pending`.
    #[serde(default)]
    status: Option<String>,
    /// Only calls with this text in their tool's name, arguments, address, title or error.
    #[serde(default)]
    text: Option<String>,
    /// Only calls from this moment on, such as 2026-11-15T08:30:00Z.
    #[serde(default)]
    since: Option<String>,
    /// Only calls before this moment.
    #[serde(default)]
    until: Option<String>,
    /// Only calls older than this ref id: the next page.
    #[serde(default)]
    before: Option<String>,
    /// How many at most: 1 to 1000, 50 if not given.
    #[serde(default)]
    limit: Option<i64>,
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Reading {
    /// Only lines that contain this text, each with its line number.
    #[serde(default)]
    search_for: Option<String>,
    /// With `search_for`: lines to show before each.
    #[serde(default)]
    before_lines: Option<i64>,
    /// With `search_for`: lines to show after each.
    #[serde(default)]
    after_lines: Option<i64>,
    /// Read from the beginning again.
    #[serde(default)]
    reset_cursor: Option<bool>,
    /// Ref id of an earlier call: only the lines that differ.
    #[serde(default)]
    since: Option<String>,
    /// Line (with `query`: item) to begin with.
    #[serde(default)]
    offset: Option<i64>,
    /// Lines (with `query`: items) to return.
    #[serde(default)]
    limit: Option<i64>,
    /// JMESPath over the page's elements.
    #[serde(default)]
    query: Option<String>,
    /// With `query`: over one list of all elements instead of the tree.
    #[serde(default)]
    flatten: Option<bool>,
    /// `yaml` or `json`.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    format: Option<Format>,
    /// `snapshot`, or `result` for the text that the call answered.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    part: Option<Part>,
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Levels {
    /// Only messages of this level: `debug`, `info`, `warn` or `error`.
    #[serde(default)]
    level: Option<String>,
    /// Entry to begin with.
    offset: Option<i64>,
    /// Entries to return.
    limit: Option<i64>,
}

/// Make a call
///
/// It runs to its end whatever becomes of the connection; its answer can be read by its ref id.
#[utoipa::path(
    post, path = "/api/calls", tag = "calls", operation_id = "make_call",
    params(Include), request_body = CallOrder,
    responses(
        (status = 200, description = "The call was made. A tool that failed is `status: error`.", body = CallAnswer),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_tool`, `unknown_session`", body = ErrorBody),
        (status = 409, description = "`conflict`: the request_id is another call's, or the session is not as it should be.", body = ErrorBody),
        (status = 410, description = "`expired`: the request_id is that of a call which is no longer on record.", body = ErrorBody),
        (status = 413, description = "`too_large`", body = ErrorBody),
        (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
        (status = 429, description = "`too_many` sessions, or calls in line", body = ErrorBody),
        (status = 503, description = "`degraded`: no browser can serve it; `shutting_down`", body = ErrorBody),
        (status = 504, description = "`timeout`", body = ErrorBody),
    ),
)]
pub(super) async fn make(
    State(api): State<Api>,
    query: Result<Query<Include>, QueryRejection>,
    request: Request,
) -> Result<Response, Refused> {
    let Query(Include { include }) = query?;
    let order = Order::read(request, api.max_body).await?;
    let teller = Teller { engine: api.engine, caller: Caller::local(), is_result_wanted: include.is_some() };
    if let Some(ref_id) = order.request_id {
        match teller.desk().call(ref_id).await {
            Ok(call) => {
                order.is_that(&call)?;
                let call = teller.engine.answered(&teller.caller, ref_id).await?;
                return teller.recorded(&call).await;
            }
            Err(failure @ ReadFailure::Expired(_)) => return Err(failure.into()),
            // Where the record cannot be read, or is not kept, calls go on.
            Err(_) => {}
        }
    }
    let outcome = order.run(&teller.engine, &teller.caller)?.outcome().await;
    let Some(ref_id) = outcome.ref_id else { return teller.unrecorded(&order, outcome) };
    match teller.desk().call(ref_id).await {
        Ok(call) => {
            order.is_that(&call)?;
            teller.recorded(&call).await
        }
        Err(ReadFailure::Unknown(_)) => Err(conflict("it is in use already", ref_id)),
        Err(failure @ ReadFailure::Expired(_)) if order.request_id.is_some() => Err(failure.into()),
        Err(_) => teller.unrecorded(&order, outcome),
    }
}

/// List calls
#[utoipa::path(
    get, path = "/api/calls", tag = "calls", operation_id = "list_calls", params(Listing),
    responses(
        (status = 200, description = "Calls on record.", body = CallList),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`history_off`: nothing is written down here.", body = ErrorBody),
        (status = 503, description = "`degraded`: the record cannot be read now.", body = ErrorBody),
    ),
)]
pub(super) async fn list(
    State(engine): State<Engine>,
    query: Result<Query<Listing>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(listing) = query?;
    let limit = listing.limit.unwrap_or(LISTED).min(MOST_LISTED);
    let arguments = ListArguments {
        session: listing.session_id,
        tool: listing.tool,
        status: listing.status,
        text: listing.text,
        since: listing.since,
        until: listing.until,
        before: listing.before,
        limit: Some(limit),
    };
    let desk = engine.desk(&Caller::local());
    let calls = desk.list(arguments.clone()).await?;
    let is_full = i64::try_from(calls.len()).is_ok_and(|count| count == limit);
    let mut next = calls.last().filter(|_| is_full).map(|last| last.ref_id.to_string());
    if next.is_some() {
        let rest = ListArguments { before: next.clone(), limit: Some(1), ..arguments };
        if desk.list(rest).await?.is_empty() {
            next = None;
        }
    }
    let calls = calls.iter().map(record).collect::<Result<_, _>>()?;
    Ok(fresh(CallList { calls, next }))
}

/// Show a call
#[utoipa::path(
    get, path = "/api/calls/{ref_id}", tag = "calls", operation_id = "get_call",
    params(("ref_id" = String, Path, description = "The call."), Include),
    responses(
        (status = 200, description = "What is on record of it.", body = CallRecord),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_call`, `history_off`", body = ErrorBody),
        (status = 410, description = "`expired`", body = ErrorBody),
    ),
)]
pub(super) async fn one(
    State(engine): State<Engine>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<Include>, QueryRejection>,
) -> Result<Response, Refused> {
    let (Path(name), Query(Include { include })) = (name?, query?);
    let desk = engine.desk(&Caller::local());
    let call = desk.call(parse_ref(&name)?).await?;
    let mut shown = record(&call)?;
    if include.is_some() {
        shown.result = desk.result(&call).await?.map(|bytes| raw(&bytes));
    }
    Ok(fresh(shown))
}

/// Read what a call has shown
///
/// Plain, it is what has not been read of it yet, and nothing when all has. Reading uses no browser.
#[utoipa::path(
    get, path = "/api/calls/{ref_id}/content", tag = "calls", operation_id = "get_content",
    params(("ref_id" = String, Path, description = "The call."), Reading),
    responses(
        (status = 200, description = "The text.", body = ContentAnswer),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_call`, `no_snapshot`, `history_off`", body = ErrorBody),
        (status = 409, description = "`pending`: it has no answer yet.", body = ErrorBody),
        (status = 410, description = "`expired`", body = ErrorBody),
    ),
)]
pub(super) async fn content(
    State(engine): State<Engine>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<Reading>, QueryRejection>,
) -> Result<Response, Refused> {
    let (Path(name), Query(reading)) = (name?, query?);
    let arguments = ContentArguments {
        ref_id: Some(name),
        session: None,
        part: reading.part,
        search_for: reading.search_for,
        before_lines: reading.before_lines,
        after_lines: reading.after_lines,
        reset_cursor: reading.reset_cursor,
        since: reading.since,
        offset: reading.offset,
        limit: reading.limit,
        query: reading.query,
        flatten: reading.flatten,
        format: reading.format,
    };
    let content = engine.desk(&Caller::local()).content(arguments).await?;
    Ok(fresh(ContentAnswer {
        ref_id: content.ref_id.to_string(),
        content: content.text,
        total: content.total,
        next_offset: content.next_offset,
    }))
}

/// Read the console messages that a call brought along
#[utoipa::path(
    get, path = "/api/calls/{ref_id}/console", tag = "calls", operation_id = "get_console",
    params(("ref_id" = String, Path, description = "The call."), Levels),
    responses(
        (status = 200, description = "One message on each line.", body = ConsoleAnswer),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_call`, `history_off`", body = ErrorBody),
        (status = 410, description = "`expired`", body = ErrorBody),
    ),
)]
pub(super) async fn console(
    State(engine): State<Engine>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<Levels>, QueryRejection>,
) -> Result<Response, Refused> {
    let (Path(ref_id), Query(Levels { level, offset, limit })) = (name?, query?);
    let (ref_id, content) =
        engine.desk(&Caller::local()).console(&ConsoleArguments { ref_id, level, offset, limit }).await?;
    Ok(fresh(ConsoleAnswer { ref_id: ref_id.to_string(), content }))
}

/// A [`CallOrder`] that has been looked at.
struct Order {
    session: Option<SessionName>,
    tool: String,
    params: Map<String, Value>,
    request_id: Option<RefId>,
}

impl Order {
    async fn read(request: Request, max_body: usize) -> Result<Self, Refused> {
        let order: CallOrder = json_body(request, max_body).await?;
        if order.tool.is_empty() {
            return Err(Kind::INVALID.says("`tool` is empty. It is the name of a tool."));
        }
        let session = order.session_id.filter(|name| !name.is_empty()).map(SessionName::new);
        let session = session.transpose().map_err(|wrong| Kind::INVALID.says(wrong.to_string()))?;
        let request_id = order.request_id.map(|text| {
            text.parse().map_err(|_| {
                Kind::INVALID.says(format!(
                    "`request_id` is a UUID such as 123e4567-e89b-42d3-a456-426614174000, and `{text}` is none."
                ))
            })
        });
        Ok(Self {
            session,
            tool: order.tool,
            params: order.params.unwrap_or_default(),
            request_id: request_id.transpose()?,
        })
    }

    /// Whether a call on record is what this asks for, where both have the same id.
    fn is_that(&self, call: &Call) -> Result<(), Refused> {
        if self.request_id.is_none() {
            return Ok(());
        }
        if call.tool != self.tool {
            return Err(conflict(&format!("it is that of a call of {}", call.tool), call.ref_id));
        }
        match (&self.session, &call.session_name) {
            (Some(wanted), Some(name)) if wanted.as_str() != name => {
                Err(conflict(&format!("it is that of a call of session `{name}`"), call.ref_id))
            }
            _ => Ok(()),
        }
    }

    /// Makes the call. `session_id` is `sessionId` by another name, and it means the same.
    fn run(&self, engine: &Engine, caller: &Caller) -> Result<CallHandle, Refused> {
        let mut params = self.params.clone();
        let session = match self.session.clone() {
            None => Bound::Free,
            Some(name) => {
                self.check_address(engine, &name)?;
                if !self.has_parameter(engine, Side::Upstream, Parameters::SESSION) {
                    params.remove(Parameters::SESSION);
                }
                match engine.modes().sessions {
                    SessionMode::Off => {
                        return Err(Kind::INVALID.says(
                            "There are no sessions with this configuration (ADDRESSING). Leave out `session_id`.",
                        ));
                    }
                    SessionMode::Required => Bound::Fixed(name),
                    SessionMode::Optional | SessionMode::Always => Bound::Implied(name),
                }
            }
        };
        let origin = Origin { caller: caller.clone(), session };
        // Without a place the call is one of ours, which is about a session instead of running in one.
        let place = engine.arrive(&origin, &self.tool, |name| params.get(name).cloned());
        if let (None, Some(name)) = (&place, &self.session)
            && self.has_parameter(engine, Side::Agents, Parameters::SESSION)
        {
            params.entry(Parameters::SESSION).or_insert_with(|| name.as_str().into());
        }
        Ok(engine.call(CallRequest {
            origin,
            tool: self.tool.clone(),
            arguments: params,
            place,
            ref_id: self.request_id,
            progress: None,
        }))
    }

    /// Two addresses would leave open which of them is meant.
    fn check_address(&self, engine: &Engine, session: &SessionName) -> Result<(), Refused> {
        let is_ours = |name: &str| {
            self.params.get(name).is_some_and(|value| !value.is_null() && value != "")
                && !self.has_parameter(engine, Side::Upstream, name)
        };
        if is_ours(Parameters::SESSION) && self.params[Parameters::SESSION] != session.as_str() {
            return Err(Kind::INVALID
                .says("`session_id` and `sessionId` in `params` contradict one another. Give one of them."));
        }
        if engine.modes().pools && is_ours(Parameters::INSTANCE) {
            return Err(Kind::INVALID.says(
                "`session_id` and `browser_instance` contradict one another: a session has a browser of its own. Give one of them.",
            ));
        }
        Ok(())
    }

    /// Whether the tool has a parameter of that name, as far as is known.
    fn has_parameter(&self, engine: &Engine, side: Side, name: &str) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Listed {
            input_schema: Schema,
        }
        #[derive(Deserialize)]
        struct Schema {
            #[serde(default)]
            properties: Map<String, Value>,
        }
        let Some(tools) = engine.known_tools() else { return false };
        let Some(entry) = tools.iter().find(|entry| entry.name == self.tool) else { return false };
        let listed = match side {
            Side::Agents => Some(&entry.raw),
            Side::Upstream => entry.plain.as_ref(),
        };
        let listed = listed.and_then(|listed| serde_json::from_str::<Listed>(listed.get()).ok());
        listed.is_some_and(|listed| listed.input_schema.properties.contains_key(name))
    }
}

/// Whose idea of a tool.
#[derive(Clone, Copy)]
enum Side {
    /// As agents see it.
    Agents,
    /// As its server wrote it.
    Upstream,
}

fn conflict(why: &str, ref_id: RefId) -> Refused {
    let message = format!("The request_id `{ref_id}` cannot be used for this call: {why}. Use another.");
    Kind::CONFLICT.says(message).with("request_id", ref_id.to_string())
}

/// Puts into words what became of a call.
struct Teller {
    engine: Engine,
    caller: Caller,
    is_result_wanted: bool,
}

impl Teller {
    fn desk(&self) -> Desk {
        self.engine.desk(&self.caller)
    }

    /// From the record alone, so that whoever asks again gets the same.
    async fn recorded(&self, call: &Call) -> Result<Response, Refused> {
        let is_failure = call.status == CallStatus::Error;
        let result = if is_failure || self.is_result_wanted { self.desk().result(call).await? } else { None };
        if is_failure
            && result.is_none()
            && let Some(message) = &call.error
            && let Some(kind) = call.failure.as_deref().and_then(FailureKind::named)
        {
            return Err(Kind::from(kind).says(message.clone()).with("ref_id", call.ref_id.to_string()));
        }
        let CallRecord { ref_id, session_id, status, timestamp, metadata, error, .. } = record(call)?;
        let result = result.filter(|_| self.is_result_wanted).map(|bytes| raw(&bytes));
        let ref_id = Some(ref_id);
        Ok(fresh(CallAnswer { ref_id, session_id, status, timestamp, metadata, error, result }))
    }

    /// What is not on record is told in full, as there is no other way to read it.
    fn unrecorded(&self, order: &Order, outcome: Outcome) -> Result<Response, Refused> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            #[serde(default)]
            is_error: bool,
            #[serde(default)]
            content: Vec<Map<String, Value>>,
        }
        let (error, result) = match outcome.result {
            Ok(bytes) => {
                let head: Option<Head> = serde_json::from_slice(&bytes).ok();
                let error = head.filter(|head| head.is_error).map(|head| {
                    let text = head.content.iter().find_map(|block| block.get("text")?.as_str());
                    text.unwrap_or("the tool reported an error").to_owned()
                });
                (error, Some(raw(&bytes)))
            }
            Err(failure) => match failure::of_call(&failure) {
                Some(kind) => return Err(kind.says(failure.to_string())),
                None => (Some(failure.to_string()), None),
            },
        };
        let session_id = outcome.served.and_then(|served| served.session);
        Ok(fresh(CallAnswer {
            ref_id: None,
            session_id: session_id.or_else(|| order.session.as_ref().map(ToString::to_string)),
            status: if error.is_some() { "error" } else { "success" }.to_owned(),
            timestamp: format!("{:.3}", jiff::Timestamp::now()),
            // There is nothing to be read by a ref id.
            metadata: Metadata { tool: order.tool.clone(), ..Metadata::default() },
            error,
            result,
        }))
    }
}

/// A call as everybody is told of it.
fn record(call: &Call) -> Result<CallRecord, Refused> {
    serde_json::from_value(describe(call)).map_err(|error| {
        tracing::error!(%error, ref_id = %call.ref_id, "a call on record could not be described");
        Kind::INTERNAL.says("The call on record could not be described.")
    })
}

/// A result as it is on record, byte for byte where it is JSON.
fn raw(bytes: &[u8]) -> Box<RawValue> {
    serde_json::from_slice(bytes).unwrap_or_else(|_| {
        serde_json::value::to_raw_value(&String::from_utf8_lossy(bytes)).expect("a text is JSON")
    })
}

/// The body of a request, which has to be JSON.
pub(super) async fn json_body<T: DeserializeOwned>(request: Request, max_body: usize) -> Result<T, Refused> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|text| text.split(';').next()).map(str::trim);
    if !media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json")) {
        return Err(Kind::MEDIA_TYPE.says("Send JSON, and say so: Content-Type: application/json."));
    }
    let body = match front::collect(request.into_body(), max_body).await {
        Ok(Some(body)) => body,
        Ok(None) => {
            let most = max_body / (1024 * 1024);
            return Err(
                Kind::TOO_LARGE.says(format!("The request is larger than {most} MiB (MAX_REQUEST_MB)."))
            );
        }
        Err(()) => return Err(Kind::INVALID.says("The request broke off.")),
    };
    serde_json::from_slice(&body)
        .map_err(|problem| Kind::INVALID.says(format!("The body is not right: {problem}.")))
}

/// An answer that is another one the next time.
pub(super) fn fresh(body: impl Serialize) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
