//! Sessions as a service: started for a conversation, watched, stepped into, and stopped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use greenroom_core::target::SessionName;
use greenroom_store::SessionRow;
use greenroom_upstream::live::ScreenshotOptions;
use serde_json::Value;
use tokio::time::timeout;

use crate::call::CallFailure;
use crate::engine::{Engine, mint_name};
use crate::fleet::{SessionSeat, Wishes};
use crate::live::cast;
use crate::live::person::Person;
use crate::live::viewer::{ViewOptions, Viewer};
use crate::live::{Conversation, Pictures, SessionStatus, SessionView};
use crate::sessions::{Caller, Plan, Session, SessionKey, Visit};

/// How long whoever starts a session waits for its browser, so that they mostly hear how it went.
const OPENING_LIMIT: Duration = Duration::from_secs(1);

/// How long a screenshot through MCP may take, and the wait for its turn.
const SCREENSHOT_LIMIT: Duration = Duration::from_secs(15);

/// What somebody wants a session for, and how it is to be.
pub struct SessionRequest {
    pub conversation: Conversation,
    pub pool: Option<String>,
    pub wishes: Wishes,
    /// How long it may be idle; where it is not said, as configured. Zero: for ever.
    pub idle: Option<Duration>,
}

/// A session that was asked for.
pub struct Opening {
    pub view: SessionView,
    pub is_new: bool,
}

impl Engine {
    /// The session of a conversation: the one that it has, else a new one. Its browser is started at once.
    pub async fn open_session(
        &self,
        caller: &Caller,
        request: SessionRequest,
    ) -> Result<Opening, CallFailure> {
        let pool = match request.pool.filter(|pool| !pool.is_empty()) {
            Some(pool) => Some(self.pool(&pool)?.name().to_owned()),
            None => None,
        };
        let key = SessionKey { caller: caller.clone(), name: SessionName::new(mint_name())? };
        let plan = Plan {
            wishes: request.wishes,
            idle: Some(request.idle.unwrap_or(self.0.rest_session_idle.unwrap_or_default())),
            reply: None,
            conversation: Some(request.conversation),
        };
        let (session, is_new) = self.0.sessions.of_conversation(&key, pool.as_deref(), plan)?;
        if session.browser().is_none() {
            let visit = self.0.sessions.visit(&session.key, None)?;
            let opening = self.0.calls.spawn(open(visit));
            let _ = timeout(OPENING_LIMIT, opening).await;
        }
        Ok(Opening { view: session.view(), is_new })
    }

    /// What is to be seen of a session; of one that has ended too, as far as it is known.
    pub async fn session_view(&self, caller: &Caller, name: &SessionName) -> Option<SessionView> {
        match self.0.sessions.view(&self.key(caller, name)) {
            Some(view) => Some(view),
            None => self.stopped(caller, name).await,
        }
    }

    /// From the record, of a session of an earlier run.
    async fn stopped(&self, caller: &Caller, name: &SessionName) -> Option<SessionView> {
        let (owner, name) = (caller.to_string(), name.to_string());
        let store = self.0.history.store()?;
        let rows = store.read(move |reader| reader.sessions(Some(&owner), &name)).await.ok()?;
        rows.into_iter().max_by_key(|row| row.created).map(as_stopped)
    }

    /// All sessions of the caller, the newest first.
    pub fn session_views(&self, caller: &Caller) -> Vec<SessionView> {
        self.0.sessions.views(caller)
    }

    /// Ends a session. Says whether there was one.
    pub async fn close_session(&self, caller: &Caller, name: &SessionName) -> bool {
        self.0.sessions.close(&self.key(caller, name), "it was stopped").await
    }

    /// Begins to watch a session.
    pub fn watch(
        &self,
        caller: &Caller,
        name: &SessionName,
        options: ViewOptions,
    ) -> Result<Viewer, CallFailure> {
        Ok(Viewer::new(self.session(caller, name)?, options))
    }

