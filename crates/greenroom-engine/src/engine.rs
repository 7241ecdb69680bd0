//! The engine's handle: takes calls and sends each on its way.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use greenroom_core::config::{Addressing, Driver as DriverConfig, Mistakes, PoolConfig};
use greenroom_core::target::{Address, Parameters, UnknownPool, resolve};
use greenroom_upstream::instance::Unavailable;
use serde_json::{Map, Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bulk;
use crate::call::{CallFailure, CallHandle, CallRequest, Outcome};
use crate::own::{BulkArguments, OwnTool, PoolStatusArguments};
use crate::pool::{DriverFactory, Pool, Scaled, Waiting};
use crate::running::{Reporter, Running};
use crate::status::StatusReport;
use crate::tools::{Additions, Kind, Lookup, ToolBooks, ToolList};

pub struct EngineConfig {
    /// The default pool first.
    pub pools: Vec<PoolConfig>,
    pub addressing: Addressing,
    /// How long calls in flight have to finish when we are asked to stop.
    pub drain: Duration,
    /// Where lists of tools are kept across starts.
    pub cache_dir: PathBuf,
}

#[derive(Clone)]
pub struct Engine(Arc<Shared>);

pub(crate) struct Shared {
    pools: Vec<Arc<Pool>>,
    pub(crate) books: Arc<ToolBooks>,
    /// Calls can say which pool and instance they want.
    is_addressed: bool,
    drain: Duration,
    calls: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

/// A place in line, for whoever knows that a call has arrived before they can make it.
pub struct Place(Result<Waiting, CallFailure>);

impl Engine {
    pub fn new(config: EngineConfig, drivers: &DriverFactory) -> Self {
        let has_pools = config.pools.iter().any(|pool| !pool.is_implicit);
        let is_addressed = has_pools || config.addressing == Addressing::Pool;
        let has_pages = config
            .pools
            .iter()
            .flat_map(|pool| &pool.instances)
            .any(|instance| matches!(instance.upstream.driver, DriverConfig::Playwright(_)));
        let mut own = Vec::new();
        if is_addressed {
            own.push(OwnTool::PoolStatus);
        }
        if is_addressed || has_pages {
            own.push(OwnTool::ExecuteBulk);
        }
        let described = |pool: &PoolConfig| (pool.name.clone(), pool.description.clone());
        let pools = is_addressed.then(|| config.pools.iter().map(described).collect());
        let books = ToolBooks::new(&config.cache_dir, Additions { pools, own });
        let make = |pool| Pool::new(pool, Arc::clone(drivers), Arc::clone(&books));
        let pools = config.pools.into_iter().map(make).collect();
        Self(Arc::new(Shared {
            pools,
            books,
            is_addressed,
            drain: config.drain,
            calls: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }))
    }

    /// The tools that can be called. Starts upstreams only where there is no other way to know.
    pub async fn tools(&self) -> Result<Arc<ToolList>, Unavailable> {
        let outcomes = join_all(self.0.pools.iter().map(|pool| learn_tools(pool))).await;
        if let Some(list) = self.0.books.settled() {
            return Ok(list);
        }
        match outcomes.into_iter().find_map(Result::err) {
            Some(unavailable) => Err(unavailable),
            None => Ok(self.0.books.without_upstreams()),
        }
    }

    /// The list that is known without asking anybody.
    pub fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.0.books.current()
    }

    /// Changes when the list of tools does.
    pub fn watch_tools(&self) -> watch::Receiver<Option<Arc<ToolList>>> {
        self.0.books.subscribe()
    }

    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// Whether calls can say which pool and instance they want.
    pub fn is_addressed(&self) -> bool {
        self.0.is_addressed
    }

    /// Whether calls take turns on one page.
    pub fn takes_turns(&self) -> bool {
        self.0.pools.iter().any(|pool| pool.is_exclusive())
    }

    /// How the pools are: all of them, or one.
    pub fn status(&self, pool: Option<&str>) -> Result<StatusReport, UnknownPool> {
        let pools = match pool {
            Some(name) => std::slice::from_ref(self.pool(name)?),
            None => self.0.pools.as_slice(),
        };
        Ok(StatusReport::of(pools.iter().map(AsRef::as_ref)))
    }

    /// Starts an instance anew, also one that was given up.
    pub fn restart(&self, pool: &str, instance: &str, cause: &str) -> Result<(), CallFailure> {
        let pool = self.pool(pool)?;
        pool.restart(&*pool.find(instance)?, cause);
        Ok(())
    }

    /// Starts every instance of a pool anew.
    pub fn restart_pool(&self, pool: &str, cause: &str) -> Result<Vec<String>, CallFailure> {
        let pool = self.pool(pool)?;
        let seats = pool.seats();
        seats.iter().for_each(|seat| pool.restart(seat, cause));
        Ok(seats.iter().map(|seat| seat.member.to_string()).collect())
    }

    /// How often an instance was started again since the beginning.
    pub fn restarts(&self, pool: &str, instance: &str) -> Result<u64, CallFailure> {
        Ok(self.pool(pool)?.find(instance)?.instance.status().restarts)
    }

    /// Grows or shrinks a pool to so many instances.
    pub fn scale(&self, pool: &str, count: usize) -> Result<Result<Scaled, Mistakes>, UnknownPool> {
        Ok(self.pool(pool)?.scale(count))
    }

    fn pool(&self, name: &str) -> Result<&Arc<Pool>, UnknownPool> {
        let pools = &self.0.pools;
        let unknown = || UnknownPool {
            name: name.to_owned(),
            valid: pools.iter().map(|pool| pool.name().to_owned()).collect(),
        };
        pools.iter().find(|pool| pool.name() == name).ok_or_else(unknown)
    }

    /// Takes a place in line for a call that has arrived and will be made in a moment. `argument` finds an argument
    /// by its name. `None` where there is nothing to wait for. Dropping the place gives it up.
    pub fn arrive(&self, tool: &str, argument: impl Fn(&str) -> Option<Value>) -> Option<Place> {
        let (parameters, upstreams) = match self.0.books.kind(tool) {
            Some(Kind::Own(OwnTool::PoolStatus)) => return None,
            Some(Kind::Own(OwnTool::ExecuteBulk)) => (Parameters::default(), None),
            Some(Kind::Proxied(Some(parameters))) => (parameters, Some(tool)),
            _ => (Parameters::default(), Some(tool)),
        };
        let address = if self.0.is_addressed {
            Address { pool: argument(&parameters.pool), instance: argument(&parameters.instance) }
        } else {
            Address::default()
        };
        Some(Place(self.0.queue(&address, upstreams)))
    }

    /// Starts a call. It runs to its end whatever becomes of the handle.
    pub fn call(&self, request: CallRequest) -> CallHandle {
        let (reply, answer) = oneshot::channel();
        let cancel = CancellationToken::new();
        let handle = CallHandle { answer, cancel: cancel.clone() };
        let CallRequest { tool, mut arguments, place, progress } = request;
        let running = |reply| Running {
            engine: Arc::clone(&self.0),
            cancel,
            reply: Some(reply),
            served: None,
            progress: Reporter::new(progress),
        };
        // The place in line is taken here at the latest, and not in the task: tasks begin in no particular order.
        let place = place.or_else(|| self.arrive(&tool, |name| arguments.get(name).cloned()));
        match self.0.prepare(&tool, &mut arguments, place) {
            Ok(Prepared::Call(waiting)) => {
                self.0.calls.spawn(running(reply).run(waiting, tool, arguments));
            }
            Ok(Prepared::Bulk(waiting, bulk)) => {
                self.0.calls.spawn(running(reply).run_bulk(waiting, bulk));
            }
            Ok(Prepared::Status(pool)) => {
                let status = self.status(pool.as_deref()).map_err(CallFailure::from);
                let result = status.map(|status| {
                    let report = serde_json::to_value(&status).expect("a report is plain JSON");
                    let text = format!("{report:#}");
                    let result = json!({
                        "content": [{ "type": "text", "text": text }], "structuredContent": report, "isError": false,
                    });
                    serde_json::to_vec(&result).expect("JSON can be written").into()
                });
                let _ = reply.send(Outcome { result, served: None });
            }
            Err(failure) => {
                let _ = reply.send(Outcome { result: Err(failure), served: None });
            }
        }
        handle
    }

    /// Refuses new calls, lets those in flight finish for a while, then ends the upstreams.
    pub async fn shutdown(&self) {
        self.0.stopping.cancel();
        for pool in &self.0.pools {
            pool.close();
        }
        self.0.calls.close();
        if timeout(self.0.drain, self.0.calls.wait()).await.is_err() {
            tracing::warn!(calls = self.0.calls.len(), "calls in flight were cut off");
        }
        join_all(self.0.pools.iter().map(|pool| pool.stop())).await;
    }
}

/// What a call turns out to be.
enum Prepared {
    Call(Waiting),
    Bulk(Waiting, BulkArguments),
    Status(Option<String>),
}

impl Shared {
    /// Nothing is started for a tool that is known not to exist.
    pub(crate) fn check_tool(&self, pool: &str, tool: &str) -> Result<(), CallFailure> {
        match self.books.look_up(pool, tool) {
            Lookup::Known => Ok(()),
            Lookup::Unknown { elsewhere, nearest } => {
                Err(CallFailure::UnknownTool { name: tool.to_owned(), nearest, elsewhere })
            }
        }
    }

    /// `tool` is what the upstream will be asked for, where that is known by now.
    fn queue(&self, address: &Address, tool: Option<&str>) -> Result<Waiting, CallFailure> {
        if self.stopping.is_cancelled() {
            return Err(CallFailure::ShuttingDown);
        }
        let target = resolve(address, self.pools.iter().map(|pool| pool.name()))?;
        if let Some(tool) = tool {
            self.check_tool(&target.pool, tool)?;
        }
        let pool = self.pools.iter().find(|pool| pool.name() == target.pool);
        pool.expect("targets are pools that there are").request(target.instance.as_deref())
    }

    /// Reads what is ours out of the arguments.
    fn prepare(
        &self,
        tool: &str,
        arguments: &mut Map<String, Value>,
        place: Option<Place>,
    ) -> Result<Prepared, CallFailure> {
        let kind = self.books.kind(tool);
        // Nothing to wait for: only the status is like that.
        let Some(Place(waiting)) = place else {
            let read: PoolStatusArguments = OwnTool::PoolStatus.read(std::mem::take(arguments))?;
            return Ok(Prepared::Status(read.pool_name.filter(|name| !name.is_empty())));
        };
        let ours = Parameters::default();
        let parameters = match &kind {
            Some(Kind::Proxied(Some(parameters))) => parameters,
            _ => &ours,
        };
        if self.is_addressed {
            arguments.remove(&parameters.pool);
            arguments.remove(&parameters.instance);
        }
        match kind {
            Some(Kind::Own(OwnTool::ExecuteBulk)) => {
                let bulk = bulk::read(std::mem::take(arguments), &self.books)?;
                Ok(Prepared::Bulk(waiting?, bulk))
            }
            _ => Ok(Prepared::Call(waiting?)),
        }
    }
}

/// Makes sure that a pool's tools are known, if there is an upstream that can be asked.
async fn learn_tools(pool: &Pool) -> Result<(), Unavailable> {
    let mut outcome = Ok(());
    for seat in pool.seats() {
        if seat.book.is_known() {
            continue;
        }
        // Another instance of its kind may be up first.
        tokio::select! {
            () = seat.book.known() => {}
            acquired = seat.instance.acquire() => match acquired {
                Ok(upstream) => seat.book.fetch(&upstream).await,
                Err(unavailable) => outcome = Err(unavailable),
            },
        }
    }
    outcome
}
