//! What is on record, on the command line. The database is read as it lies there: beside a running server, and without.

pub(crate) mod calls;
pub(crate) mod db;
pub(crate) mod export;
pub(crate) mod show;
pub(crate) mod time;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use greenroom_core::config::Config;
use greenroom_core::ids::RefId;
use greenroom_engine::{RESULT_FILE, describe, result_text};
use greenroom_store::{BlobRef, Call, ConsoleEntry, Found, Reader, StoreError};
use serde_json::{Value, json};

use crate::config_files;

/// With fewer characters of a ref id nothing is looked for.
const SHORTEST_REF: usize = 4;
/// How many calls are named when a ref id could mean several.
const NAMED: usize = 10;

/// The history of the configured data folder.
struct History {
    folder: PathBuf,
    reader: Reader,
}

impl History {
    fn open(config: &Config) -> Result<Self> {
        let folder = config_files::data_dir(config)?;
        if !database_in(&folder).exists() {
            let off = if config.history.is_none() { " HISTORY is off, so none will be." } else { "" };
            bail!(
                "there is no history in {} yet. It begins with the first `greenroom serve` or `greenroom mcp` that has this \
                 data folder; another one is given with `--data-dir`.{off}",
                folder.display()
            );
        }
        let reader = Reader::open(&folder).map_err(|error| match error {
            StoreError::Open { .. } => anyhow!(
                "{error}. Look at who may read and write that folder; a history that is damaged is put aside by the next \
                 `greenroom serve` there, which begins another"
            ),
            other => other.into(),
        })?;
        Ok(Self { folder, reader })
    }

    /// The call that a person named by its ref id, or the first characters of it.
    fn call(&self, written: &str) -> Result<Call> {
        let ref_id = match written.trim().parse::<RefId>() {
            Ok(ref_id) => ref_id,
            Err(_) => self.the_only_one(written)?,
        };
        match self.reader.call(None, ref_id)? {
            Found::Here(call) => Ok(call),
            Found::Expired => bail!(
                "the call {ref_id} has expired: history is kept for a limited time (RETENTION_DAYS, MAX_DATABASE_MB)"
            ),
            Found::Unknown => Err(no_call(written)),
        }
    }

    fn the_only_one(&self, written: &str) -> Result<RefId> {
        let beginning = spelled(written).ok_or_else(|| {
            anyhow!(
                "`{written}` is no ref id, nor the first {SHORTEST_REF} or more characters of one. \
                 `greenroom calls` lists them"
            )
        })?;
        let mut found = self.reader.find(&beginning, NAMED + 1)?;
        if let [only] = found[..] {
            return Ok(only);
        }
        if found.is_empty() {
            return Err(no_call(written));
        }
        let more = if found.len() > NAMED { "\n  …" } else { "" };
        found.truncate(NAMED);
        let mut named = String::new();
        for ref_id in found {
            if let Found::Here(call) = self.reader.call(None, ref_id)? {
                named.push_str(&format!("\n  {ref_id}  {}  {}", time::local(call.at), plain(&call.tool)));
            }
        }
        bail!("several calls begin with `{written}`; write more of the one you mean:{named}{more}")
    }

    /// The exact result of a call, or the file that it is in.
    fn result(&self, call: &Call) -> Result<Option<Kept>> {
        if let Some(bytes) = self.reader.result(call.ref_id)? {
            return Ok(Some(Kept::Here(bytes)));
        }
        let Some(blob) = call.blobs.iter().find(|blob| blob.mime_type == RESULT_FILE) else {
            return Ok(None);
        };
        Ok(Some(self.blob(blob)?.map_or(Kept::Gone, Kept::File)))
    }

    /// The file of a blob, while it is there.
    fn blob(&self, blob: &BlobRef) -> Result<Option<PathBuf>> {
        Ok(match self.reader.blob(None, blob.digest)? {
            Found::Here((_, path)) => Some(path),
            Found::Expired | Found::Unknown => None,
        })
    }

    /// What a call showed: the snapshot of its page, else the text of its answer. `None`: its file is gone.
    fn content(&self, call: &Call) -> Result<Option<String>> {
        if let Some(snapshot) = self.reader.snapshot(call.ref_id)? {
            return Ok(Some(snapshot));
        }
        Ok(match self.result(call)? {
            Some(kept) => kept.read()?.map(|bytes| result_text(&bytes)),
            None => Some(call.error.clone().unwrap_or_default()),
        })
    }
}

/// Something that is on record, or was.
enum Kept {
    Here(Bytes),
    File(PathBuf),
    Gone,
}

impl Kept {
    /// `None` where it is gone.
    fn read(self) -> Result<Option<Bytes>> {
        match self {
            Self::Here(bytes) => Ok(Some(bytes)),
            Self::Gone => Ok(None),
            Self::File(path) => {
                let Some(mut file) = opened(&path)? else { return Ok(None) };
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).with_context(|| format!("{} cannot be read", path.display()))?;
                Ok(Some(bytes.into()))
            }
        }
    }
}