    /// A person comes to a session.
    pub fn person(&self, caller: &Caller, name: &SessionName) -> Result<Person, CallFailure> {
        Ok(Person::new(&self.0, self.session(caller, name)?))
    }

    /// The page of a session as a picture. Through MCP, where there is no other way, it is a JPEG of what is in view.
    pub async fn screenshot(
        &self,
        caller: &Caller,
        name: &SessionName,
        options: &ScreenshotOptions,
    ) -> Result<Bytes, CallFailure> {
        let (session, seat) = self.browser_of(caller, name)?;
        let not_done = |reason: String| CallFailure::NotDone { reason };
        if let Some(live) = seat.upstream.live() {
            return live.screenshot(options).await.map_err(|error| not_done(error.to_string()));
        }
        let Some((tool, arguments)) = session.fleet.driver.screenshot_call() else {
            return Err(not_done("this kind of browser takes no pictures".to_owned()));
        };
        let taking = async {
            let _turn = session.turn().await;
            let pending = seat.upstream.call(tool, &arguments, None);
            pending.map_err(|ended| ended.to_string())?.await.map_err(|error| error.to_string())
        };
        let result = timeout(SCREENSHOT_LIMIT, taking).await;
        let result = result.unwrap_or_else(|_| Err("the browser did not answer in time".to_owned()));
        let image = result.map(|result| cast::image(&result)).map_err(&not_done)?;
        image.ok_or_else(|| not_done("the browser answered without a picture".to_owned()))
    }

    /// The page of a session as a PDF.
    pub async fn pdf(&self, caller: &Caller, name: &SessionName) -> Result<Bytes, CallFailure> {
        let (_, seat) = self.browser_of(caller, name)?;
        let live = seat
            .upstream
            .live()
            .ok_or_else(|| CallFailure::NotDone { reason: "this kind of browser makes no PDF".to_owned() })?;
        live.pdf().await.map_err(|error| CallFailure::NotDone { reason: error.to_string() })
    }

    fn key(&self, caller: &Caller, name: &SessionName) -> SessionKey {
        SessionKey { caller: caller.clone(), name: name.clone() }
    }

    fn session(&self, caller: &Caller, name: &SessionName) -> Result<Arc<Session>, CallFailure> {
        let found = self.0.sessions.find(&self.key(caller, name));
        found.ok_or_else(|| CallFailure::NoSuchSession { name: name.to_string() })
    }

    fn browser_of(
        &self,
        caller: &Caller,
        name: &SessionName,
    ) -> Result<(Arc<Session>, Arc<SessionSeat>), CallFailure> {
        let session = self.session(caller, name)?;
        let seat = session.browser().ok_or_else(|| CallFailure::NoBrowserYet { name: name.to_string() })?;
        Ok((session, seat))
    }
}

/// Starts the browser of a session that nobody has called yet.
async fn open(mut visit: Visit) {
    let _turn = visit.turn().await;
    let Ok((seat, notice)) = visit.session.seat().await else { return };
    // Nobody has been told yet.
    if let Some(notice) = notice {
        visit.session.keep_notice(notice);
    }
    seat.prime().await;
}

fn as_stopped(row: SessionRow) -> SessionView {
    let metadata: Value = serde_json::from_str(&row.metadata).unwrap_or_default();
    let text = |name: &str| metadata[name].as_str().map(str::to_owned);
    let conversation = text("conversationId").zip(text("profileId"));
    SessionView {
        id: row.name,
        status: SessionStatus::Stopped,
        url: None,
        title: None,
        viewport: None,
        tabs: Vec::new(),
        dialog: None,
        created: row.created,
        last_activity: row.last_activity,
        conversation: conversation.map(|(conversation, profile)| Conversation { conversation, profile }),
        pool: text("pool").unwrap_or_default(),
        seat: text("seat").unwrap_or_default(),
        calls: 0,
        is_busy: false,
        idle_left: None,
        viewers: 0,
        control: None,
        error: None,
        pictures: Pictures::None,
        can_input: false,
    }
}
