//! Reaping, where nobody else does it.
//!
//! A process that loses its parent becomes the child of the system's first process. In a container that is often
//! us, and then what a browser leaves would stay in the table as a zombie for ever.

use std::collections::HashSet;
use std::time::Duration;

use greenroom_upstream::process::{dead_children, reap};

const EVERY: Duration = Duration::from_secs(2);

pub(crate) fn reap_if_first() {
    if std::process::id() == 1 {
        tokio::spawn(reap_for_ever());
    }
}

/// Our own children are awaited the moment they go. One that is found dead twice is somebody else's.
async fn reap_for_ever() {
    let mut seen = HashSet::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let dead: HashSet<u32> = dead_children().into_iter().collect();
        for pid in dead.intersection(&seen) {
            reap(*pid);
        }
        seen = dead;
    }
}
