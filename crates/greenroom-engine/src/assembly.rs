//! What the configuration comes to: which parameters and tools there are, and where sessions live.

use std::path::PathBuf;
use std::sync::Arc;

use greenroom_core::config::{Addressing, ConnectPolicy, Isolation, PoolConfig};
use greenroom_core::target::{BrowserMode, Modes, SessionMode};

use crate::engine::EngineConfig;
use crate::fleet::{self, Fleet};
use crate::own::OwnTool;
use crate::pool::DriverFactory;
use crate::session_files::SessionFolders;
use crate::tools::ToolBooks;

/// Greenroom's own tools, as far as they can be used.
pub(crate) fn own_tools(
    modes: Modes,
    has_pages: bool,
    has_reading: bool,
    connect: ConnectPolicy,
) -> Vec<OwnTool> {
    let mut own = Vec::new();
    if modes.pools {
        own.push(OwnTool::PoolStatus);
    }
    // Where the seed of sessions is followed to the letter there is nothing but its own two tools.
    if modes.pools || modes.has_browsers() || (has_pages && modes.sessions != SessionMode::Required) {
        own.push(OwnTool::ExecuteBulk);
    }
    if modes.has_sessions() {
        own.extend([OwnTool::SessionList, OwnTool::SessionClose]);
    }
    // These two are not part of what the strict mode promises.
    if matches!(modes.sessions, SessionMode::Optional | SessionMode::Always) {
        own.extend([OwnTool::SessionFiles, OwnTool::CreateSession]);
    }
    if modes.has_browsers() {
        own.extend([OwnTool::ListBrowsers, OwnTool::ReconnectBrowser]);
        if connect != ConnectPolicy::Nobody {
            own.extend([OwnTool::ConnectBrowser, OwnTool::DisconnectBrowser]);
        }
    }
    if has_reading {
        own.extend([OwnTool::GetContent, OwnTool::GetConsoleContent, OwnTool::ListCalls, OwnTool::GetBlob]);
    }
    own
}

/// What calls can say about where they run.
pub(crate) fn modes(config: &EngineConfig) -> Modes {
    let has_pools = config.pools.iter().any(|pool| !pool.is_implicit);
    let wants_sessions = config.pools.iter().any(|pool| pool.sessions.isolation.is_some());
    let has_browsers = !config.browsers.is_empty();
    match config.addressing {
        Addressing::Pool => Modes::POOLS,
        Addressing::Session => Modes::new(SessionMode::Required, false),
        Addressing::Browser => Modes { browsers: BrowserMode::Only, ..Modes::new(SessionMode::Off, false) },
        Addressing::Auto if has_pools => {
            let browsers = if has_browsers { BrowserMode::Beside } else { BrowserMode::Off };
            Modes { browsers, ..Modes::new(SessionMode::Optional, true) }
        }
        Addressing::Auto if has_browsers => {
            Modes { browsers: BrowserMode::Only, ..Modes::new(SessionMode::Off, false) }
        }
        Addressing::Auto if has_pages(&config.pools) || wants_sessions => {
            Modes::new(SessionMode::Always, false)
        }
        // Another MCP server is passed on as it is.
        Addressing::Auto => Modes::new(SessionMode::Off, false),
    }
}

pub(crate) fn has_pages(pools: &[PoolConfig]) -> bool {
    let mut instances = pools.iter().flat_map(|pool| &pool.instances);
    instances.any(|instance| instance.upstream.driver.has_pages())
}

/// Where the sessions of a pool live. They follow the pool, and none of its instances in particular.
pub(crate) fn fleet(
    pool: &PoolConfig,
    modes: Modes,
    drivers: &DriverFactory,
    books: &Arc<ToolBooks>,
    folders: &Arc<SessionFolders>,
    readable: &[PathBuf],
) -> Option<Arc<Fleet>> {
    let instance = pool
        .instance(u32::MAX)
        .inspect_err(|mistakes| tracing::warn!(pool = pool.name, "no sessions in this pool: {mistakes}"))
        .ok()?;
    let driver = drivers(pool, &instance);
    let mut pool = pool.clone();
    // Where every call has a session, what no session may call is not shown.
    if modes.has_only_sessions() && fleet::isolation(&pool, driver.as_ref()) == Isolation::Context {
        driver.tools_in_server().iter().for_each(|tool| pool.tools.hide(tool));
    }
    let book = books.of(&driver, &instance.upstream, &pool);
    let (supervision, folders) = (instance.upstream.supervision, Arc::clone(folders));
    Some(Fleet::new(pool, supervision, driver, book, folders, readable.to_vec()))
}
