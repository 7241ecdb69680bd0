//! Reading a large snapshot in pieces: a real page in a real browser, on record, then read from the record.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::sight::{ref_id, text};
use crate::client::{Call, HttpClient};
use crate::measure::say;
use crate::samples::Samples;
use crate::sessions::rig::{Gateway, Rig};

/// Of how many items the page is, about: it makes a snapshot of 1 MB.
const ITEMS: usize = 3400;
/// Lines of one page of the snapshot.
const LINES: usize = 100;
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Snapshots, all different.
    pub(super) pages: usize,
    /// Reads of each kind of each snapshot, after the first.
    pub(super) reads: usize,
}

#[derive(Default)]
pub(super) struct Figures {
    pub(super) snapshot_bytes: usize,
    pub(super) snapshot_lines: usize,
    pub(super) first_page: Samples,
    pub(super) page: Samples,
    pub(super) search: Samples,
    /// The first one parses.
    pub(super) first_query: Samples,
    pub(super) query: Samples,
}

pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Figures> {
    let gateway = rig.gateway_with(&[]).await?;
    let measured = all_pages(plan, rig, &gateway).await.with_context(|| gateway.last_words());
    gateway.end().await;
    measured
}

async fn all_pages(plan: Plan, rig: &Rig<'_>, gateway: &Gateway) -> Result<Figures> {
    let mut figures = Figures::default();
    let mut client = gateway.client().await?;
    for page in 1..=plan.pages {
        say(format_args!("reading a large snapshot: page {page} of {}", plan.pages));
        // The same snapshot is kept once, so that each visit has to be of another page.
        let items = ITEMS + page;
        let url = rig.url(&format!("/items?n={items}"));
        client.reconnect().await?;
        let (_, reply) =
            ask(&mut client, "browser_navigate", json!({ "sessionId": "reader", "url": url })).await?;
        figures.read(plan.reads, items, &ref_id(&reply)?, &mut client).await?;
    }
    Ok(figures)
}

impl Figures {
    async fn read(
        &mut self,
        reads: usize,
        items: usize,
        ref_id: &str,
        client: &mut HttpClient,
    ) -> Result<()> {
        let page = |offset: usize| json!({ "ref_id": ref_id, "offset": offset, "limit": LINES });
        let (took, first) = ask(client, "get_content", page(0)).await?;
        self.first_page.add_round(vec![took]);
        let lines =
            first["_meta"]["greenroom/total"].as_u64().context("the answer does not say of how many")?;
        let lines = usize::try_from(lines)?;
        self.snapshot_lines = lines;
        let mut times = Vec::new();
        for turn in 0..reads {
            // Everywhere, in no order that anybody could foresee.
            let offset = turn * 7919 % (lines - LINES);
            let (took, answer) = ask(client, "get_content", page(offset)).await?;
            let got = text(&answer).lines().count();
            ensure!(got >= LINES, "{got} lines came instead of {LINES}");
            times.push(took);
        }
        self.page.add_round(times);

        let mut times = Vec::new();
        for turn in 0..reads {
            let word = format!("Item {}:", 1 + turn * 7919 % items);
            let (took, answer) =
                ask(client, "get_content", json!({ "ref_id": ref_id, "search_for": word })).await?;
            ensure!(text(&answer).contains(&word), "{word} was not found: {}", text(&answer));
            times.push(took);
        }
        self.search.add_round(times);

        let query = |item: usize| {
            let query = format!("[?role=='button' && name=='Add item {item} to the cart'].ref");
            json!({ "ref_id": ref_id, "query": query, "flatten": true })
        };
        let (took, answer) = ask(client, "get_content", query(items)).await?;
        ensure!(text(&answer).contains("\"e") || text(&answer).contains("\"f"), "{}", text(&answer));
        self.first_query.add_round(vec![took]);
        let mut times = Vec::new();
        for turn in 0..reads.div_ceil(5) {
            times.push(ask(client, "get_content", query(1 + turn * 7919 % items)).await?.0);
        }
        self.query.add_round(times);

        self.snapshot_bytes = self.size(ref_id, client).await?;
        Ok(())
    }

    /// Asks for all of it, piece by piece.
    async fn size(&self, ref_id: &str, client: &mut HttpClient) -> Result<usize> {
        let (mut bytes, mut offset) = (0, 0);
        loop {
            let wanted = json!({ "ref_id": ref_id, "offset": offset, "limit": LINES });
            let (_, answer) = ask(client, "get_content", wanted).await?;
            bytes += text(&answer).len();
            match answer["_meta"]["greenroom/nextOffset"].as_u64() {
                Some(next) => offset = next,
                None => return Ok(bytes),
            }
        }
    }
}

async fn ask(client: &mut HttpClient, tool: &'static str, arguments: Value) -> Result<(Duration, Value)> {
    timeout(PATIENCE, client.ask(&Call::of(tool, &arguments)))
        .await
        .with_context(|| format!("{tool}: no answer"))?
        .with_context(|| format!("{tool} {arguments}"))
}
