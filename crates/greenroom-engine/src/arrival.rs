//! A call arrives: its place in line, what it turns out to be, and the task that it becomes.

use std::sync::Arc;

use greenroom_core::config::Reply;
use greenroom_core::target::{Address, PLAIN, Parameters, Target, resolve};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bulk;
use crate::call::{Bound, CallFailure, CallHandle, CallRequest, Origin, Outcome};
use crate::capture::Caught;
use crate::engine::{Engine, Shared};
use crate::note::{Entry, Note};
use crate::own::{BulkArguments, OwnTool};
use crate::reply::Manner;
use crate::running::{Reporter, Running, Spot};
use crate::sessions::SessionKey;
use crate::tools::{Kind, Lookup};

/// A place in line, for whoever knows that a call has arrived before they can make it.
pub struct Place(Result<Spot, CallFailure>);

/// What a call turns out to be.
enum Prepared {
    Call(Spot, Manner),
    Bulk(Spot, Manner, BulkArguments),
    Own(OwnTool),
}

impl Engine {
    /// Takes a place in line for a call that has arrived and will be made in a moment. `argument` finds an argument
    /// by its name. `None` where there is nothing to wait for. Dropping the place gives it up.
    pub fn arrive(
        &self,
        origin: &Origin,
        tool: &str,
        argument: impl Fn(&str) -> Option<Value>,
    ) -> Option<Place> {
        let (parameters, upstreams) = match self.0.books.kind(tool) {
            Some(Kind::Own(own)) if !own.has_place() => return None,
            Some(Kind::Own(_)) => (None, None),
            Some(Kind::Proxied(Some(parameters))) => (Some(parameters), Some(tool)),
            _ => (None, Some(tool)),
        };
        let parameters = parameters.as_deref().unwrap_or(&PLAIN);
        let address = match origin.session {
            // Whoever comes in by a session's own door knows nothing of addresses.
            Bound::Fixed(_) => Address::default(),
            _ => self.0.address(parameters, argument),
        };
        Some(Place(self.0.queue(origin, &address, upstreams)))
    }

    /// Starts a call. It runs to its end whatever becomes of the handle.
    pub fn call(&self, request: CallRequest) -> CallHandle {
        let (reply, answer) = oneshot::channel();
        let cancel = CancellationToken::new();
        let handle = CallHandle { answer, cancel: cancel.clone() };
        let CallRequest { origin, tool, mut arguments, place, ref_id, progress } = request;
        let running = |reply| Running {
            engine: Arc::clone(&self.0),
            cancel,
            reply: Some(reply),
            served: None,
            progress: Reporter::new(progress),
        };
        // The place in line is taken here at the latest, and not in the task: tasks begin in no particular order.
        let place = place.or_else(|| self.arrive(&origin, &tool, |name| arguments.get(name).cloned()));
        let prepared = self.0.prepare(&origin, &tool, &mut arguments, place);
        let note = |spot: Option<&Spot>, manner: Manner, arguments: &Map<String, Value>| {
            let session = spot.and_then(Spot::session);
            let session = session.map(|session| (session.record.clone(), session.key.name.to_string()));
            let caller = origin.caller.clone();
            let since = spot.map_or_else(Instant::now, Spot::since);
            let entry = Entry { ref_id, caller, session, tool: &tool, arguments, since };
            let can_read = self.0.has_reading && !matches!(origin.session, Bound::Fixed(_));
            Note::new(&self.0.history, &self.0.events, entry, manner, can_read)
        };
        match prepared {
            Ok(Prepared::Call(spot, manner)) => {
                let note = note(Some(&spot), manner, &arguments);
                self.0.calls.spawn(running(reply).run(note, spot, tool, arguments));
            }
            Ok(Prepared::Bulk(spot, manner, bulk)) => {
                let note = note(Some(&spot), manner, &arguments);
                self.0.calls.spawn(running(reply).run_bulk(note, spot, bulk));
            }
            Ok(Prepared::Own(own)) => {
                let engine = self.clone();
                self.0.calls.spawn(async move {
                    let result = engine.perform(own, &origin.caller, arguments).await;
                    let _ = reply.send(Outcome { result, served: None, ref_id: None });
                });
            }
            Err(failure) => {
                let mut note = note(None, Manner::WHOLE, &arguments);
                let mut running = running(reply);
                self.0.calls.spawn(async move {
                    match note.begin().await {
                        Some(ref_id) => running.answer_as_before(&note, ref_id).await,
                        None => running.answer(note, Err(failure), Caught::default()).await,
                    }
                });
            }
        }
        handle
    }
}

impl Shared {
    /// Nothing is started for a tool that is known not to exist.
    pub(crate) fn check_tool(&self, place: &str, tool: &str) -> Result<(), CallFailure> {
        match self.books.look_up(place, tool) {
            Lookup::Known => Ok(()),
            Lookup::Unknown { elsewhere, nearest } => {
                let is_pool = self.pools.iter().any(|pool| pool.name() == place);
                let here = if is_pool { "pool" } else { "browser" };
                Err(CallFailure::UnknownTool { name: tool.to_owned(), here, nearest, elsewhere })
            }
        }
    }

