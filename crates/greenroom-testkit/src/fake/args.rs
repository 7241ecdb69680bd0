//! The arguments of a tool call.

use serde_json::Value;

use super::reply::{INVALID_PARAMS, Reply};

pub(super) struct Args {
    tool: &'static str,
    values: Value,
    /// The request's `_meta`, where a progress token may be.
    meta: Value,
}

impl Args {
    pub(super) fn new(tool: &'static str, values: Value, meta: Value) -> Self {
        Self { tool, values, meta }
    }

    pub(super) fn all(&self) -> &Value {
        &self.values
    }

    pub(super) fn progress_token(&self) -> Option<&Value> {
        self.meta.get("progressToken")
    }

    pub(super) fn text(&self, name: &str) -> Result<&str, Reply> {
        self.values[name].as_str().ok_or_else(|| self.complaint(name, "a string"))
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, Reply> {
        self.values[name].as_u64().ok_or_else(|| self.complaint(name, "a whole number, not negative"))
    }

    pub(super) fn signed(&self, name: &str) -> Result<i64, Reply> {
        self.values[name].as_i64().ok_or_else(|| self.complaint(name, "a whole number"))
    }

    /// `None` where the argument is not given, an error where it is given and wrong.
    pub(super) fn optional<'a, T>(
        &'a self,
        name: &str,
        read: impl Fn(&'a Self, &str) -> Result<T, Reply>,
    ) -> Result<Option<T>, Reply> {
        if self.values[name].is_null() { Ok(None) } else { read(self, name).map(Some) }
    }

    fn complaint(&self, name: &str, wanted: &str) -> Reply {
        let tool = self.tool;
        Reply::error(INVALID_PARAMS, format!("Invalid arguments for tool {tool}: {name} must be {wanted}"))
    }
}
