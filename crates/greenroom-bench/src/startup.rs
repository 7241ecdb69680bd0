//! How long it takes from starting a program to its answer to `initialize`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::process::Command;

use crate::binaries::Binaries;
use crate::client::StdioClient;
use crate::measure::say;
use crate::routes::greenroom;
use crate::samples::Samples;
use crate::server::Server;

pub(crate) struct Startup {
    pub(crate) direct: Samples,
    pub(crate) greenroom: Samples,
}

/// Starts each in turn, so many times.
pub(crate) async fn measure(times: usize, binaries: &Binaries, scratch: &Path) -> Result<Startup> {
    say("starting and greeting over stdio");
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    // The first start reads the programs from the disk, and does not count.
    for round in 0..=times {
        let log = scratch.join("startup.log");
        let one = once(Command::new(&binaries.fake_upstream), &log).await?;
        let other = once(greenroom(binaries, &scratch.join("startup"), &["mcp"]), &log).await?;
        if round > 0 {
            direct.push(one);
            through.push(other);
        }
    }
    let mut startup = Startup { direct: Samples::default(), greenroom: Samples::default() };
    startup.direct.add_round(direct);
    startup.greenroom.add_round(through);
    Ok(startup)
}

async fn once(command: Command, log: &Path) -> Result<Duration> {
    let began = Instant::now();
    let (server, stdin, stdout) = Server::start_piped(command, log)?;
    let client = StdioClient::connect(stdin, stdout).await?;
    let took = began.elapsed();
    drop(client);
    server.end().await;
    Ok(took)
}