    /// What a call says about where it wants to run.
    fn address(&self, parameters: &Parameters, argument: impl Fn(&str) -> Option<Value>) -> Address {
        let mut address = Address::default();
        if self.modes.has_sessions() {
            address.session = argument(&parameters.session);
        }
        if self.modes.pools {
            address.pool = argument(&parameters.pool);
            address.instance = argument(&parameters.instance);
        }
        if self.modes.has_browsers() {
            address.index = argument(&parameters.index);
            address.browser = argument(&parameters.browser);
        }
        address
    }

    /// `tool` is what the upstream will be asked for, where that is known by now.
    fn queue(&self, origin: &Origin, address: &Address, tool: Option<&str>) -> Result<Spot, CallFailure> {
        if self.stopping.is_cancelled() {
            return Err(CallFailure::ShuttingDown);
        }
        let implied = match &origin.session {
            Bound::Implied(name) => Some(name),
            Bound::Free | Bound::Fixed(_) => None,
        };
        let target = match &origin.session {
            Bound::Fixed(name) => Target::Session { name: name.clone(), pool: None },
            _ => {
                let (pools, browsers) = (self.pools.iter().map(|pool| pool.name()), self.browsers.known());
                resolve(address, self.modes, implied, pools, &browsers)?
            }
        };
        match target {
            Target::Lease { pool, instance } => {
                if let Some(tool) = tool {
                    self.check_tool(&pool, tool)?;
                }
                let pool = self.pools.iter().find(|known| known.name() == pool);
                let waiting = pool.expect("targets are pools that there are").request(instance.as_deref())?;
                Ok(Spot::Lease(waiting))
            }
            Target::Browser(index) => {
                let visit = self.browsers.visit(index);
                // It was there a moment ago.
                let visit = visit.ok_or_else(|| self.no_browser(index.to_string()))?;
                if let Some(tool) = tool {
                    self.check_tool(&visit.attached.place(), tool)?;
                }
                Ok(Spot::Browser(visit))
            }
            Target::Session { name, pool } => {
                let key = SessionKey { caller: origin.caller.clone(), name };
                if let Some(tool) = tool {
                    // One that is there already stays where it is, and has the tools of that pool.
                    let actual = self.sessions.find(&key).map(|session| session.pool().to_owned());
                    let default = || self.pools.first().map(|pool| pool.name().to_owned());
                    self.check_tool(
                        &actual.or_else(|| pool.clone()).or_else(default).unwrap_or_default(),
                        tool,
                    )?;
                }
                self.sessions.visit(&key, pool.as_deref()).map(Spot::Session)
            }
        }
    }

    /// Reads what is ours out of the arguments.
    fn prepare(
        &self,
        origin: &Origin,
        tool: &str,
        arguments: &mut Map<String, Value>,
        place: Option<Place>,
    ) -> Result<Prepared, CallFailure> {
        let kind = self.books.kind(tool);
        let Some(Place(spot)) = place else {
            return match kind {
                Some(Kind::Own(own)) => Ok(Prepared::Own(own)),
                _ => unreachable!("only tools of ours have no place"),
            };
        };
        let parameters = match &kind {
            Some(Kind::Proxied(Some(parameters))) => parameters.as_ref(),
            _ => &PLAIN,
        };
        let mut reply = None;
        if !matches!(origin.session, Bound::Fixed(_)) {
            if self.has_reply {
                reply = match arguments.remove(&parameters.reply) {
                    None | Some(Value::Null) => None,
                    Some(Value::String(name)) if name.is_empty() => None,
                    Some(Value::String(name)) => Some(named_reply(&name)?),
                    Some(_) => return Err(CallFailure::BadReply { name: parameters.reply.clone() }),
                };
            }
            if self.modes.has_sessions() {
                arguments.remove(&parameters.session);
            }
            if self.modes.pools {
                arguments.remove(&parameters.pool);
                arguments.remove(&parameters.instance);
            }
            if self.modes.has_browsers() {
                arguments.remove(&parameters.index);
                arguments.remove(&parameters.browser);
            }
        }
        let spot = spot?;
        let manner = spot.manner();
        let manner = Manner { reply: reply.unwrap_or(manner.reply), ..manner };
        match kind {
            Some(Kind::Own(_)) => {
                let bulk = bulk::read(arguments.clone(), &self.books)?;
                Ok(Prepared::Bulk(spot, manner, bulk))
            }
            _ => Ok(Prepared::Call(spot, manner)),
        }
    }
}

pub(crate) fn named_reply(name: &str) -> Result<Reply, CallFailure> {
    Reply::named(name).ok_or_else(|| CallFailure::BadReply { name: Parameters::REPLY.to_owned() })
}
