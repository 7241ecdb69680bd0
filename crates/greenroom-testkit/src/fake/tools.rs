//! The tools, sorted by what they are for.

mod asking;
mod content;
mod failing;
mod inspecting;
mod listing;
mod waiting;

pub(super) use content::TextCache;

use super::tool::Tool;

/// All tools, in the order they are listed.
pub(super) fn all() -> impl Iterator<Item = &'static Tool> {
    [content::TOOLS, waiting::TOOLS, failing::TOOLS, asking::TOOLS, inspecting::TOOLS, listing::TOOLS]
        .into_iter()
        .flatten()
}
