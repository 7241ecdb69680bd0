//! The record of calls, as the engine keeps it.
//!
//! ```text
//!   arrival ──► begin ──► the upstream is asked ──► capture ──► redaction ──► finish ──► the caller is answered
//! ```
//!
//! A ref id is handed out only when the call and its answer are on disk. Where they could not be written the call goes on
//! without one; status and log say so.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use greenroom_core::config::HistoryConfig;
use greenroom_core::ids::RefId;
use greenroom_store::{
    Begun, BlobRef, Durability, Finished, NewCall, NewSession, Retention, SessionState, Store, StoreConfig,
    StoreError,
};
use greenroom_upstream::run_folder;
use tokio::sync::watch;

use crate::status::HistoryReport;

/// The record holds the result of such a call as a file of this kind.
pub const RESULT_FILE: &str = "application/vnd.greenroom.result+json";

/// How often what is too old is looked for.
pub(crate) const CLEAN_EVERY: Duration = Duration::from_secs(60);

/// And how soon after the start.
pub(crate) const CLEAN_FIRST: Duration = Duration::from_secs(2);

pub(crate) struct History {
    store: Option<Store>,
    data_dir: PathBuf,
    /// Why there is none, where one is wanted.
    missing: Option<String>,
    blob_threshold: usize,
    redaction: Redaction,
    /// Calls under an id that their caller chose, while they run.
    flights: Mutex<HashMap<RefId, watch::Receiver<()>>>,
}

/// Whether a call is on record.
pub(crate) enum Noted {
    Yes(RefId),
    /// It could not be written down, or nobody wants that.
    No,
    /// There is one of that id, so this one is not to be made.
    Known(RefId),
}

impl History {
    pub(crate) fn open(data_dir: &Path, run: &str, config: Option<&HistoryConfig>) -> Self {
        let store = config.map(|config| {
            let config = StoreConfig {
                folder: data_dir.to_owned(),
                run: run.to_owned(),
                durability: if config.survives_power_loss { Durability::Power } else { Durability::Process },
                retention: Retention {
                    age: config.retention,
                    database_bytes: config.max_database_bytes,
                    blob_age: config.blob_ttl,
                    blob_bytes: config.blob_max_bytes,
                },
            };
            Store::open(config, |run| run_folder::is_there(data_dir, run))
        });
        let (store, missing) = match store {
            None => (None, None),
            Some(Ok(store)) => (Some(store), None),
            Some(Err(error)) => {
                tracing::error!("calls are not written down: {error}");
                (None, Some(error.to_string()))
            }
        };
        Self {
            store,
            data_dir: data_dir.to_owned(),
            missing,
            blob_threshold: config.map_or(usize::MAX, |config| config.blob_threshold),
            redaction: Redaction,
            flights: Mutex::default(),
        }
    }

    /// Whether calls are written down at all.
    pub(crate) fn is_on(&self) -> bool {
        self.store.is_some()
    }

    /// Why there is none, where one is wanted.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Results beyond this are files of their own.
    pub(crate) fn blob_threshold(&self) -> usize {
        self.blob_threshold
    }

    pub(crate) fn report(&self) -> HistoryReport {
        let health = self.store.as_ref().map(Store::health).unwrap_or_default();
        HistoryReport {
            state: match (&self.store, &self.missing, &health.failing) {
                (Some(_), _, None) => "on",
                (Some(_), _, Some(_)) | (None, Some(_), _) => "failing",
                (None, None, _) => "off",
            }
            .into(),
            lost: health.lost,
            error: self.missing.clone().or(health.failing),
        }
    }

    pub(crate) fn session_began(&self, session: NewSession) {
        if let Some(store) = &self.store {
            store.session_began(session);
        }
    }

    pub(crate) fn session_ended(&self, id: &str, state: SessionState) {
        if let Some(store) = &self.store {
            store.session_ended(id, state);
        }
    }

    /// Writes down that a call has arrived. On disk when this returns.
    pub(crate) async fn begin(&self, mut call: NewCall) -> Noted {
        let Some(store) = &self.store else { return Noted::No };
        let ref_id = call.ref_id;
        call.params = self.redaction.text(call.params);
        match store.begin(call).await {
            Ok(Begun::New) => Noted::Yes(ref_id),
            Ok(Begun::Known) => Noted::Known(ref_id),
            Err(_) => Noted::No,
        }
    }

    /// Writes down what became of it. Says whether it is on disk.
    pub(crate) async fn finish(&self, mut call: Finished) -> bool {
        let Some(store) = &self.store else { return false };
        self.redaction.answer(&mut call);
        store.finish(call).await.is_ok()
    }

    /// Keeps something as a file. `None` where that is not possible, which is said in the log.
    pub(crate) async fn keep(&self, bytes: Bytes, mime_type: &str) -> Option<BlobRef> {
        let kept = self.store.as_ref()?.put_blob(bytes, mime_type).await;
        kept.inspect_err(|error| match error {
            StoreError::TooLarge { .. } => tracing::info!("not kept: {error}"),
            error => tracing::warn!("not kept: {error}"),
        })
        .ok()
    }

    /// A call under an id that its caller chose takes off. It is in flight until the value is dropped.
    pub(crate) fn take_off(self: &Arc<Self>, ref_id: RefId) -> Flight {
        let (landed, flight) = watch::channel(());
        self.flights.lock().unwrap_or_else(PoisonError::into_inner).insert(ref_id, flight);
        Flight { history: Arc::clone(self), ref_id, _landed: landed }
    }

    /// Waits until no call of that id is in flight.
    pub(crate) async fn landing(&self, ref_id: RefId) {
        let flight = self.flights.lock().unwrap_or_else(PoisonError::into_inner).get(&ref_id).cloned();
        if let Some(mut flight) = flight {
            // Nothing is ever sent: it ends with its sender.
            while flight.changed().await.is_ok() {}
        }
    }

    /// Ends what others have left behind, and removes what has had its time.
    pub(crate) async fn clean(&self) {
        let Some(store) = &self.store else { return };
        // One that was killed a moment before our start may still have been going then.
        if let Err(error) = store.settle(|run| run_folder::is_there(&self.data_dir, run)).await {
            tracing::debug!(%error, "what other runs left was not looked at");
        }
        match store.clean(SystemTime::now()).await {
            Ok(cleaned) if cleaned.calls + cleaned.blobs > 0 => {
                tracing::info!(calls = cleaned.calls, blobs = cleaned.blobs, "old history was removed");
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "old history was not removed"),
        }
    }

    pub(crate) async fn close(&self) {
        if let Some(store) = &self.store {
            store.close().await;
        }
    }
}

/// A call in flight under an id of its caller's.
pub(crate) struct Flight {
    history: Arc<History>,
    ref_id: RefId,
    _landed: watch::Sender<()>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.history.flights.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.ref_id);
    }
}

/// What may not be written down is taken out here, between capture and record. Nothing is, so far.
struct Redaction;

impl Redaction {
    fn text(&self, text: String) -> String {
        text
    }

    fn answer(&self, _call: &mut Finished) {}
}
