//! Everything that an answer brings along: what it says about the page, and what it only mentions.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use greenroom_store::BlobRef;
use greenroom_upstream::Driver;
use greenroom_upstream::driver::Page;
use greenroom_upstream::driver::reading::{Capture, Mention, SnapshotAt, mentioned_file};
use serde_json::{Map, Value};

use crate::history::{History, RESULT_FILE};
use crate::note::Note;

/// An answer that somebody has looked into.
#[derive(Default)]
pub(crate) struct Caught {
    /// The result as JSON. `None` where there was nothing to look for.
    pub(crate) body: Option<Map<String, Value>>,
    /// Whether the driver understands such results.
    pub(crate) is_read: bool,
    pub(crate) capture: Capture,
    /// Files that are kept, and what the answer called them.
    pub(crate) blobs: Vec<Kept>,
    /// Images that could not be kept.
    pub(crate) unkept: Vec<Value>,
    /// The whole result, where it is too large for the record.
    pub(crate) result: Option<BlobRef>,
    /// What the session showed before.
    pub(crate) before: Before,
    pub(crate) is_error: bool,
}

/// What a session has shown last.
#[derive(Clone, Default)]
pub(crate) struct Before {
    pub(crate) page: Page,
    pub(crate) snapshot: Option<Arc<str>>,
}

pub(crate) struct Kept {
    pub(crate) blob: BlobRef,
    pub(crate) name: String,
    /// How the answer mentions it; empty for an image that it holds itself.
    pub(crate) words: String,
}

impl Caught {
    /// Of a script, whose steps have been looked into one by one.
    pub(crate) fn of_script(error: Option<String>) -> Self {
        let mut caught = Self { is_error: error.is_some(), ..Self::default() };
        caught.capture.reading.error = error;
        caught
    }

    pub(crate) fn page(&self) -> Option<&Page> {
        self.capture.reading.page.as_ref()
    }

    /// What went wrong, in the tool's words.
    pub(crate) fn error(&self) -> String {
        self.error_in(self.body.as_ref())
    }

    pub(crate) fn error_in(&self, body: Option<&Map<String, Value>>) -> String {
        let read = self.capture.reading.error.as_deref();
        let text = read.or_else(|| body.and_then(text_of));
        text.unwrap_or("the tool reported an error").to_owned()
    }

    pub(crate) fn blob_refs(&self) -> Vec<BlobRef> {
        let mut blobs: Vec<BlobRef> = Vec::new();
        for blob in self.blobs.iter().map(|kept| &kept.blob).chain(&self.result) {
            if !blobs.iter().any(|known| known.digest == blob.digest && known.mime_type == blob.mime_type) {
                blobs.push(blob.clone());
            }
        }
        blobs
    }
}

/// Looks into an answer. `folder` is where the server writes files.
pub(crate) async fn catch(note: &Note, driver: &dyn Driver, folder: Option<&Path>, result: &Bytes) -> Caught {
    let (history, budget) = (note.history(), note.budget());
    let has_images = || memchr::memmem::find(result, b"\"image\"").is_some();
    let may_be_error = || memchr::memmem::find(result, b"\"isError\"").is_some();
    let is_long = budget > 0 && result.len() > budget || result.len() > history.blob_threshold();
    if !driver.reads() && !is_long && !has_images() && !may_be_error() {
        return Caught::default();
    }
    let Ok(body) = serde_json::from_slice::<Map<String, Value>>(result) else { return Caught::default() };
    let mut caught =
        Caught { is_error: body.get("isError") == Some(&Value::Bool(true)), ..Caught::default() };
    if let Some(mut reading) = text_of(&body).and_then(|text| driver.read(text)) {
        caught.is_read = true;
        // A caller who gets the answer as it came has nothing but the file.
        if let Some(SnapshotAt::File { is_ours, .. }) = &mut reading.snapshot {
            *is_ours &= note.replaces_links();
        }
        let mentions = reading.snapshot.is_some() || reading.console.is_some();
        caught.capture = match folder.filter(|_| mentions && history.is_on()) {
            Some(folder) => {
                let (folder, read_log) = (folder.to_owned(), driver.read_log());
                let fetched = tokio::task::spawn_blocking(move || reading.fetch(&folder, read_log)).await;
                fetched.unwrap_or_default()
            }
            None => Capture { reading, ..Capture::default() },
        };
    }
    if history.is_on() {
        keep(history, &body, folder, &mut caught).await;
        if result.len() > history.blob_threshold() {
            caught.result = history.keep(result.clone(), RESULT_FILE).await;
        }
    }
    caught.body = Some(body);
    caught
}

