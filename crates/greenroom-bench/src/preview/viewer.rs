//! Whoever watches a session over its WebSocket: one who takes what comes, and one who does not.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use futures::{SinkExt, StreamExt};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::sessions::rig::Gateway;

/// What may pass until something comes that has to.
const PATIENCE: Duration = Duration::from_secs(20);

/// The gateway takes for gone who says nothing for a minute.
const SPEAK_EVERY: Duration = Duration::from_secs(20);

/// From one frame to the next, at least, unless another is asked for: 15 in a second.
pub(super) const INTERVAL_MS: u64 = 66;

/// One who reads everything as it comes.
pub(super) struct Viewer {
    socket: WebSocketStream<TcpStream>,
    /// What was said of a frame that is to come.
    announced: Option<FrameHead>,
}

/// One who has connected, and never reads.
pub(super) struct Stalled {
    socket: TcpStream,
    spoke: Instant,
}

/// One who watches while others work.
pub(super) struct Watching {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Vec<Frame>>>,
}

#[derive(Debug)]
pub(super) enum Seen {
    State(State),
    Frame(Frame),
    /// What was sent up under this number is done.
    Done(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) captured: SystemTime,
    pub(super) arrived: SystemTime,
    pub(super) bytes: usize,
}

impl Frame {
    pub(super) fn age(&self) -> Duration {
        // The moment of capture is told in whole milliseconds.
        self.arrived.duration_since(self.captured).unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    pub(super) viewers: usize,
    #[serde(default)]
    pub(super) page_title: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameHead {
    captured_at: String,
}

impl FrameHead {
    fn captured(&self) -> Result<SystemTime> {
        let time: Timestamp = self.captured_at.parse().context("the time of a frame cannot be read")?;
        Ok(time.into())
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Down {
    State {
        session: State,
    },
    Frame(FrameHead),
    Done {
        id: u64,
    },
    #[serde(untagged)]
    Other(Value),
}

impl Viewer {
    pub(super) async fn open(gateway: &Gateway, session: &str, interval_ms: u64) -> Result<Self> {
        let stream = connect(gateway).await?;
        let url = format!("ws://{}{}", gateway.authority(), path(session, interval_ms));
        let (socket, _) = timeout(PATIENCE, client_async(url, stream))
            .await
            .context("no answer to who wants to watch")?
            .context("watching was refused")?;
        Ok(Self { socket, announced: None })
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> Result<Seen> {
        loop {
            let message = self.socket.next().await.context("the gateway hung up")??;
            match message {
                Message::Text(text) => match serde_json::from_str(&text)? {
                    Down::State { session } => return Ok(Seen::State(session)),
                    Down::Done { id } => return Ok(Seen::Done(id)),
                    Down::Frame(head) => self.announced = Some(head),
                    Down::Other(other) => bail!("the gateway said {other}"),
                },
                Message::Binary(jpeg) => {
                    let head = self.announced.take().context("a frame came unannounced")?;
                    ensure!(jpeg.starts_with(&[0xFF, 0xD8]), "a frame that is no JPEG");
                    return Ok(Seen::Frame(Frame {
                        captured: head.captured()?,
                        arrived: SystemTime::now(),
                        bytes: jpeg.len(),
                    }));
                }
                Message::Close(reason) => bail!("the gateway closed the connection: {reason:?}"),
                // Pings are answered when more is read.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// Clicks, in CSS pixels.
    pub(super) async fn click(&mut self, id: u64, (x, y): (u32, u32)) -> Result<()> {
        let click = json!({ "type": "click", "id": id, "x": x, "y": y });
        Ok(self.socket.send(Message::text(click.to_string())).await?)
    }

    /// Waits until the gateway knows of so many viewers.
    pub(super) async fn until_viewers(&mut self, count: usize) -> Result<()> {
        let told = async {
            loop {
                if let Seen::State(state) = self.next().await?
                    && state.viewers == count
                {
                    return anyhow::Ok(());
                }
            }
        };
        timeout(PATIENCE, told)
            .await
            .with_context(|| format!("the gateway does not count {count} viewers"))?
    }

    /// Waits for a frame. Whoever connects gets one, also of a page at rest.
    pub(super) async fn until_frame(&mut self) -> Result<Frame> {
        let shown = async {
            loop {
                if let Seen::Frame(frame) = self.next().await? {
                    return anyhow::Ok(frame);
                }
            }
        };
        timeout(PATIENCE, shown).await.context("no frame came")?
    }

    /// The frames that come within this time.
    pub(super) async fn watch(&mut self, time: Duration) -> Result<Vec<Frame>> {
        let until = (Instant::now() + time).into();
        let mut frames = Vec::new();
        while let Ok(seen) = timeout_at(until, self.next()).await {
            if let Seen::Frame(frame) = seen? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    /// Watches from now on, beside whatever else goes on.
    pub(super) fn keep_watching(mut self) -> Watching {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut frames = Vec::new();
            loop {
                tokio::select! {
                    _ = &mut stopped => return Ok(frames),
                    seen = self.next() => if let Seen::Frame(frame) = seen? {
                        frames.push(frame);
                    },
                }
            }
        });
        Watching { stop, task }
    }
}

impl Watching {
    /// Hangs up, and tells what was seen.
    pub(super) async fn end(self) -> Result<Vec<Frame>> {
        // It may have failed before.
        let _ = self.stop.send(());
        self.task.await?
    }
}

impl Stalled {
    pub(super) async fn open(gateway: &Gateway, session: &str, interval_ms: u64) -> Result<Self> {
        let mut socket = connect(gateway).await?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
            path(session, interval_ms),
            gateway.authority()
        );
        socket.write_all(request.as_bytes()).await?;
        Ok(Self { socket, spoke: Instant::now() })
    }

    /// Is heard of from time to time, so as not to be taken for gone. Nothing is answered by that.
    pub(super) async fn stay(&mut self) -> Result<()> {
        if self.spoke.elapsed() > SPEAK_EVERY {
            // A pong without a word in it.
            self.socket.write_all(&[0x8A, 0x80, 0, 0, 0, 0]).await.context("the gateway hung up")?;
            self.spoke = Instant::now();
        }
        Ok(())
    }
}

async fn connect(gateway: &Gateway) -> Result<TcpStream> {
    let stream = TcpStream::connect(gateway.authority()).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// With the defaults of quality and size.
fn path(session: &str, interval_ms: u64) -> String {
    format!("/api/browser-sessions/{session}/live?interval={interval_ms}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let read = |message: Value| serde_json::from_value::<Down>(message).unwrap();
        let state = json!({ "type": "state", "session": { "viewers": 2, "pageTitle": "Click 1 at 5" }, "yours": false });
        let Down::State { session } = read(state) else { panic!("it is a state") };
        assert_eq!((session.viewers, session.page_title.as_str()), (2, "Click 1 at 5"));
        assert!(matches!(read(json!({ "type": "done", "id": 7 })), Down::Done { id: 7 }));
        assert!(matches!(read(json!({ "type": "gone", "message": "it ended" })), Down::Other(_)));
        assert!(matches!(
            read(json!({ "type": "error", "id": 7, "error": "x", "message": "no" })),
            Down::Other(_)
        ));
    }

    #[test]
    fn a_frame_is_as_old_as_the_time_since_its_capture() {
        let head = json!({ "type": "frame", "sequence": 1, "capturedAt": "1970-01-01T00:00:01.250Z", "width": 1, "height": 1 });
        let Down::Frame(head) = serde_json::from_value(head).unwrap() else { panic!("it is a frame") };
        let frame = |arrived_ms| Frame {
            captured: head.captured().unwrap(),
            arrived: SystemTime::UNIX_EPOCH + Duration::from_millis(arrived_ms),
            bytes: 0,
        };
        assert_eq!(frame(1300).age(), Duration::from_millis(50));
        assert_eq!(frame(1249).age(), Duration::ZERO);
    }
}
