//! `greenroom export`: everything about a session, for keeping or for somebody else.
//!
//! ```text
//!   session.json   its lives              calls/0001-TOOL-REF/  result.json, snapshot.yml, console.log, error.txt
//!   calls.jsonl    a line for each call   blobs/                images and files, and index.json: whose they are
//!   index.md       for people
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use greenroom_core::config::Config;
use greenroom_core::ids::{Digest, RefId};
use greenroom_engine::status_word;
use greenroom_store::{BlobRef, Call, Filter, Found, SessionRow, SessionState};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::show::console_lines;
use super::{History, Kept, RESULT_FILE, counted, one_line, opened, print, time, whole};
use crate::cli::ExportFlags;

/// How many calls are asked for at once.
const PAGE: usize = 500;

/// Where it is written until all of it is there.
const UNFINISHED: &str = ".greenroom-export-";

pub(crate) fn export(config: &Config, flags: &ExportFlags) -> Result<ExitCode> {
    let history = History::open(config)?;
    let name = &flags.session;
    let mut lives = history.reader.sessions(None, name)?;
    lives.reverse();
    if lives.is_empty() {
        bail!(
            "there is no session `{name}` on record. `greenroom calls` names the sessions of the calls that are"
        );
    }
    let is_zip =
        flags.zip || flags.output.as_ref().is_some_and(|path| path.extension().is_some_and(|e| e == "zip"));
    let output = flags.output.clone().unwrap_or_else(|| {
        let suffix = if is_zip { ".zip" } else { "" };
        PathBuf::from(format!("{}-{}{suffix}", safe(name), time::date(SystemTime::now())))
    });
    refuse_to_overwrite(&output, is_zip)?;
    let cannot = || format!("{} cannot be written", output.display());
    let parent = match output.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::create_dir_all(&parent).with_context(cannot)?;
    let target = if is_zip { Target::zip(&parent) } else { Target::folder(&parent) }.with_context(cannot)?;
    let mut export = Export {
        history: &history,
        target,
        lines: tempfile::tempfile_in(&parent).map(BufWriter::new).with_context(cannot)?,
        rows: String::new(),
        blobs: BTreeMap::new(),
        calls: BTreeMap::new(),
        number: 0,
    };
    for ref_id in export.ref_ids(name)? {
        // What retention removes meanwhile has never been there.
        if let Found::Here(call) = history.reader.call(None, ref_id)? {
            export.call(&call).with_context(cannot)?;
        }
    }
    let (calls, blobs) = (export.number, export.blobs.len());
    export.finish(name, &lives)?.keep(&output).with_context(cannot)?;
    let shown = format!(
        "{}: {}, {}, {}\n",
        output.display(),
        counted(lives.len() as u64, "life", "lives"),
        counted(calls as u64, "call", "calls"),
        counted(blobs as u64, "blob", "blobs"),
    );
    print(shown.as_bytes())
}

fn refuse_to_overwrite(output: &Path, is_zip: bool) -> Result<()> {
    let is_free = match fs::symlink_metadata(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("{} cannot be written", output.display())),
        Ok(file) if is_zip => file.is_file() && file.len() == 0,
        Ok(file) => file.is_dir() && fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_none()),
    };
    if !is_free {
        bail!("{} is there already; remove it, or give another place with `--output`", output.display());
    }
    Ok(())
}

/// A name as part of a file name.
fn safe(name: &str) -> String {
    let is_safe =
        |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    let name: String = name.chars().take(80).map(|c| if is_safe(&c) { c } else { '_' }).collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "_".to_owned() } else { name.to_owned() }
}

fn extension(mime_type: &str) -> &'static str {
    match mime_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/webp" => "webp",
        "image/gif" => "gif",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/zip" => "zip",
        "text/plain" => "txt",
        "text/html" => "html",
        "text/csv" => "csv",
        "video/webm" => "webm",
        _ => "bin",
    }
}

struct Export<'a> {
    history: &'a History,
    target: Target,
    /// `calls.jsonl`, which is written while other files are.
    lines: BufWriter<File>,
    /// The table in `index.md`.
    rows: String,
    blobs: BTreeMap<Digest, Blob>,
    /// By life.
    calls: BTreeMap<String, usize>,
    number: usize,
}

/// A blob of the session, and whose it is.
struct Blob {
    /// `None`: it is gone.
    file: Option<String>,
    about: BlobRef,
    calls: Vec<Value>,
}

