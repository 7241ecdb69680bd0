//! Files out of a multipart form.

pub(super) struct File {
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) size: usize,
}

/// The files in a body, or `None` where it is not a multipart form.
pub(super) fn files(content_type: &str, body: &[u8]) -> Option<Vec<File>> {
    let boundary = parameter(content_type.strip_prefix("multipart/form-data")?, "boundary")?;
    // A line break belongs to the boundary that follows it, except before the first one.
    let separator = format!("\r\n--{boundary}").into_bytes();
    let first = separator.get(2..).expect("it starts with a line break");
    let mut rest = &body[find(body, first)? + first.len()..];
    let mut files = Vec::new();
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let end = find(part, &separator)?;
        files.extend(file(&part[..end]));
        rest = &part[end + separator.len()..];
    }
    Some(files)
}

fn file(part: &[u8]) -> Option<File> {
    let head_end = find(part, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&part[..head_end]);
    let header = |wanted: &str| {
        head.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.trim())
    };
    Some(File {
        name: parameter(header("Content-Disposition")?, "filename")?,
        content_type: header("Content-Type").unwrap_or("application/octet-stream").to_owned(),
        size: part.len() - head_end - 4,
    })
}

/// A parameter of a header, as in `; name="value"`.
fn parameter(header: &str, name: &str) -> Option<String> {
    header.split(';').find_map(|item| {
        let value = item.trim().strip_prefix(name)?.strip_prefix('=')?;
        Some(value.trim_matches('"').to_owned())
    })
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::files;

    #[test]
    fn a_file_is_measured_between_its_boundaries() {
        let body = b"--XX\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n\
            --XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
            Content-Type: text/plain\r\n\r\n1\r\n345\r\n--XX--\r\n";
        let found = files("multipart/form-data; boundary=XX", body).unwrap();
        assert_eq!(found.len(), 1, "a plain field is not a file");
        assert_eq!((found[0].name.as_str(), found[0].size), ("a.txt", 6));
        assert_eq!(found[0].content_type, "text/plain");
    }

    #[test]
    fn a_body_of_another_kind_has_no_files() {
        assert!(files("application/x-www-form-urlencoded", b"a=b").is_none());
        assert!(files("multipart/form-data; boundary=XX", b"a=b").is_none());
    }
}
