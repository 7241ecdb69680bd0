//! Greenroom's own tools at work, as far as they need no browser.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use greenroom_core::attach::{AttachedConfig, Endpoint};
use greenroom_core::config::ConnectPolicy;
use greenroom_core::target::{BrowserMode, SessionName};
use serde_json::{Map, Value, json};

use crate::arrival::named_reply;
use crate::browsers::BrowserReport;
use crate::call::CallFailure;
use crate::engine::{Engine, file_uri, mint_name};
use crate::fleet::Wishes;
use crate::own::{
    BrowserArguments, ConnectArguments, CreateArguments, NoArguments, OwnTool, PoolStatusArguments,
    ReconnectArguments, SessionArguments,
};
use crate::reading::{self, Blob, BlobArguments, Content};
use crate::sessions::{Caller, Plan, SessionKey};

impl Engine {
    /// A tool of ours that needs no browser.
    pub(crate) async fn perform(
        &self,
        tool: OwnTool,
        caller: &Caller,
        arguments: Map<String, Value>,
    ) -> Result<Bytes, CallFailure> {
        let key = |name: String| {
            Ok::<_, CallFailure>(SessionKey { caller: caller.clone(), name: SessionName::new(name)? })
        };
        let sessions = &self.0.sessions;
        let answer = match tool {
            OwnTool::PoolStatus => {
                let read: PoolStatusArguments = tool.read(arguments)?;
                let status = self.status(read.pool_name.as_deref().filter(|name| !name.is_empty()))?;
                serde_json::to_value(&status)
            }
            OwnTool::SessionList => {
                let NoArguments {} = tool.read(arguments)?;
                Ok(json!({ "sessions": sessions.list(caller) }))
            }
            OwnTool::SessionClose => {
                let SessionArguments { session } = tool.read(arguments)?;
                let key = key(session)?;
                if !sessions.close(&key, "it was closed by its owner").await {
                    return Err(CallFailure::NoSuchSession { name: key.name.to_string() });
                }
                Ok(json!({ "sessionId": key.name.as_str(), "closed": true }))
            }
            OwnTool::SessionFiles => {
                let SessionArguments { session } = tool.read(arguments)?;
                let key = key(session)?;
                let files = sessions
                    .files(&key)
                    .ok_or_else(|| CallFailure::NoSuchSession { name: key.name.to_string() })?;
                let files = files.iter().map(|file| {
                    json!({
                        "name": file.name, "size": file.size, "modified": file.modified, "mime_type": file.mime_type,
                        "uri": file_uri(&key.name, &file.name),
                    })
                });
                Ok(json!({ "sessionId": key.name.as_str(), "files": files.collect::<Vec<_>>() }))
            }
            OwnTool::CreateSession => {
                let read: CreateArguments = tool.read(arguments)?;
                let name = read.session.filter(|name| !name.is_empty()).unwrap_or_else(mint_name);
                let key = key(name)?;
                let pool = match read.pool.filter(|pool| !pool.is_empty()) {
                    Some(pool) => Some(self.pool(&pool)?.name().to_owned()),
                    None => None,
                };
                let reply = read.reply.filter(|name| !name.is_empty());
                let reply = reply.map(|name| named_reply(&name)).transpose()?;
                let wishes = Wishes {
                    viewport: read.viewport.map(|size| (size.width, size.height)),
                    user_agent: read.user_agent,
                    device: read.device,
                    storage_state: read.storage_state.map(Value::Object),
                };
                let idle = read.idle_timeout.map(Duration::from_millis);
                let report = sessions.create(
                    &key,
                    pool.as_deref(),
                    Plan { wishes, idle, reply, conversation: None },
                )?;
                Ok(
                    json!({ "session_id": report.id, "sessionId": report.id, "pool": report.pool, "seat": report.seat, "idle_timeout_ms": report.idle_left_ms }),
                )
            }
            OwnTool::GetContent => {
                let content = self.desk(caller).content(tool.read(arguments)?).await?;
                return Ok(content_result(&content));
            }
            OwnTool::GetConsoleContent => {
                let (ref_id, text) = self.desk(caller).console(&tool.read(arguments)?).await?;
                return Ok(text_result(&text, &json!({ "greenroom/refId": ref_id })));
            }
            OwnTool::ListCalls => {
                let calls = self.desk(caller).list(tool.read(arguments)?).await?;
                Ok(json!({ "calls": calls.iter().map(reading::describe_briefly).collect::<Vec<_>>() }))
            }
            OwnTool::GetBlob => {
                let BlobArguments { uri } = tool.read(arguments)?;
                let (blob, bytes) = self.desk(caller).blob_content(&uri).await?;
                return Ok(blob_result(&blob, bytes));
            }
            OwnTool::ListBrowsers => {
                let NoArguments {} = tool.read(arguments)?;
                return Ok(browsers_result(&self.browsers(), self.modes().browsers));
            }
            OwnTool::ReconnectBrowser => {
                let read: ReconnectArguments = tool.read(arguments)?;
                let attached = self.0.attached(read.index.as_ref(), read.browser.as_deref())?;
                self.0.browsers.reconnect(&attached, read.force).await?;
                Ok(self.browser_report(attached.index))
            }
            OwnTool::ConnectBrowser => {
                let read: ConnectArguments = tool.read(arguments)?;
                let wrong = |problem| CallFailure::BadArguments { tool: tool.name(), problem };
                let mut endpoint = Endpoint::parse(&read.url).map_err(wrong)?;
                if self.0.connect == ConnectPolicy::Loopback && !endpoint.is_loopback() {
                    let problem = format!(
                        "`{}` is not on this machine, and only such browsers may be attached (CONNECT_BROWSERS)",
                        endpoint.shown()
                    );
                    return Err(wrong(problem));
                }
                let given: Vec<_> = read.headers.unwrap_or_default().into_iter().collect();
                match &mut endpoint {
                    Endpoint::WebSocket { headers, .. } => *headers = given,
                    Endpoint::Url(_) if given.is_empty() => {}
                    Endpoint::Url(_) => return Err(wrong("`headers` go with a ws:// address".to_owned())),
                }
                let name = read.name.filter(|name| !name.is_empty());
                let tags = read.tags.unwrap_or_default();
                let config = AttachedConfig { name, tags, ..AttachedConfig::at(endpoint) };
                let attached = self.0.browsers.attach(config).await?;
                Ok(self.browser_report(attached.index))
            }
            OwnTool::DisconnectBrowser => {
                let read: BrowserArguments = tool.read(arguments)?;
                let attached = self.0.attached(read.index.as_ref(), read.browser.as_deref())?;
                self.0.browsers.detach(&attached).await;
                Ok(
                    json!({ "browserIndex": attached.index, "disconnected": true, "url": attached.config.endpoint.shown() }),
                )
            }
            OwnTool::ExecuteBulk => unreachable!("it has a place"),
        };
        let answer = answer.expect("reports are plain JSON");
        let text = format!("{answer:#}");
        let result = json!({
            "content": [{ "type": "text", "text": text }], "structuredContent": answer, "isError": false,
        });
        Ok(serde_json::to_vec(&result).expect("JSON can be written").into())
    }

