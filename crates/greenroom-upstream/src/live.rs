//! What a browser in our host offers beside MCP: the state of its pages, a screencast, input, screenshots and PDF.
//!
//! None of it goes through the MCP connection, so none of it waits for a call or counts as one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::host::{ContextId, Host, HostError, Sender};

const INPUT_LIMIT: Duration = Duration::from_secs(5);
/// A site may take its time to answer.
const NAVIGATION_LIMIT: Duration = Duration::from_secs(30);
const SCREENSHOT_LIMIT: Duration = Duration::from_secs(10);
const PDF_LIMIT: Duration = Duration::from_secs(30);

/// What the pages of a context are at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageState {
    /// In the order and with the indexes of the upstream's own list of tabs.
    pub tabs: Vec<Tab>,
    /// Of the current tab, in CSS pixels, where it is fixed.
    pub viewport: Option<(u32, u32)>,
    /// One that is open in the current tab.
    pub dialog: Option<Dialog>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tab {
    pub url: String,
    pub title: String,
    /// Whether calls and input go to it.
    pub is_current: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Dialog {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub kind: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CastOptions {
    /// Of the JPEG, from 1 to 100.
    pub quality: u8,
    /// A wider page is shown smaller.
    pub max_width: u32,
}

/// One picture of a screencast.
#[derive(Clone, Debug)]
pub struct Frame {
    pub jpeg: Bytes,
    pub captured: SystemTime,
    /// What the picture shows, in CSS pixels.
    pub viewport: (u32, u32),
}

/// Something that a person does to the current tab. Places are CSS pixels of the viewport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Input {
    Click {
        x: f64,
        y: f64,
        #[serde(default)]
        button: Button,
        #[serde(default = "once")]
        count: u32,
        #[serde(default)]
        modifiers: Vec<Modifier>,
    },
    Move {
        x: f64,
        y: f64,
    },
    Down {
        x: f64,
        y: f64,
        #[serde(default)]
        button: Button,
        #[serde(default)]
        modifiers: Vec<Modifier>,
    },
    Up {
        x: f64,
        y: f64,
        #[serde(default)]
        button: Button,
        #[serde(default)]
        modifiers: Vec<Modifier>,
    },
    Wheel {
        x: f64,
        y: f64,
        dx: f64,
        dy: f64,
    },
    Type {
        text: String,
    },
    /// One key by its name, which is that of `KeyboardEvent.key`.
    Key {
        key: String,
        #[serde(default)]
        modifiers: Vec<Modifier>,
    },
    Navigate {
        url: String,
    },
    Back,
    Forward,
    Reload,
}

fn once() -> u32 {
    1
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Button {
    #[default]
    Left,
    Middle,
    Right,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Modifier {
    Shift,
    Control,
    Alt,
    Meta,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScreenshotOptions {
    pub format: ImageFormat,
    /// Of a JPEG, from 1 to 100; none leaves it to the browser.
    pub quality: Option<u8>,
    pub scale: Scale,
    /// The whole page rather than what the viewport shows.
    pub full_page: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    #[default]
    Png,
    Jpeg,
}

/// What one pixel of a picture stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    #[default]
    Css,
    Device,
}

/// The side channel of one browser context.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    host: &'a Host,
    context: ContextId,
}

impl<'a> Live<'a> {
    pub(crate) fn new(host: &'a Host, context: ContextId) -> Self {
        Self { host, context }
    }

    /// What the pages are at, now and at every change. It is closed when the context has gone for good.
    pub fn state(&self) -> watch::Receiver<PageState> {
        match self.host.side(self.context) {
            Some(side) => side.state.subscribe(),
            None => watch::channel(PageState::default()).1,
        }
    }

    /// Whether this browser has a screencast. Chromium has.
    pub fn has_cast(&self) -> bool {
        self.host.is_chromium()
    }

    /// Starts a screencast. There need not be a page yet.
    pub async fn cast(&self, options: CastOptions) -> Result<Cast, HostError> {
        if !self.has_cast() {
            return Err(HostError::Refused("this browser has no screencast".to_owned()));
        }
        let (frames, arriving) = mpsc::channel(1);
        let side = self.host.side(self.context).ok_or_else(HostError::context_gone)?;
        let number = side.add_cast(frames);
        let (context, sender, side) = (self.context, self.host.sender(), Arc::downgrade(&side));
        // From here on it is stopped when anything goes wrong.
        let cast = Cast { number, context, sender, arriving, is_owed: false, side };
        let CastOptions { quality, max_width } = options;
        let arguments = json!({ "cast": number, "quality": quality, "maxWidth": max_width });
        self.host.request(self.context, "cast", arguments).await?;
        Ok(cast)
    }

    /// Does to the current tab what a person did. A click that opens a dialog has then been done.
    pub async fn input(&self, input: &Input) -> Result<(), HostError> {
        if let Input::Navigate { url } = input
            && names_a_file(url)
        {
            return Err(HostError::Refused(
                "files of the machine are not shown; give a web address".to_owned(),
            ));
        }
        let (limit, what) = match input {
            Input::Navigate { .. } | Input::Back | Input::Forward | Input::Reload => {
                (NAVIGATION_LIMIT, "the navigation")
            }
            _ => (INPUT_LIMIT, "the input"),
        };
        let input = serde_json::to_value(input).expect("input is plain JSON");
        let arguments = json!({ "input": input, "limit": millis(limit) });
        within(limit, what, self.host.request(self.context, "input", arguments)).await.map(drop)
    }

    pub async fn screenshot(&self, options: &ScreenshotOptions) -> Result<Bytes, HostError> {
        let mut wanted = json!({
            "type": options.format,
            "scale": options.scale,
            "fullPage": options.full_page,
        });
        if let (ImageFormat::Jpeg, Some(quality)) = (options.format, options.quality) {
            wanted["quality"] = quality.into();
        }
        self.bytes("screenshot", json!({ "options": wanted }), SCREENSHOT_LIMIT, "the screenshot").await
    }

    /// The current tab as it would be printed.
    pub async fn pdf(&self) -> Result<Bytes, HostError> {
        self.bytes("pdf", json!({}), PDF_LIMIT, "the PDF").await
    }

    async fn bytes(
        &self,
        op: &str,
        mut arguments: Value,
        limit: Duration,
        what: &'static str,
    ) -> Result<Bytes, HostError> {
        arguments["limit"] = millis(limit).into();
        within(limit, what, self.host.request_bytes(self.context, op, arguments)).await
    }
}

async fn within<T>(
    limit: Duration,
    what: &'static str,
    doing: impl Future<Output = Result<T, HostError>>,
) -> Result<T, HostError> {
    tokio::time::timeout(limit, doing).await.unwrap_or(Err(HostError::TooSlow { what, limit }))
}

fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

/// The upstream refuses such addresses to agents, and so do we to people.
fn names_a_file(url: &str) -> bool {
    let scheme =
        |url: &str| reqwest::Url::parse(url).map(|url| (url.scheme().to_owned(), url.path().to_owned()));
    match scheme(url) {
        Ok((scheme, path)) if scheme == "view-source" => names_a_file(&path),
        Ok((scheme, _)) => scheme == "file",
        Err(_) => false,
    }
}

/// A running screencast of whatever tab is the current one. Dropping it stops it.
pub struct Cast {
    number: u32,
    context: ContextId,
    sender: Sender,
    arriving: mpsc::Receiver<Frame>,
    /// Whether a frame was asked for that has not come yet.
    is_owed: bool,
    side: Weak<Side>,
}

impl Cast {
    /// Asks for one more frame and waits for it. None: the context has gone. A frame equal to the last one is not sent,
    /// so on a page at rest this waits until something changes.
    ///
    /// Cancel safe: what was asked for is what the next call waits for.
    pub async fn next(&mut self) -> Option<Frame> {
        if !self.is_owed {
            self.sender.send(self.context, &json!({ "op": "cast_next", "cast": self.number }));
            self.is_owed = true;
        }
        let frame = self.arriving.recv().await;
        self.is_owed = false;
        frame
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        if let Some(side) = self.side.upgrade() {
            side.casts().remove(&self.number);
        }
        self.sender.send(self.context, &json!({ "op": "cast_stop", "cast": self.number }));
    }
}

/// Where what the host pushes for a context is left.
pub(crate) struct Side {
    state: watch::Sender<PageState>,
    casts: Mutex<HashMap<u32, mpsc::Sender<Frame>>>,
    next_cast: AtomicU32,
}

/// The host's word for a change of the pages.
#[derive(Deserialize)]
struct Pages {
    tabs: Vec<TabEntry>,
    viewport: Option<Size>,
    dialog: Option<Dialog>,
}

#[derive(Deserialize)]
struct TabEntry {
    url: String,
    title: String,
    current: bool,
}

#[derive(Deserialize)]
struct Size {
    width: u32,
    height: u32,
}

/// What stands before the JPEG of a frame.
#[derive(Deserialize)]
struct FrameHead {
    /// Milliseconds since 1970.
    captured: u64,
    width: u32,
    height: u32,
}

impl Side {
    pub(crate) fn new() -> Self {
        let state = watch::channel(PageState::default()).0;
        Self { state, casts: Mutex::default(), next_cast: AtomicU32::new(1) }
    }

    fn casts(&self) -> MutexGuard<'_, HashMap<u32, mpsc::Sender<Frame>>> {
        self.casts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_cast(&self, frames: mpsc::Sender<Frame>) -> u32 {
        let number = self.next_cast.fetch_add(1, Ordering::Relaxed);
        self.casts().insert(number, frames);
        number
    }

    /// Takes what a `pages` event says.
    pub(crate) fn pages(&self, event: &[u8]) {
        let Ok(Pages { tabs, viewport, dialog }) = serde_json::from_slice(event) else {
            tracing::warn!("the browser host sent a state of its pages that cannot be read; ignored");
            return;
        };
        let tab = |TabEntry { url, title, current }| Tab { url, title, is_current: current };
        let state = PageState {
            tabs: tabs.into_iter().map(tab).collect(),
            viewport: viewport.map(|size| (size.width, size.height)),
            dialog,
        };
        self.state.send_if_modified(|known| {
            let is_new = *known != state;
            *known = state;
            is_new
        });
    }

    /// Takes a frame: u32 cast, u32 length of its head, head, JPEG.
    pub(crate) fn frame(&self, mut payload: Bytes) {
        let read = (|| {
            let cast = payload.try_get_u32().ok()?;
            let length = payload.try_get_u32().ok()? as usize;
            if length > payload.len() {
                return None;
            }
            let head: FrameHead = serde_json::from_slice(&payload.split_to(length)).ok()?;
            Some((cast, head))
        })();
        let Some((cast, head)) = read else {
            tracing::warn!("the browser host sent a frame that cannot be read; ignored");
            return;
        };
        let frame = Frame {
            jpeg: payload,
            captured: SystemTime::UNIX_EPOCH + Duration::from_millis(head.captured),
            viewport: (head.width, head.height),
        };
        if let Some(frames) = self.casts().get(&cast) {
            // One is asked for at a time, so there is room for it.
            let _ = frames.try_send(frame);
        }
    }

    /// The context has gone: whoever waits for a frame is told.
    pub(crate) fn end(&self) {
        self.casts().clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn decoded(message: Value) -> Input {
        serde_json::from_value(message).expect("it is input")
    }

    #[test]
    fn what_a_message_leaves_out_is_a_plain_left_click() {
        let (button, count, modifiers) = (Button::Left, 1, Vec::new());
        assert_eq!(
            decoded(json!({ "type": "click", "id": 7, "x": 1.5, "y": 2 })),
            Input::Click { x: 1.5, y: 2.0, button, count, modifiers }
        );
        let modifiers = vec![Modifier::Shift, Modifier::Control];
        assert_eq!(
            decoded(json!({ "type": "key", "key": "a", "modifiers": ["Shift", "Control"] })),
            Input::Key { key: "a".to_owned(), modifiers }
        );
        assert_eq!(decoded(json!({ "type": "back", "id": "x" })), Input::Back);
    }

    #[test]
    fn input_goes_to_the_host_in_the_words_it_came_in() {
        for message in [
            json!({ "type": "click", "x": 1.0, "y": 2.0, "button": "right", "count": 2, "modifiers": ["Alt"] }),
            json!({ "type": "move", "x": 1.0, "y": 2.0 }),
            json!({ "type": "wheel", "x": 1.0, "y": 2.0, "dx": 0.0, "dy": 100.0 }),
            json!({ "type": "type", "text": "hello" }),
            json!({ "type": "navigate", "url": "https://a.example/" }),
            json!({ "type": "reload" }),
        ] {
            assert_eq!(serde_json::to_value(decoded(message.clone())).expect("it is plain"), message);
        }
    }

    #[test]
    fn files_are_told_from_web_addresses() {
        for url in ["file:///etc/passwd", "FILE:/etc/passwd", " file:///x", "view-source:file:///etc/passwd"]
        {
            assert!(names_a_file(url), "{url}");
        }
        for url in ["https://a.example/file:", "a.example", "about:blank", "view-source:https://a.example/"] {
            assert!(!names_a_file(url), "{url}");
        }
    }

    #[test]
    fn a_frame_that_cannot_be_read_or_is_for_nobody_does_no_harm() {
        let side = Side::new();
        let (frames, mut arriving) = mpsc::channel(1);
        let cast = side.add_cast(frames);
        let head = br#"{"captured":1500,"width":800,"height":600}"#;
        let length = u32::try_from(head.len()).expect("it is short");
        let whole = |cast: u32| [&cast.to_be_bytes(), &length.to_be_bytes(), &head[..], b"picture"].concat();
        side.frame(Bytes::from_static(b"\0\0"));
        side.frame(Bytes::from([&cast.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat()));
        side.frame(Bytes::from(whole(cast + 1)));
        assert!(arriving.try_recv().is_err());
        side.frame(Bytes::from(whole(cast)));
        let frame = arriving.try_recv().expect("it is for this one");
        assert_eq!((frame.jpeg.as_ref(), frame.viewport), (&b"picture"[..], (800, 600)));
        assert_eq!(frame.captured, SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
    }
}
