//! The lease queue alone: what it takes to hand a lease on, and whether it keeps anything.

use std::process;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use greenroom_core::lease::{Answer, Condition, LeaseQueue, Member, Ticket, Want};
use greenroom_testkit::rss_kb;
use serde::Serialize;

use crate::measure::say;
use crate::report::megabytes;
use crate::samples::percentile;

const MEMBERS: [u32; 2] = [2, 50];
const WAITING: [usize; 3] = [1, 100, 10_000];
/// Leases handed on in one batch: enough that looking at the clock does not count.
const BATCH: u32 = 1000;
const MANY_LEASES: u32 = 1_000_000;

#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) costs: Vec<Cost>,
    pub(super) memory: Memory,
}

/// One release with the request that takes the place of whoever was served.
#[derive(Serialize)]
pub(super) struct Cost {
    pub(super) members: u32,
    pub(super) waiting: usize,
    /// Medians over the batches, and the 99th percentile of them.
    pub(super) p50_ns: f64,
    pub(super) p99_ns: f64,
}

/// Resident memory of this process.
#[derive(Serialize)]
pub(super) struct Memory {
    pub(super) leases: u32,
    pub(super) before_mb: f64,
    pub(super) after_mb: f64,
}

impl Memory {
    pub(super) fn growth_mb(&self) -> f64 {
        self.after_mb - self.before_mb
    }
}

pub(super) fn measure(batches: usize) -> Result<Figures> {
    let mut costs = Vec::new();
    for members in MEMBERS {
        for waiting in WAITING {
            say(format_args!("handing leases on: {members} members, {waiting} waiting"));
            costs.push(cost(members, waiting, batches)?);
        }
    }
    say(format_args!("{MANY_LEASES} leases, looking at memory"));
    Ok(Figures { costs, memory: memory(MANY_LEASES)? })
}

fn cost(members: u32, waiting: usize, batches: usize) -> Result<Cost> {
    let mut line = Line::new(members, waiting)?;
    let mut times = Vec::with_capacity(batches);
    // The first batch fills caches, and does not count.
    for batch in 0..=batches {
        let began = Instant::now();
        for _ in 0..BATCH {
            line.hand_on()?;
        }
        if batch > 0 {
            times.push(began.elapsed());
        }
    }
    let each =
        |time: Option<Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e9 / f64::from(BATCH));
    let (p50_ns, p99_ns) = (each(percentile(&times, 50.0)), each(percentile(&times, 99.0)));
    Ok(Cost { members, waiting, p50_ns, p99_ns })
}

fn memory(leases: u32) -> Result<Memory> {
    let mut line = Line::new(2, 100)?;
    // The allocator has its working set before the first look.
    for _ in 0..BATCH {
        line.hand_on_and_give_up()?;
    }
    let look = || megabytes(rss_kb(process::id()));
    let before_mb = look();
    for _ in 0..leases {
        line.hand_on_and_give_up()?;
    }
    Ok(Memory { leases, before_mb, after_mb: look() })
}

/// A queue whose members are all taken and that always has as many waiters.
struct Line {
    queue: LeaseQueue,
    members: u32,
    /// The member whose lease ends next.
    next: u32,
}

impl Line {
    fn new(members: u32, waiting: usize) -> Result<Self> {
        // Room for one more, who gives up.
        let mut queue = LeaseQueue::new(1, waiting + 1);
        for member in (0..members).map(Member) {
            queue.add(member);
            queue.set(member, Condition::Ready);
            ensure!(matches!(queue.request(Want::Any), Answer::Leased(_)), "a free member is handed out");
        }
        let mut line = Self { queue, members, next: 0 };
        for _ in 0..waiting {
            line.stand_in_line()?;
        }
        Ok(line)
    }

    fn hand_on(&mut self) -> Result<()> {
        let effects = self.queue.release(Member(self.next));
        ensure!(effects.leased.len() == 1, "who waits is served: {effects:?}");
        self.next = (self.next + 1) % self.members;
        self.stand_in_line()?;
        Ok(())
    }

    fn hand_on_and_give_up(&mut self) -> Result<()> {
        let ticket = self.stand_in_line()?;
        self.hand_on()?;
        ensure!(self.queue.cancel(ticket), "who came last waits still");
        Ok(())
    }

    fn stand_in_line(&mut self) -> Result<Ticket> {
        match self.queue.request(Want::Any) {
            Answer::Waiting { ticket, .. } => Ok(ticket),
            other => bail!("with all members taken a caller waits: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_wait_after_each_lease_as_before() {
        for waiting in [1, 100] {
            let mut line = Line::new(3, waiting).unwrap();
            for _ in 0..500 {
                line.hand_on().unwrap();
                assert_eq!(line.queue.waiting(), waiting);
            }
        }
    }

    #[test]
    fn who_gives_up_leaves_the_line_as_long_as_it_was() {
        let mut line = Line::new(2, 10).unwrap();
        for _ in 0..500 {
            line.hand_on_and_give_up().unwrap();
            assert_eq!(line.queue.waiting(), 10);
        }
    }
}