impl Export<'_> {
    /// Oldest first.
    fn ref_ids(&self, session: &str) -> Result<Vec<RefId>> {
        let mut ref_ids: Vec<RefId> = Vec::new();
        loop {
            let filter = Filter {
                session: Some(session.to_owned()),
                before: ref_ids.last().copied(),
                limit: PAGE,
                ..Filter::default()
            };
            let calls = self.history.reader.calls(&filter)?;
            ref_ids.extend(calls.iter().map(|call| call.ref_id));
            if calls.len() < PAGE {
                break;
            }
        }
        ref_ids.reverse();
        Ok(ref_ids)
    }

    fn call(&mut self, call: &Call) -> Result<()> {
        self.number += 1;
        let short = &call.ref_id.to_string()[..8];
        let folder = format!("calls/{:04}-{}-{short}", self.number, safe(&call.tool));
        let mut files = Vec::new();
        let mut is_gone = false;
        let mut named = |name: &'static str| {
            files.push(name);
            format!("{folder}/{name}")
        };
        match self.history.result(call)? {
            Some(Kept::Here(bytes)) => self.target.put(&named("result.json"), &mut &bytes[..])?,
            Some(Kept::File(path)) => match opened(&path)? {
                Some(mut file) => self.target.put(&named("result.json"), &mut file)?,
                None => is_gone = true,
            },
            Some(Kept::Gone) => is_gone = true,
            None => {}
        }
        if let Some(snapshot) = self.history.reader.snapshot(call.ref_id)? {
            self.target.put(&named("snapshot.yml"), &mut snapshot.as_bytes())?;
        }
        if call.console_count > 0 {
            let lines = console_lines(self.history, call)?;
            self.target.put(&named("console.log"), &mut lines.as_bytes())?;
        }
        if let Some(error) = &call.error {
            self.target.put(&named("error.txt"), &mut error.as_bytes())?;
        }
        for blob in call.blobs.iter().filter(|blob| blob.mime_type != RESULT_FILE) {
            self.blob(blob, call, &folder)?;
        }
        let console = self.history.reader.console(call.ref_id)?;
        let mut line = whole(call, &console, |blob| {
            Ok(self.blobs.get(&blob.digest).and_then(|known| known.file.clone()))
        })?;
        line["number"] = json!(self.number);
        line["folder"] = if files.is_empty() { Value::Null } else { folder.as_str().into() };
        line["files"] = json!(files);
        if is_gone {
            line["result_is_gone"] = true.into();
        }
        writeln!(self.lines, "{line}")?;
        self.row(call, if files.is_empty() { None } else { Some(&folder) });
        *self.calls.entry(call.session.clone().unwrap_or_default()).or_default() += 1;
        Ok(())
    }

    fn blob(&mut self, blob: &BlobRef, call: &Call, folder: &str) -> Result<()> {
        let owner = json!({ "ref_id": call.ref_id, "number": self.number, "folder": folder });
        if let Some(known) = self.blobs.get_mut(&blob.digest) {
            known.calls.push(owner);
            return Ok(());
        }
        let mut file = None;
        if let Some(path) = self.history.blob(blob)?
            && let Some(mut content) = opened(&path)?
        {
            let name = format!("blobs/{}.{}", blob.digest, extension(&blob.mime_type));
            self.target.put(&name, &mut content)?;
            file = Some(name);
        }
        self.blobs.insert(blob.digest, Blob { file, about: blob.clone(), calls: vec![owner] });
        Ok(())
    }

    fn row(&mut self, call: &Call, folder: Option<&str>) {
        let cell = |text: &str| {
            let escaped = one_line(text).replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
            let mut shown: String = escaped.chars().take(200).collect();
            if shown.len() < escaped.len() {
                shown.push('…');
            }
            shown
        };
        let tool = cell(&call.tool);
        let tool = folder.map_or_else(|| tool.clone(), |folder| format!("[{tool}]({folder}/)"));
        let took = call.took.map(time::span).unwrap_or_default();
        let about = cell(call.error.as_deref().or(call.url.as_deref()).unwrap_or_default());
        self.rows.push_str(&format!(
            "| {} | {} | {tool} | {} | {took} | {about} | `{}` |\n",
            self.number,
            time::local(call.at),
            status_word(call.status),
            call.ref_id,
        ));
    }

    /// Everything that is known only at the end.
    fn finish(mut self, name: &str, lives: &[SessionRow]) -> Result<Target> {
        let mut lines = self.lines.into_inner().map_err(io::IntoInnerError::into_error)?;
        lines.rewind()?;
        self.target.put("calls.jsonl", &mut BufReader::new(lines))?;

        let index: Vec<_> = self
            .blobs
            .values()
            .map(|blob| {
                json!({
                    "file": blob.file,
                    "sha256": blob.about.digest.to_string(),
                    "mime_type": blob.about.mime_type,
                    "size": blob.about.size,
                    "calls": blob.calls,
                })
            })
            .collect();
        if !index.is_empty() {
            self.target.put("blobs/index.json", &mut format!("{:#}\n", Value::from(index)).as_bytes())?;
        }
        let calls_of = |life: &SessionRow| self.calls.get(&life.id).copied().unwrap_or_default();
        let session = json!({
            "name": name,
            "exported": time::utc(SystemTime::now()),
            "greenroom": env!("CARGO_PKG_VERSION"),
            "calls": self.number,
            "lives": lives.iter().map(|life| json!({
                "id": life.id,
                "name": life.name,
                "owner": life.owner,
                "state": state(life.state),
                "created": time::utc(life.created),
                "last_activity": time::utc(life.last_activity),
                "run": life.run,
                "metadata": serde_json::from_str::<Value>(&life.metadata).unwrap_or_else(|_| life.metadata.clone().into()),
                "calls": calls_of(life),
            })).collect::<Vec<_>>(),
        });
        self.target.put("session.json", &mut format!("{session:#}\n").as_bytes())?;

        let mut page = format!("# Session {}\n\n", one_line(name));
        for life in lives {
            page.push_str(&format!(
                "- {} to {}, {}, {}\n",
                time::local(life.created),
                time::local(life.last_activity),
                state(life.state),
                counted(calls_of(life) as u64, "call", "calls"),
            ));
        }
        page.push_str(
            "\nEach call has a folder with its result as it came (`result.json`), and where there were such: the page \
             (`snapshot.yml`), its console (`console.log`) and what went wrong (`error.txt`). Images and other files are \
             in `blobs/`; `blobs/index.json` says whose they are. `calls.jsonl` has everything else, for programs.\n\n",
        );
        page.push_str(
            "| | time | tool | status | took | page or error | ref |\n|---|---|---|---|---|---|---|\n",
        );
        page.push_str(&self.rows);
        self.target.put("index.md", &mut page.as_bytes())?;
        Ok(self.target)
    }
}

