use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use greenroom_core::ids::RefId;

use crate::model::*;
use crate::reader::Reader;

#[derive(Clone)]
pub struct Store(Arc<()>);

fn later<T>() -> Result<T, StoreError> {
    Err(StoreError::Write("not built yet".into()))
}

impl Store {
    pub fn open(_config: StoreConfig, _is_alive: impl Fn(&str) -> bool) -> Result<Store, StoreError> {
        Ok(Self(Arc::new(())))
    }
    pub fn session_began(&self, _session: NewSession) {}
    pub fn session_ended(&self, _id: &str, _state: SessionState) {}
    pub async fn begin(&self, _call: NewCall) -> Result<Begun, StoreError> {
        later()
    }
    pub async fn finish(&self, _call: Finished) -> Result<(), StoreError> {
        later()
    }
    pub async fn set_cursor(&self, _ref_id: RefId, _cursor: Cursor) -> Result<(), StoreError> {
        later()
    }
    pub async fn put_blob(&self, _bytes: Bytes, _mime_type: &str) -> Result<BlobRef, StoreError> {
        later()
    }
    pub async fn read<T: Send + 'static>(
        &self,
        _f: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        later()
    }
    pub fn health(&self) -> StoreHealth {
        let _ = &self.0;
        StoreHealth::default()
    }
    pub async fn clean(&self, _now: SystemTime) -> Result<Cleaned, StoreError> {
        later()
    }
    pub async fn close(&self) {}
}

pub fn vacuum(_folder: &Path) -> Result<Stats, StoreError> {
    later()
}
