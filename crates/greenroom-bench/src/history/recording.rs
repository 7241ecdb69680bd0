//! The same calls through gateways that write them down and through gateways that do not, beside the server behind
//! them spoken to directly.

use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use greenroom_store::Reader;
use tokio::process::Command;
use tokio::time::timeout;

use crate::binaries::Binaries;
use crate::client::{Call, Client, Era, Flood, HttpClient};
use crate::measure::say;
use crate::routes::{self, OpenRoute};
use crate::samples::Samples;
use crate::server::Server;

pub(super) const IN_FLIGHT: usize = 32;
/// Calls at the beginning of a block that do not count: a connection is opened, and the processor's caches are another
/// server's.
const WARM_UP: usize = 5;
/// What a block or a flood may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// Calls one after another, on each lane in each round.
    pub(super) block: usize,
    pub(super) floods: usize,
    pub(super) flood: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Stdio,
    Http,
}

/// Whom the calls go to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Direct,
    /// A gateway that forgets.
    Off,
    /// One that writes every call down.
    On,
}

pub(super) struct Lane {
    pub(super) kind: Kind,
    pub(super) way: Way,
    pub(super) outcome: Result<Figures>,
}

#[derive(Default)]
pub(super) struct Figures {
    pub(super) calls: Samples,
    pub(super) floods: Vec<Flood>,
    /// Calls that were made in all, and those that are on record.
    pub(super) made: usize,
    pub(super) recorded: usize,
}

struct Side {
    open: OpenRoute,
    data: PathBuf,
    figures: Figures,
}

const LANES: [(Kind, Way); 5] = [
    (Kind::Direct, Way::Stdio),
    (Kind::Off, Way::Stdio),
    (Kind::On, Way::Stdio),
    (Kind::Off, Way::Http),
    (Kind::On, Way::Http),
];

/// Block by block, each lane in turn, so that what disturbs the machine disturbs all alike.
pub(super) async fn measure(plan: Plan, binaries: &Binaries, scratch: &Path) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for (kind, way) in LANES {
        lanes.push(Running { kind, way, side: Side::open(kind, way, binaries, scratch).await });
    }
    // The first round starts the servers behind, and does not count.
    for round in 0..=plan.rounds {
        if round % 10 == 0 {
            say(format_args!("calls one after another: round {round} of {}", plan.rounds));
        }
        for lane in &mut lanes {
            lane.try_to(async |side| side.block(plan.block, round > 0).await).await;
        }
    }
    for round in 0..=plan.floods {
        say(format_args!("{IN_FLIGHT} in flight: round {round} of {}", plan.floods));
        for lane in &mut lanes {
            lane.try_to(async |side| side.flood(plan.flood, round > 0).await).await;
        }
    }
    let mut measured = Vec::new();
    for Running { kind, way, side } in lanes {
        let outcome = match side {
            Ok(side) => side.end(kind).await,
            Err(error) => Err(error),
        };
        measured.push(Lane { kind, way, outcome });
    }
    measured
}

/// A lane under measurement. One that fails is left alone from then on.
struct Running {
    kind: Kind,
    way: Way,
    side: Result<Side>,
}

impl Running {
    async fn try_to(&mut self, work: impl AsyncFnOnce(&mut Side) -> Result<()>) {
        let Ok(side) = &mut self.side else { return };
        if let Err(error) = work(side).await {
            let error = error.context(side.open.server.last_words());
            if let Ok(side) = mem::replace(&mut self.side, Err(error)) {
                side.open.server.end().await;
            }
        }
    }
}

impl Side {
    async fn open(kind: Kind, way: Way, binaries: &Binaries, scratch: &Path) -> Result<Self> {
        let name = format!("{kind:?}-{way:?}").to_lowercase();
        let (data, log) = (scratch.join(&name), scratch.join(format!("{name}.log")));
        let gateway = |args: &[&str]| {
            let mut command = routes::greenroom(binaries, &data, args);
            command.env("GREENROOM_HISTORY", (kind == Kind::On).to_string());
            command
        };
        let open = match (kind, way) {
            (Kind::Direct, _) => routes::over_stdio(Command::new(&binaries.fake_upstream), &log).await?,
            (_, Way::Stdio) => routes::over_stdio(gateway(&["mcp"]), &log).await?,
            (_, Way::Http) => {
                let command = gateway(&["serve", "--port", "0"]);
                let (server, url) = Server::start_announced(command, &log, "greenroom listening on ").await?;
                let client = HttpClient::connect(&format!("{url}/mcp"), Era::Sessions).await?;
                OpenRoute { server, client: Client::Http(client) }
            }
        };
        Ok(Self { open, data, figures: Figures::default() })
    }

    async fn block(&mut self, calls: usize, counts: bool) -> Result<()> {
        let call = Call::small();
        let block = self.open.client.in_turn(&call, WARM_UP, calls, PATIENCE);
        let made = timeout(2 * PATIENCE, block).await.context("no answer")??;
        self.figures.made += WARM_UP + made.len();
        if counts {
            self.figures.calls.add_round(made);
        }
        Ok(())
    }

    async fn flood(&mut self, time: Duration, counts: bool) -> Result<()> {
        let call = Call::small();
        let flood = self.open.client.flood(&call, IN_FLIGHT, time);
        let flood = timeout(PATIENCE + time, flood).await.context("no answer")??;
        // Each connection makes a call before the flood begins.
        let before = if matches!(self.open.client, Client::Http(_)) { IN_FLIGHT } else { 0 };
        self.figures.made += before + flood.calls;
        if counts {
            self.figures.floods.push(flood);
        }
        Ok(())
    }

    async fn end(mut self, kind: Kind) -> Result<Figures> {
        self.open.server.end().await;
        if kind == Kind::On {
            let reader = Reader::open(&self.data).context("the record cannot be opened")?;
            self.figures.recorded = usize::try_from(reader.stats()?.calls)?;
            let Figures { made, recorded, .. } = self.figures;
            ensure!(made == recorded, "{made} calls were made, and {recorded} are on record");
        }
        Ok(self.figures)
    }
}
