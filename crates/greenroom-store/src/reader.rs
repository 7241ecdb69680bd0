use std::path::{Path, PathBuf};

use bytes::Bytes;
use greenroom_core::console::ConsoleEntry;
use greenroom_core::ids::{Digest, RefId};

use crate::model::*;

pub struct Reader;

fn later<T>() -> Result<T, StoreError> {
    Err(StoreError::Read("not built yet".into()))
}

impl Reader {
    pub fn open(_folder: &Path) -> Result<Reader, StoreError> {
        later()
    }
    pub fn call(&self, _owner: Option<&str>, _ref_id: RefId) -> Result<Found<Call>, StoreError> {
        later()
    }
    pub fn result(&self, _ref_id: RefId) -> Result<Option<Bytes>, StoreError> {
        later()
    }
    pub fn snapshot(&self, _ref_id: RefId) -> Result<Option<String>, StoreError> {
        later()
    }
    pub fn console(&self, _ref_id: RefId) -> Result<Vec<ConsoleEntry>, StoreError> {
        later()
    }
    pub fn latest(&self, _owner: Option<&str>, _session: &str) -> Result<Option<Call>, StoreError> {
        later()
    }
    pub fn calls(&self, _filter: &Filter) -> Result<Vec<Call>, StoreError> {
        later()
    }
    pub fn cursor(&self, _ref_id: RefId) -> Result<Option<Cursor>, StoreError> {
        later()
    }
    pub fn sessions(&self, _owner: Option<&str>, _name: &str) -> Result<Vec<SessionRow>, StoreError> {
        later()
    }
    pub fn blob(
        &self,
        _owner: Option<&str>,
        _digest: Digest,
    ) -> Result<Found<(BlobRef, PathBuf)>, StoreError> {
        later()
    }
    pub fn stats(&self) -> Result<Stats, StoreError> {
        later()
    }
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        later()
    }
}
