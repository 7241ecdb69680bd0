//! A host that many sessions share: one process, one browser, an isolated context for each.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use greenroom_core::config::BrowserConfig;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::options::{self, Places};
use super::{Side, file_uri, refused_options, windows};
use crate::driver::{Behind, LaunchError, Upstream};
use crate::host::{ContextId, Host};
use crate::rpc::Ended;

/// How long a browser may take to let go of a context.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// What one session wants different from the rest of its pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeatOptions {
    /// Where its files go, and the only folder it may read from: the server heeds no second one.
    pub folder: PathBuf,
    pub viewport: Option<(u32, u32)>,
    pub user_agent: Option<String>,
    pub device: Option<String>,
    /// Cookies and storage to begin with, as Playwright writes them.
    pub storage_state: Option<Value>,
}

/// A running host. The process goes when it is told to, or with the last handle and the last context.
#[derive(Clone)]
pub struct SharedHost(Arc<Inner>);

struct Inner {
    host: Host,
    browser: BrowserConfig,
    side: Side,
    places: Places,
    message_limit: usize,
    open_limit: Duration,
}

impl SharedHost {
    pub(super) fn new(
        host: Host,
        browser: BrowserConfig,
        side: Side,
        places: Places,
        message_limit: usize,
        open_limit: Duration,
    ) -> Self {
        host.end_connections_with_browser();
        Self(Arc::new(Inner { host, browser, side, places, message_limit, open_limit }))
    }

    /// Opens a connection with an isolated context of its own.
    pub async fn open(&self, seat: &SeatOptions) -> Result<Upstream, LaunchError> {
        let inner = &self.0;
        let opening = async {
            let folder = inner.side.path(&seat.folder).await?;
            let roots = vec![self.uri(&seat.folder).await?];
            let mcp = json!({ "outputDir": folder });
            let opened = inner.host.open(self.options(seat), mcp, roots, inner.message_limit).await;
            let (context, peer) = opened.map_err(refused_options)?;
            // From here on the context is closed when anything goes wrong.
            let shared = SharedContext { host: self.clone(), context };
            let info = peer.initialize().await?;
            // Windows has names of its own for it.
            let folder = matches!(inner.side, Side::Here).then(|| seat.folder.clone());
            Ok(Upstream { peer, info, behind: Behind::Shared(shared), folder })
        };
        match timeout(inner.open_limit, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(LaunchError::TooSlow {
                what: "the browser host (node)".to_owned(),
                task: "open a session",
                limit: inner.open_limit,
                last_output: inner.host.watch().last_output(),
            }),
        }
    }

    fn options(&self, seat: &SeatOptions) -> Value {
        let mut browser = self.0.browser.clone();
        if seat.device.is_some() {
            // A device brings its own size and name.
            (browser.viewport, browser.user_agent) = (None, None);
            browser.device.clone_from(&seat.device);
        }
        browser.viewport = seat.viewport.or(browser.viewport);
        browser.user_agent = seat.user_agent.clone().or(browser.user_agent);
        let places = Places { profile: None, ..self.0.places.clone() };
        let mut options = options::context_options(&browser, &places);
        if let Some(state) = &seat.storage_state {
            options["storageState"] = state.clone();
        }
        options
    }

    async fn uri(&self, folder: &Path) -> Result<String, LaunchError> {
        Ok(match &self.0.side {
            Side::Here => file_uri(folder),
            Side::Windows(windows) => windows::file_uri(&windows.path(folder).await?),
        })
    }

    /// Has the browser launched now rather than by the first call.
    pub async fn warm_up(&self) -> Result<(), LaunchError> {
        match timeout(self.0.open_limit, self.0.host.warm_up()).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(LaunchError::TooSlow {
                what: "the browser".to_owned(),
                task: "start",
                limit: self.0.open_limit,
                last_output: self.0.host.watch().last_output(),
            }),
        }
    }

    /// Has the page of a connection made now, so that its first call finds it there.
    pub async fn prime(&self, upstream: &Upstream) {
        if let Ok(pending) = upstream.call("browser_snapshot", &json!({}), None) {
            let _ = timeout(self.0.open_limit, pending).await;
        }
    }

    pub fn pid(&self) -> u32 {
        self.0.host.pid()
    }

    pub fn has_ended(&self) -> bool {
        self.0.host.has_ended()
    }

    /// Why it is over, once it is.
    pub async fn ended(&self) -> Ended {
        self.0.host.ended().await
    }

    /// A health check: Node answers, and the browser a round trip of its own.
    pub async fn check(&self) -> Result<(), String> {
        self.0.host.look();
        self.0.host.probe().await.map(drop).map_err(|error| error.to_string())
    }

    /// Ends it in order, with every context that is still open.
    pub async fn exit(&self) {
        self.0.host.exit().await;
    }
}

/// One context of a host that others use too. Dropping it closes the context.
pub(in crate::driver) struct SharedContext {
    host: SharedHost,
    context: ContextId,
}

impl SharedContext {
    pub(in crate::driver) fn host(&self) -> &Host {
        &self.host.0.host
    }

    pub(in crate::driver) fn context(&self) -> ContextId {
        self.context
    }

    pub(in crate::driver) async fn close(&self) {
        if timeout(CLOSE_LIMIT, self.host().close(self.context)).await.is_err() {
            tracing::warn!(pid = self.host().pid(), "a browser context did not close in time");
        }
    }
}

impl Drop for SharedContext {
    fn drop(&mut self) {
        self.host().let_go(self.context);
    }
}