    fn browser_report(&self, index: usize) -> Value {
        let report = self.browsers().into_iter().find(|report| report.index == index);
        serde_json::to_value(report).expect("reports are plain JSON")
    }
}

/// The browsers, in the words that agents know.
fn browsers_result(browsers: &[BrowserReport], mode: BrowserMode) -> Bytes {
    let mut lines = vec![format!("Total browsers: {}", browsers.len()), String::new()];
    for browser in browsers {
        let mut line = format!("[{}] {} - {}", browser.index, browser.url, browser.state);
        let mut more: Vec<_> = browser.name.iter().map(|name| format!("name: {name}")).collect();
        if !browser.tags.is_empty() {
            more.push(format!("tags: {}", browser.tags.join(", ")));
        }
        if browser.state != "connected" {
            more.extend(browser.last_error.iter().map(|error| format!("error: {error}")));
        }
        more.extend(browser.cool_down_ms.map(|left| format!("calls try again in {} s", left.div_ceil(1000))));
        if !more.is_empty() {
            line.push_str(&format!(" ({})", more.join("; ")));
        }
        lines.push(line);
    }
    let rule = match browsers.len() {
        0 => "No browser is attached.",
        _ if mode == BrowserMode::Beside => {
            "browserIndex, or browser (its name), sends a call to one of them. Without it a call goes to a pool or session."
        }
        1 => "Single browser mode: browserIndex parameter must NOT be specified.",
        _ => {
            "Multiple browsers detected. You MUST specify browserIndex parameter in all tool calls to target a specific browser."
        }
    };
    lines.extend([String::new(), rule.to_owned()]);
    let result = json!({
        "content": [{ "type": "text", "text": lines.join("\n") }],
        "structuredContent": { "total": browsers.len(), "browsers": browsers },
        "isError": false,
    });
    serde_json::to_vec(&result).expect("JSON can be written").into()
}

/// A text as the result of a tool.
fn text_result(text: &str, meta: &Value) -> Bytes {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": false, "_meta": meta });
    serde_json::to_vec(&result).expect("JSON can be written").into()
}

fn content_result(content: &Content) -> Bytes {
    let mut meta = json!({ "greenroom/refId": content.ref_id, "greenroom/total": content.total });
    if let Some(next) = content.next_offset {
        meta["greenroom/nextOffset"] = next.into();
    }
    text_result(&content.text, &meta)
}

fn blob_result(blob: &Blob, bytes: Vec<u8>) -> Bytes {
    let (uri, mime_type) = (blob.digest.uri(), &blob.mime_type);
    let block = if mime_type.starts_with("image/") {
        json!({ "type": "image", "data": STANDARD.encode(bytes), "mimeType": mime_type })
    } else {
        let resource = match String::from_utf8(bytes) {
            Ok(text) => json!({ "uri": uri, "mimeType": mime_type, "text": text }),
            Err(binary) => {
                json!({ "uri": uri, "mimeType": mime_type, "blob": STANDARD.encode(binary.into_bytes()) })
            }
        };
        json!({ "type": "resource", "resource": resource })
    };
    serde_json::to_vec(&json!({ "content": [block], "isError": false })).expect("JSON can be written").into()
}