fn state(state: SessionState) -> &'static str {
    match state {
        SessionState::Active => "active",
        SessionState::Closed => "closed",
        SessionState::Error => "error",
    }
}

/// What is written, under another name until it is finished.
enum Target {
    Folder(TempDir),
    Zip(Box<ZipWriter<NamedTempFile>>),
}

impl Target {
    fn folder(parent: &Path) -> io::Result<Self> {
        tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent).map(Self::Folder)
    }

    fn zip(parent: &Path) -> io::Result<Self> {
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(parent)?;
        Ok(Self::Zip(Box::new(ZipWriter::new(file))))
    }

    /// Adds a file. The path is one of ours.
    fn put(&mut self, path: &str, content: &mut dyn Read) -> Result<()> {
        match self {
            Self::Folder(root) => {
                let path = root.path().join(path);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)?;
                }
                io::copy(content, &mut File::create(path)?)?;
            }
            Self::Zip(zip) => {
                let now = time::parts(SystemTime::now());
                let now = now.and_then(|(year, [month, day, hour, minute, second])| {
                    zip::DateTime::from_date_and_time(year, month, day, hour, minute, second).ok()
                });
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Deflated)
                    .last_modified_time(now.unwrap_or_default())
                    .unix_permissions(0o600)
                    .large_file(true);
                zip.start_file(path, options)?;
                io::copy(content, zip)?;
            }
        }
        Ok(())
    }

    fn keep(self, output: &Path) -> Result<()> {
        match self {
            // An empty folder that is there is replaced; one that is not empty any more is not.
            Self::Folder(folder) => {
                fs::rename(folder.path(), output)?;
                let _ = folder.keep();
            }
            Self::Zip(zip) => {
                let mut file = zip.finish()?;
                file.flush()?;
                // Nobody has put anything there meanwhile, or it is left alone.
                if fs::metadata(output).is_ok_and(|file| file.len() == 0) {
                    fs::remove_file(output)?;
                }
                file.persist_noclobber(output).map_err(|error| anyhow!(error.error))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{extension, safe};

    #[test]
    fn names_never_become_paths() {
        for (name, expected) in [
            ("shop", "shop"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("/abs", "_abs"),
            ("..", "_"),
            ("", "_"),
            ("--output", "output"),
            ("a b\n\u{202e}é", "a_b___"),
        ] {
            assert_eq!(safe(name), expected, "{name}");
        }
        assert_eq!(safe(&"x".repeat(500)).len(), 80);
    }

    #[test]
    fn an_unknown_kind_has_a_harmless_extension() {
        assert_eq!(extension("image/png"), "png");
        assert_eq!(extension("text/html; charset=utf-8"), "html");
        assert_eq!(extension("../../x"), "bin");
    }
}
