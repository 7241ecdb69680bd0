//! A server with a thread for each connection, which stops when it is dropped.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::{Reply, Request, Response};
use crate::lock::lock;

const CONNECTION_BUFFER: usize = 64 * 1024;

pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    handler: Box<Handler>,
    stopping: AtomicBool,
    /// The open connections, so that stopping can close them under the threads that wait on them.
    connections: Mutex<HashMap<SocketAddr, TcpStream>>,
}

type Handler = dyn Fn(&Request, &mut Reply<'_>) -> io::Result<()> + Send + Sync;

impl Server {
    /// Serves `handler` on a port of the loopback address; port 0 takes a free one.
    pub(crate) fn start(
        port: u16,
        handler: impl Fn(&Request, &mut Reply<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let accepting = thread::Builder::new().name("http accept".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // The accepting thread looks at the flag when a connection arrives, so one is made to arrive. Where
        // that fails, the thread is left behind: better than a test that hangs.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            // A panic of that thread has been reported by then.
            let _ = accepting.join();
        }
        for connection in lock(&self.shared.connections).values() {
            // Fails only where the client closed it first.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else { continue };
        let shared = Arc::clone(shared);
        // Where no thread can be had the connection is dropped, which its client sees at once.
        let _ = thread::Builder::new().name("http".to_owned()).spawn(move || {
            let Ok(address) = connection.peer_addr() else { return };
            if let Ok(copy) = connection.try_clone() {
                lock(&shared.connections).insert(address, copy);
            }
            // Nobody is left to tell about an error on a connection: the client sees it closed.
            let _ = serve(&connection, &*shared.handler);
            lock(&shared.connections).remove(&address);
        });
    }
}

fn serve(connection: &TcpStream, handler: &Handler) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(CONNECTION_BUFFER, connection);
    loop {
        let request = match Request::read(&mut reader, &mut &*connection) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let mut reply = Reply::new(connection, false, false);
                return reply.send(Response::new(400).body("text/plain", error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let mut reply = Reply::new(connection, request.method == "HEAD", request.keep_alive);
        handler(&request, &mut reply)?;
        if !reply.is_reusable() {
            return Ok(());
        }
    }
}
