//! Pages that keep a browser waiting.

use std::io::{self, Write};
use std::time::Duration;

use super::State;
use super::fields::Fields;
use super::html;
use crate::http1::{Reply, Request, Response};

const DEFAULT_MS: u64 = 10_000;

/// A one-pixel GIF, so small that half of it shows nothing.
const PIXEL: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x01D\0;";

/// Not even the headers come before the time is up.
pub(super) fn page(state: &State, request: &Request) -> Response {
    let ms = wait_of(request);
    state.stopping.wait_for(Duration::from_millis(ms));
    html::respond(200, "Slow page", &format!("<p>This page took <output>{ms}</output> ms to start.</p>"))
}

/// A page that is there at once, with an image that is not.
pub(super) fn page_with_image(request: &Request) -> Response {
    let ms = wait_of(request);
    let body = format!(
        "<p>The text is here. The image takes {ms} ms.</p>\n\
         <p><img src=\"/slow-resource/image?ms={ms}\" alt=\"A slow image\" width=\"100\" height=\"100\"></p>"
    );
    html::respond(200, "Slow image", &body)
}

/// The headers and half of the image come at once, the other half when the time is up.
pub(super) fn image(state: &State, request: &Request, reply: &mut Reply<'_>) -> io::Result<()> {
    let headers = vec![("Content-Type", "image/gif".to_owned()), ("Cache-Control", "no-store".to_owned())];
    let mut connection = reply.start_bytes(200, headers, PIXEL.len())?;
    let (one_half, other_half) = PIXEL.split_at(PIXEL.len() / 2);
    connection.write_all(one_half)?;
    state.stopping.wait_for(Duration::from_millis(wait_of(request)));
    connection.write_all(other_half)
}

fn wait_of(request: &Request) -> u64 {
    Fields::from_urlencoded(request.query()).number("ms", DEFAULT_MS)
}
