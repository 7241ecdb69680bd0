//! Greenroom as an MCP server, the same behind every transport and for both protocol eras.

mod arrival;
mod content;
mod stdio;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use greenroom_engine::{CallError, CallFailure, CallRequest, Engine, Progress, ToolList};
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter,
    Tool,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::Activity;
pub(crate) use arrival::Arrival;

pub(crate) use stdio::Refusal;
pub use stdio::serve_stdio;

/// Reports that may wait for a slow client before further ones are dropped.
const PROGRESS_QUEUE: usize = 32;

/// How long a client of the newer era may keep the list of tools without asking again.
const TOOLS_TTL_MS: u64 = 60_000;

const FOR_A_PAGE: &str = "Greenroom drives a real browser. Begin with browser_navigate, read the page with \
     browser_snapshot, and act on the element refs that the snapshot gives. Calls run one after another, in the \
     order in which they arrive. A call can be cancelled; the browser is then free for the next one.";

const FOR_OTHERS: &str = "Greenroom passes on the tools of another MCP server as they are. Calls run beside one another and \
     can be cancelled.";

/// Serves one connection (older era) or one request (newer era).
pub struct McpServer {
    engine: Engine,
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
    tools: Arc<ToolCache>,
    activity: Option<Activity>,
}

impl McpServerFactory {
    pub fn new(engine: Engine) -> Self {
        Self { engine, tools: Arc::default(), activity: None }
    }

    pub(crate) fn with_activity(engine: Engine, activity: Activity) -> Self {
        Self { activity: Some(activity), ..Self::new(engine) }
    }

    pub fn server(&self) -> McpServer {
        let alive = CancellationToken::new();
        McpServer {
            engine: self.engine.clone(),
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
        let read = |raw: &str| match serde_json::from_str::<Tool>(raw) {
            Ok(tool) => Some(tool),
            Err(error) => {
                tracing::warn!(%error, raw, "the upstream lists a tool that MCP does not know how to write; left out");
                None
            }
        };
        let tools = Arc::new(list.iter().filter_map(|tool| read(tool.raw.get())).collect::<Vec<_>>());
        *cache = Some((list.hash(), Arc::clone(&tools)));
        tools
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        // Prompts and resources are there, and there are none: clients that ask get an empty list, not an error.
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
        let instructions = if self.engine.takes_turns() { FOR_A_PAGE } else { FOR_OTHERS };
        info.instructions = Some(instructions.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = self.engine.tools().await;
        let list = list.map_err(|unavailable| ErrorData::internal_error(unavailable.to_string(), None))?;
        let tools = self.tools.convert(&list).as_ref().clone();
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
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            place: Arrival::of(&context.extensions),
            progress: token.as_ref().map(|_| progress),
        });
        let outcome = loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    call.cancel();
                    break Err(CallFailure::Cancelled);
                }
                Some(report) = reports.recv() => {
                    if let Some(token) = &token {
                        pass_on(&context.peer, token, report).await;
                    }
                }
                outcome = call.outcome() => break outcome,
            }
        };
        match outcome {
            Ok(bytes) => Ok(content::read_result(&bytes).into()),
            Err(failure) => refuse(failure),
        }
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
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Err(ErrorData::resource_not_found(
            format!("Unknown resource: {}. There are none.", request.uri),
            None,
        ))
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
fn refuse(failure: CallFailure) -> Result<CallToolResponse, ErrorData> {
    match failure {
        CallFailure::UnknownTool { .. } => Err(ErrorData::invalid_params(failure.to_string(), None)),
        CallFailure::Upstream(CallError::Rpc { code, message, data }) => {
            let code = ErrorCode(i32::try_from(code).unwrap_or(ErrorCode::INTERNAL_ERROR.0));
            let data = data.and_then(|data| serde_json::from_str(data.get()).ok());
            Err(ErrorData::new(code, message, data))
        }
        failure => Ok(CallToolResult::error(vec![ContentBlock::text(failure.to_string())]).into()),
    }
}