/// The text that a result begins with.
pub(crate) fn text_of(body: &Map<String, Value>) -> Option<&str> {
    let blocks = body.get("content")?.as_array()?;
    blocks.iter().find(|block| block["type"] == "text")?["text"].as_str()
}

/// Keeps the images of a result and the files that it mentions, where they are of a kind that people look at.
async fn keep(history: &History, body: &Map<String, Value>, folder: Option<&Path>, caught: &mut Caught) {
    let blocks = body.get("content").and_then(Value::as_array);
    for block in blocks.into_iter().flatten().filter(|block| block["type"] == "image") {
        match keep_image(history, block).await {
            Some(kept) => caught.blobs.push(kept),
            None => caught.unkept.push(block.clone()),
        }
    }
    let Some(folder) = folder else { return };
    let mentions = caught.capture.reading.files.clone();
    for Mention { words, path } in mentions {
        let Some((mime_type, path)) = kept_kind(&path).zip(mentioned_file(folder, &path)) else { continue };
        let Ok(bytes) = tokio::fs::read(&path).await else { continue };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(blob) = history.keep(bytes.into(), mime_type).await {
            // A screenshot comes as an image and as a file: it is one thing.
            caught.blobs.retain(|kept| !(kept.words.is_empty() && kept.blob.digest == blob.digest));
            caught.blobs.push(Kept { blob, name, words });
        }
    }
}

async fn keep_image(history: &History, block: &Value) -> Option<Kept> {
    let (data, mime_type) = (block["data"].as_str()?, block["mimeType"].as_str()?);
    let blob = history.keep(STANDARD.decode(data).ok()?.into(), mime_type).await?;
    let name = format!("image.{}", mime_type.rsplit('/').next().unwrap_or("bin"));
    Some(Kept { blob, name, words: String::new() })
}

/// What a file is called over the wire, where it is of a kind that is kept.
fn kept_kind(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "webp" => Some("image/webp"),
        "pdf" => Some("application/pdf"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use greenroom_core::ids::Digest;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_of_a_result_is_its_first_one() {
        let of = |body: Value| text_of(body.as_object().unwrap()).map(str::to_owned);
        let blocks =
            json!([{ "type": "image" }, { "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        assert_eq!(of(json!({ "content": blocks })).as_deref(), Some("a"));
        for none in [json!({}), json!({ "content": "a" }), json!({ "content": [{ "type": "text" }] })] {
            assert_eq!(of(none), None);
        }
    }

    #[test]
    fn what_is_kept_twice_is_on_record_once() {
        let blob = |content: &[u8], mime_type: &str| BlobRef {
            digest: Digest::of(content),
            mime_type: mime_type.to_owned(),
            size: content.len() as u64,
        };
        let kept = |blob| Kept { blob, name: String::new(), words: String::new() };
        let (a, b) = (blob(b"a", "image/png"), blob(b"b", "image/png"));
        let caught = Caught {
            blobs: [&a, &b, &a].map(|blob| kept(blob.clone())).into(),
            result: Some(blob(b"a", RESULT_FILE)),
            ..Caught::default()
        };
        assert_eq!(caught.blob_refs(), [a, b, blob(b"a", RESULT_FILE)]);
    }

    #[test]
    fn files_are_kept_by_what_their_names_end_with() {
        let kind = |name: &str| kept_kind(Path::new(name));
        assert_eq!((kind("/a/Shot.PNG"), kind("b.jpeg")), (Some("image/png"), Some("image/jpeg")));
        assert_eq!((kind("c.pdf"), kind("d.csv"), kind("png")), (Some("application/pdf"), None, None));
    }
}
