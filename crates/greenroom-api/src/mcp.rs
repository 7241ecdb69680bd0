//! Greenroom as an MCP server, the same behind every transport and for both protocol eras.

mod arrival;
mod content;
mod files;
pub mod lines;
mod stdio;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use greenroom_core::target::{BrowserMode, SessionName};
use greenroom_engine::{
    Bound, BrowserReport, CallError, CallFailure, CallRequest, Engine, Origin, Outcome, Progress, Served,
    ToolList,
};
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Extensions, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam,
    ProgressToken, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::Activity;
pub(crate) use arrival::Arrival;

pub(crate) use lines::Refusal;
pub(crate) use stdio::serve_lines;
pub use stdio::{LAST_ANSWERS, serve_stdio, standard_streams};

/// Reports that may wait for a slow client before further ones are dropped.
const PROGRESS_QUEUE: usize = 32;

/// How long a client of the newer era may keep the list of tools without asking again.
const TOOLS_TTL_MS: u64 = 60_000;

/// How long a client of the newer era may keep a blob.
const BLOB_TTL_MS: u64 = 3_600_000;

/// The resource that says how the pools are.
const STATUS_URI: &str = "greenroom://status";

const FOR_A_PAGE: &str = "Greenroom drives a real browser. Begin with browser_navigate, read the page with \
     browser_snapshot, and act on the element refs that the snapshot gives. Calls run one after another, in the \
     order in which they arrive. A call can be cancelled; the browser is then free for the next one.";

const FOR_SESSIONS: &str = "Greenroom gives every agent a real browser of its own. Choose a sessionId, any text that is yours alone \
     (the name of your task will do), and give the same one with every call: cookies, tabs and files are then yours. Begin with \
     browser_navigate, read the page with browser_snapshot, and act on the element refs that the snapshot gives. Calls of one \
     session run one after another; sessions run beside one another. A session ends when it has not been used for a while, or \
     with session_close; session_list shows yours, session_files what they have written. Every call is on record: with reply=diff \
     you get what changed on the page instead of all of it, and get_content finds a text or element on a page that was shown, by ref_id \
     or sessionId, without using the browser. Long answers are cut and say how to read on.";

const FOR_POOLS: &str = "Greenroom drives pools of real browsers. Begin with browser_navigate, read the page with \
     browser_snapshot, and act on the element refs that the snapshot gives. A call goes to the next free browser of the \
     default pool, so two calls may land on different browsers. To stay on one page, give a sessionId, any text of yours, \
     with every call, or browser_instance (and browser_pool), or put the steps into one browser_execute_bulk. \
     browser_pool_status shows the pools and what each is for; _meta of every answer says where it ran. Long answers are cut and say \
     how to read on with get_content.";

const FOR_BROWSERS: &str = "Greenroom drives browsers that a person has started; their pages, cookies and logins are that person's. Read the page \
     with take_snapshot and act on the uids that it gives. Calls to one browser run one after another; calls to different browsers \
     run beside one another. list_browsers shows how they are, reconnect_browser brings one back that was lost.";

const FOR_OTHERS: &str = "Greenroom passes on the tools of another MCP server as they are. Calls run beside one another and \
     can be cancelled.";

/// Serves one connection (older era) or one request (newer era).
pub struct McpServer {
    engine: Engine,
    /// Where calls come from, unless their own request says otherwise.
    origin: Origin,
    tools: Arc<ToolCache>,
    /// Present over HTTP, where sessions of the older era expire.
    activity: Option<Activity>,
    /// Ends what was started on behalf of this connection: with this value, or before, when the client has left.
    alive: CancellationToken,
    announcing: AtomicBool,
    _ends_with_us: DropGuard,
}

/// What all connections share.
#[derive(Clone)]
pub struct McpServerFactory {
    engine: Engine,
    origin: Origin,
    tools: Arc<ToolCache>,
    activity: Option<Activity>,
}

impl McpServerFactory {
    pub fn new(engine: Engine, origin: Origin) -> Self {
        Self { engine, origin, tools: Arc::default(), activity: None }
    }

