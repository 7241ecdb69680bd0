//! The files of sessions as MCP resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use greenroom_core::percent::unescape;
use greenroom_core::target::SessionName;
use greenroom_engine::{Blob, SessionFile, file_uri};
use rmcp::model::{Resource, ResourceContents};

pub(super) fn resource(session: &SessionName, file: &SessionFile) -> Resource {
    let mut resource = Resource::new(file_uri(session, &file.name), &file.name);
    resource.description = Some(format!("A file that session `{session}` has written."));
    resource.mime_type = Some(file.mime_type.to_owned());
    resource
}

pub(super) fn contents(uri: &str, file: &SessionFile, bytes: Vec<u8>) -> ResourceContents {
    encoded(uri, file.mime_type, bytes)
}

/// Something that a call brought along.
pub(super) fn blob(uri: &str, blob: &Blob, bytes: Vec<u8>) -> ResourceContents {
    encoded(uri, &blob.mime_type, bytes)
}

fn encoded(uri: &str, mime_type: &str, bytes: Vec<u8>) -> ResourceContents {
    let (uri, mime_type) = (uri.to_owned(), Some(mime_type.to_owned()));
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::TextResourceContents { uri, mime_type, text, meta: None },
        Err(not_text) => {
            let blob = STANDARD.encode(not_text.into_bytes());
            ResourceContents::BlobResourceContents { uri, mime_type, blob, meta: None }
        }
    }
}

/// The session and the file that an address names; `None` when it names something else.
pub(super) fn parse(uri: &str) -> Option<(SessionName, String)> {
    let (session, file) = uri.strip_prefix("greenroom://sessions/")?.split_once("/files/")?;
    Some((SessionName::new(unescape(session)?).ok()?, unescape(file)?))
}

#[cfg(test)]
mod tests {
    use greenroom_core::target::SessionName;
    use greenroom_engine::file_uri;

    use super::parse;

    #[test]
    fn what_becomes_an_address_comes_back_from_it() {
        let session = SessionName::new("../a b/\u{fc}%2F").unwrap();
        let uri = file_uri(&session, "shots/page 1.png");
        assert_eq!(uri, "greenroom://sessions/..%2Fa%20b%2F%C3%BC%252F/files/shots/page%201.png");
        assert_eq!(parse(&uri), Some((session, "shots/page 1.png".to_owned())));
        for wrong in
            ["greenroom://status", "greenroom://sessions//files/x", "greenroom://sessions/%zz/files/x"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
