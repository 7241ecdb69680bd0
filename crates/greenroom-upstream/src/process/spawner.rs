//! One thread that starts all children and never ends, so that nothing a child ties to the thread that started
//! it can happen early.

use std::io;
use std::sync::{OnceLock, mpsc};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct Job {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

pub(super) async fn spawn(command: Command) -> io::Result<Child> {
    static THREAD: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let sender = THREAD.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || {
                for mut job in jobs {
                    let _inside = job.runtime.enter();
                    let _ = job.reply.send(job.command.spawn());
                }
            })
            .expect("a thread can be started");
        sender
    });
    let (reply, child) = oneshot::channel();
    let job = Job { command, runtime: Handle::current(), reply };
    sender.send(job).map_err(|_| io::Error::other("the spawning thread has gone"))?;
    child.await.map_err(|_| io::Error::other("the spawning thread has gone"))?
}