/// A file of the store. One that is not there has been removed, since it was too old.
fn opened(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

fn no_call(written: &str) -> anyhow::Error {
    anyhow!("there is no call `{written}` on record. `greenroom calls` lists those that are")
}

fn database_in(folder: &Path) -> PathBuf {
    folder.join("greenroom.db")
}

/// The beginning of a ref id as it is spelled in the database, where it is one.
fn spelled(written: &str) -> Option<String> {
    let digits: String = written.trim().chars().filter(|character| *character != '-').collect();
    if !(SHORTEST_REF..=32).contains(&digits.len()) || !digits.chars().all(|digit| digit.is_ascii_hexdigit())
    {
        return None;
    }
    let mut spelled = String::new();
    for (place, digit) in digits.to_ascii_lowercase().chars().enumerate() {
        if matches!(place, 8 | 12 | 16 | 20) {
            spelled.push('-');
        }
        spelled.push(digit);
    }
    Some(spelled)
}

/// A call with everything that is not large. `file_of` names the file that a blob is in.
fn whole(
    call: &Call,
    console: &[ConsoleEntry],
    mut file_of: impl FnMut(&BlobRef) -> Result<Option<String>>,
) -> Result<Value> {
    let mut shown = describe(call);
    shown["life"] = json!(call.session);
    shown["owner"] = json!(call.owner);
    shown["answered"] = json!(call.answered.map(time::utc));
    shown["waited_ms"] = json!(call.waited.map(|waited| (waited.as_secs_f64() * 10_000.0).round() / 10.0));
    shown["result_bytes"] = json!(call.result_bytes);
    shown["snapshot_bytes"] = json!(call.snapshot.map(|_| call.snapshot_bytes));
    shown["console"] = console
        .iter()
        .map(|entry| {
            let location = entry.location.as_ref();
            let location =
                location.map(|at| json!({ "url": at.url, "lineNumber": at.line, "columnNumber": at.column }));
            json!({
                "level": entry.level.name(),
                "message": entry.message,
                "timestamp": entry.at.map(time::utc),
                "location": location,
            })
        })
        .collect();
    let mut blobs = Vec::new();
    for blob in call.blobs.iter().filter(|blob| blob.mime_type != RESULT_FILE) {
        let file = file_of(blob)?;
        blobs.push(
            json!({ "uri": blob.digest.uri(), "mime_type": blob.mime_type, "size": blob.size, "file": file }),
        );
    }
    shown["blobs"] = blobs.into();
    Ok(shown)
}

/// What a page or a server wrote, so that it cannot do anything to a terminal.
fn plain(text: &str) -> String {
    let harmless = |character: char| !character.is_control() || matches!(character, '\n' | '\t');
    text.chars().map(|character| if harmless(character) { character } else { '\u{fffd}' }).collect()
}

/// The same on one line.
fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn size(bytes: u64) -> String {
    let mut rest = bytes as f64;
    let mut unit = "bytes";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if rest < 1024.0 {
            break;
        }
        rest /= 1024.0;
        unit = larger;
    }
    match bytes {
        1 => "1 byte".to_owned(),
        0..1024 => format!("{bytes} bytes"),
        _ => format!("{rest:.1} {unit}"),
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn print(bytes: &[u8]) -> Result<ExitCode> {
    let mut stdout = std::io::stdout();
    crate::pools::written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

#[cfg(test)]
mod tests {
    use super::{one_line, plain, result_text, size, spelled};

    #[test]
    fn the_beginning_of_a_ref_id_is_spelled_like_one() {
        for (written, beginning) in [
            ("123e", Some("123e")),
            (" 123E4567 ", Some("123e4567")),
            ("123e4567-", Some("123e4567")),
            ("123e4567e8", Some("123e4567-e8")),
            ("123e4567-e89b-42d3-a456-4", Some("123e4567-e89b-42d3-a456-4")),
            ("123", None),
            ("1-2-3", None),
            ("shop", None),
            ("12%4", None),
            ("123e4567e89b42d3a456426614174000a", None),
        ] {
            assert_eq!(spelled(written).as_deref(), beginning, "{written}");
        }
    }

    #[test]
    fn what_others_wrote_does_nothing_to_a_terminal() {
        assert_eq!(plain("a\x1b[2Jb\r\n\tc"), "a\u{fffd}[2Jb\u{fffd}\n\tc");
        assert_eq!(one_line("a\n  b\tc"), "a b c");
    }

    #[test]
    fn a_result_is_its_texts_or_itself() {
        let two = br#"{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}"#;
        assert_eq!(result_text(two), "a\nb");
        assert_eq!(result_text(b"{}"), "{}");
        assert_eq!(result_text(b"no json"), "no json");
    }

    #[test]
    fn sizes_are_readable() {
        for (bytes, shown) in
            [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB")]
        {
            assert_eq!(size(bytes), shown);
        }
    }
}