    pub(crate) fn with_activity(engine: Engine, origin: Origin, activity: Activity) -> Self {
        Self { activity: Some(activity), ..Self::new(engine, origin) }
    }

    pub fn server(&self) -> McpServer {
        let alive = CancellationToken::new();
        McpServer {
            engine: self.engine.clone(),
            origin: self.origin.clone(),
            tools: Arc::clone(&self.tools),
            activity: self.activity.clone(),
            announcing: AtomicBool::new(false),
            _ends_with_us: alive.clone().drop_guard(),
            alive,
        }
    }
}

/// The engine's list in rmcp's types, converted once for each list.
#[derive(Default)]
struct ToolCache(Mutex<Option<(u64, Arc<Vec<Tool>>)>>);

impl ToolCache {
    fn convert(&self, list: &ToolList) -> Arc<Vec<Tool>> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((hash, tools)) = &*cache
            && *hash == list.hash()
        {
            return Arc::clone(tools);
        }
        let tools = Arc::new(list.iter().filter_map(|tool| read_tool(tool.raw.get())).collect::<Vec<_>>());
        *cache = Some((list.hash(), Arc::clone(&tools)));
        tools
    }
}

fn read_tool(raw: &str) -> Option<Tool> {
    serde_json::from_str::<Tool>(raw)
        .inspect_err(|error| {
            tracing::warn!(%error, raw, "the upstream lists a tool that MCP does not know how to write; left out");
        })
        .ok()
}

