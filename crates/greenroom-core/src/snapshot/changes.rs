//! What changed between two snapshots.

use crate::text;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub text: String,
    pub added: usize,
    pub changed: usize,
    pub removed: usize,
    /// The two have so little in common that `text` is the whole new snapshot.
    pub is_new_page: bool,
}

pub fn changes(old: &str, new: &str) -> Changes {
    Changes { text: text::changes(old, new), ..Changes::default() }
}
