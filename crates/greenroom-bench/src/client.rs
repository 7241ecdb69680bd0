//! The client, the same for every route.
//!
//! Written by hand and lean, so that what is measured is the server: a message is one write, and an answer is
//! timed when its last byte is here and looked at only afterwards. Every answer is looked at.

mod call;
mod http;
mod lease;
mod stdio;

use std::time::{Duration, Instant};

use anyhow::Result;

pub(crate) use call::Call;
pub(crate) use http::{Era, HttpClient};
pub(crate) use lease::Lease;
pub(crate) use stdio::StdioClient;

pub(crate) enum Client {
    Stdio(StdioClient),
    Http(HttpClient),
}

/// Calls made with many in flight.
pub(crate) struct Flood {
    pub(crate) calls: usize,
    pub(crate) took: Duration,
}

impl Client {
    /// Makes `count` calls one after another, or as many as fit `budget`, after `warm_up` ones that do not count.
    pub(crate) async fn in_turn(
        &mut self,
        call: &Call,
        warm_up: usize,
        count: usize,
        budget: Duration,
    ) -> Result<Vec<Duration>> {
        if let Self::Http(client) = self {
            // A server may have closed a connection that was left alone while others were measured.
            client.reconnect().await?;
        }
        for _ in 0..warm_up {
            self.call(call).await?;
        }
        let began = Instant::now();
        let mut latencies = Vec::with_capacity(count);
        while latencies.len() < count && (latencies.is_empty() || began.elapsed() < budget) {
            latencies.push(self.call(call).await?);
        }
        Ok(latencies)
    }

    /// Keeps `in_flight` calls under way for a while.
    pub(crate) async fn flood(&mut self, call: &Call, in_flight: usize, time: Duration) -> Result<Flood> {
        match self {
            Self::Stdio(client) => client.flood(call, in_flight, time).await,
            Self::Http(client) => client.flood(call, in_flight, time).await,
        }
    }

    /// One call. It takes as long as it takes.
    pub(crate) async fn call(&mut self, call: &Call) -> Result<Duration> {
        match self {
            Self::Stdio(client) => client.call(call).await,
            Self::Http(client) => client.call(call).await,
        }
    }
}