impl McpServer {
    /// Where a request comes from: what its HTTP request brought along, else what the connection is.
    fn origin(&self, extensions: &Extensions) -> Origin {
        let over_http =
            extensions.get::<http::request::Parts>().and_then(|parts| parts.extensions.get::<Origin>());
        over_http.unwrap_or(&self.origin).clone()
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        // Prompts can be asked for, and there are none: clients that ask get an empty list, not an error.
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .build();
        let mut us = Implementation::new("greenroom", env!("CARGO_PKG_VERSION"));
        us.title = Some("Greenroom".to_owned());
        let mut info = ServerConfig::new(capabilities);
        info.server_info = us;
        let modes = self.engine.modes();
        let instructions = match (modes.pools, modes.has_sessions(), self.engine.takes_turns()) {
            _ if modes.browsers == BrowserMode::Only => FOR_BROWSERS,
            (true, ..) => FOR_POOLS,
            (false, true, _) => FOR_SESSIONS,
            (false, false, true) => FOR_A_PAGE,
            (false, false, false) => FOR_OTHERS,
        };
        let mut instructions = instructions.to_owned();
        if modes.has_browsers() {
            instructions.push_str(&attached(&self.engine.browsers(), modes.browsers));
        }
        info.instructions = Some(instructions);
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = self.engine.tools().await;
        let list = list.map_err(|unavailable| ErrorData::internal_error(unavailable.to_string(), None))?;
        let tools = match self.origin(&context.extensions).session {
            // Who comes in by a session's own door sees the upstream's tools as they are.
            Bound::Fixed(_) => {
                list.iter().filter_map(|tool| read_tool(tool.plain.as_deref()?.get())).collect()
            }
            _ => self.tools.convert(&list).as_ref().clone(),
        };
        // The list is the same for everybody.
        Ok(ListToolsResult::with_all_items(tools)
            .with_ttl_ms(TOOLS_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let list = self.engine.known_tools()?;
        self.tools.convert(&list).iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _busy = self.activity.as_ref().and_then(|activity| activity.call(&context.extensions));
        let token = context.meta.get_progress_token();
        let (progress, mut reports) = mpsc::channel(PROGRESS_QUEUE);
        let mut call = self.engine.call(CallRequest {
            origin: self.origin(&context.extensions),
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            place: Arrival::of(&context.extensions),
            ref_id: None,
            progress: token.as_ref().map(|_| progress),
        });
        let outcome = loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    call.cancel();
                    break Outcome { result: Err(CallFailure::Cancelled), served: None, ref_id: None };
                }
                Some(report) = reports.recv() => {
                    if let Some(token) = &token {
                        pass_on(&context.peer, token, report).await;
                    }
                }
                outcome = call.outcome() => break outcome,
            }
        };
        let mut result = match outcome.result {
            Ok(bytes) => content::read_result(&bytes),
            Err(failure) => refuse(failure)?,
        };
        if let Some(ref_id) = outcome.ref_id {
            let meta = result.meta.get_or_insert_with(|| MetaObject(serde_json::Map::new()));
            meta.0.insert("greenroom/refId".to_owned(), ref_id.to_string().into());
        }
        if let Some(served) = outcome.served {
            note_where(&mut result, served);
        }
        Ok(result.into())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // Once is enough, however often a client says it.
        if self.announcing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (mut tools, alive) = (self.engine.watch_tools(), self.alive.clone());
        tokio::spawn(async move {
            while alive.run_until_cancelled(next_change(&mut tools)).await == Some(true) {
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Err(ErrorData::invalid_params(format!("Unknown prompt: {}. There are none.", request.name), None))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if let Some((session, file)) = files::parse(&request.uri) {
            let Origin { caller, session: door } = self.origin(&context.extensions);
            let is_seen = !matches!(door, Bound::Fixed(only) if only != session);
            let found = is_seen.then(|| self.engine.session_file(&caller, &session, &file)).flatten();
            let (file, bytes) = found.ok_or_else(|| {
                ErrorData::resource_not_found(format!("Unknown resource: {}.", request.uri), None)
            })?;
            let contents = files::contents(&request.uri, &file, bytes);
            let result =
                ReadResourceResult::new(vec![contents]).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
            return Ok(result.into());
        }
        if request.uri.starts_with("blob:") {
            let desk = self.engine.desk(&self.origin(&context.extensions).caller);
            let (blob, bytes) = desk
                .blob_content(&request.uri)
                .await
                .map_err(|failure| ErrorData::resource_not_found(failure.to_string(), None))?;
            let contents = files::blob(&request.uri, &blob, bytes);
            // What is named by its digest stays as it is.
            let result = ReadResourceResult::new(vec![contents])
                .with_ttl_ms(BLOB_TTL_MS)
                .with_cache_scope(CacheScope::Private);
            return Ok(result.into());
        }
        if request.uri != STATUS_URI {
            let message = format!("Unknown resource: {}. There is {STATUS_URI}.", request.uri);
            return Err(ErrorData::resource_not_found(message, None));
        }
        let status =
            self.engine.status(None).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let text = serde_json::to_string_pretty(&status)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let contents = ResourceContents::TextResourceContents {
            uri: STATUS_URI.to_owned(),
            mime_type: Some("application/json".to_owned()),
            text,
            meta: None,
        };
        // It is another one every time.
        let result =
            ReadResourceResult::new(vec![contents]).with_ttl_ms(0).with_cache_scope(CacheScope::Public);
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut status = Resource::new(STATUS_URI, "status");
        status.title = Some("Status of the browser pools".to_owned());
        status.description = Some("What browser_pool_status answers.".to_owned());
        status.mime_type = Some("application/json".to_owned());
        let mut resources = vec![status];
        let Origin { caller, session: door } = self.origin(&context.extensions);
        for session in self.engine.sessions(&caller) {
            let Ok(name) = SessionName::new(session.id) else { continue };
            // By a session's own door only that session is seen.
            if matches!(&door, Bound::Fixed(only) if *only != name) {
                continue;
            }
            for file in self.engine.session_files(&caller, &name).unwrap_or_default() {
                resources.push(files::resource(&name, &file));
            }
        }
        // Files come and go with every call.
        Ok(ListResourcesResult::with_all_items(resources)
            .with_ttl_ms(0)
            .with_cache_scope(CacheScope::Private))
    }

    /// What rmcp could not read as one of MCP's requests ends here, also a known one with wrong parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let is_newer =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let is_known = match method.as_str() {
            "initialize" => !is_newer,
            "server/discover" => is_newer,
            "tools/call" | "tools/list" | "prompts/get" | "prompts/list" | "resources/read"
            | "resources/list" => true,
            _ => false,
        };
        Err(match method.as_str() {
            "tools/call" => ErrorData::invalid_params(
                "tools/call needs `name`, the name of a tool, and `arguments`, an object",
                None,
            ),
            _ if is_known => ErrorData::invalid_params(
                format!("The parameters of {method} are not as MCP defines them"),
                None,
            ),
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {method}"), None),
        })
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut tools = self.engine.watch_tools();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.alive.cancelled() => return Ok(()),
                changed = next_change(&mut tools) => {
                    if !changed || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Returns `true` when a list that was known has become another one, `false` when there will be none any more.
async fn next_change(tools: &mut watch::Receiver<Option<Arc<ToolList>>>) -> bool {
    loop {
        let known = tools.borrow_and_update().is_some();
        if tools.changed().await.is_err() {
            return false;
        }
        // The first list is no change: nobody has seen another.
        if known {
            return true;
        }
    }
}

async fn pass_on(peer: &Peer<RoleServer>, token: &ProgressToken, report: Progress) {
    let mut param = ProgressNotificationParam::new(token.clone(), report.progress);
    param.total = report.total;
    param.message = report.message;
    // A client that does not take progress any more still gets its answer, or not, on its own.
    let _ = peer.notify_progress(param).await;
}

/// A protocol error where the request itself was wrong or the upstream answered with one; otherwise a result that
/// says so, because that is what an agent gets to read.
fn refuse(failure: CallFailure) -> Result<CallToolResult, ErrorData> {
    match failure {
        CallFailure::UnknownTool { .. } => Err(ErrorData::invalid_params(failure.to_string(), None)),
        CallFailure::Upstream(CallError::Rpc { code, message, data }) => {
            let code = ErrorCode(i32::try_from(code).unwrap_or(ErrorCode::INTERNAL_ERROR.0));
            let data = data.and_then(|data| serde_json::from_str(data.get()).ok());
            Err(ErrorData::new(code, message, data))
        }
        failure => Ok(CallToolResult::error(vec![ContentBlock::text(failure.to_string())])),
    }
}

/// The browsers that are attached now, and how to say which.
fn attached(browsers: &[BrowserReport], mode: BrowserMode) -> String {
    let shown: Vec<_> = browsers
        .iter()
        .map(|browser| match &browser.name {
            Some(name) => format!("[{}] {} (name: {name})", browser.index, browser.url),
            None => format!("[{}] {}", browser.index, browser.url),
        })
        .collect();
    let rule = match (mode, browsers.len()) {
        (_, 0) => return " No browser is attached now.".to_owned(),
        (BrowserMode::Only, 1) => "There is one browser, so do not give browserIndex",
        (BrowserMode::Only, _) => "Give browserIndex, or browser (its name), with every call",
        _ => "To use an attached browser give browserIndex, or browser (its name)",
    };
    format!(" {rule}. Attached: {}.", shown.join(", "))
}

/// Says in `_meta` which browser served a call, and how long the call waited for it.
fn note_where(result: &mut CallToolResult, served: Served) {
    let waited = u64::try_from(served.waited.as_millis()).unwrap_or(u64::MAX);
    let meta = result.meta.get_or_insert_with(|| MetaObject(serde_json::Map::new()));
    if !served.pool.is_empty() {
        meta.0.insert("greenroom/pool".to_owned(), served.pool.into());
    }
    if let Some(browser) = served.browser {
        meta.0.insert("greenroom/browser".to_owned(), browser.into());
    }
    if let Some(instance) = served.instance {
        meta.0.insert("greenroom/instance".to_owned(), instance.into());
    }
    if let Some(session) = served.session {
        meta.0.insert("greenroom/sessionId".to_owned(), session.into());
    }
    meta.0.insert("greenroom/waitedMs".to_owned(), waited.into());
    if let Some(notice) = served.notice {
        // In front, where an agent reads it before it trusts the rest.
        result.content.insert(0, ContentBlock::text(notice));
    }
}
