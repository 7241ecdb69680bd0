//! When a call arrived, kept from where its message is read to where it is made.
//!
//! rmcp handles every request in a task of its own, and tasks begin in no particular order. So the place in line is
//! taken where messages still come one after another, and travels with the request.

use std::sync::{Arc, Mutex, PoisonError};

use greenroom_engine::{Engine, Origin, Place};
use rmcp::model::Extensions;
use serde_json::Value;

/// A place in line that can be taken out once.
#[derive(Clone)]
pub(crate) struct Arrival(Arc<Mutex<Option<Place>>>);

impl Arrival {
    /// `None` where there is nothing to wait for. `argument` finds an argument by its name.
    pub(crate) fn now(
        engine: &Engine,
        origin: &Origin,
        tool: &str,
        argument: impl Fn(&str) -> Option<Value>,
    ) -> Option<Self> {
        engine.arrive(origin, tool, argument).map(|place| Self(Arc::new(Mutex::new(Some(place)))))
    }

    /// The place that came with a request: in its own extensions over stdio, in those of its HTTP request else.
    pub(super) fn of(extensions: &Extensions) -> Option<Place> {
        let over_http = || extensions.get::<http::request::Parts>()?.extensions.get::<Self>();
        let arrival = extensions.get::<Self>().or_else(over_http)?;
        arrival.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
