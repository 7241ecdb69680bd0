//! Attached browsers: `BROWSER_URLS`, `WS_ENDPOINTS`, and `[[browsers]]` in a file.

use toml::Value as Toml;

use super::mistake::Mistake;
use super::model::Reader;
use super::settings::{Layer, Settings, place};
use crate::attach::{AttachedConfig, Endpoint};

const FIELDS: &str = "name, url, headers, tags, driver and start";

/// `address` or `address|start command`.
pub(super) fn read(text: &str) -> Result<AttachedConfig, String> {
    let (address, command) = match text.split_once('|') {
        Some((address, command)) => (address.trim(), Some(command.trim())),
        None => (text.trim(), None),
    };
    let mut config = AttachedConfig::at(Endpoint::parse(address)?);
    config.start = command.map(words).transpose()?;
    Ok(config)
}

/// Split into words as a shell would, but no shell is ever run.
fn words(command: &str) -> Result<Vec<String>, String> {
    match shell_words::split(command) {
        Ok(words) if !words.is_empty() => Ok(words),
        Ok(_) => Err("the start command behind `|` is empty".to_owned()),
        Err(_) => Err(format!("a quote in the start command `{command}` is not closed")),
    }
}

/// All attached browsers: those of files first.
pub(super) fn build(
    settings: &Settings,
    read_key: &Reader<'_>,
    mistakes: &mut Vec<Mistake>,
) -> Vec<AttachedConfig> {
    let mut browsers: Vec<(String, AttachedConfig)> = settings.browsers().to_vec();
    for key in ["BROWSER_URLS", "WS_ENDPOINTS"] {
        let wants_socket = key == "WS_ENDPOINTS";
        for text in read_key.list(key).unwrap_or_default() {
            // Every item was read once, when the value was.
            let Ok(config) = read(&text) else { continue };
            if matches!(config.endpoint, Endpoint::WebSocket { .. }) != wants_socket {
                let other = if wants_socket { "BROWSER_URLS" } else { "WS_ENDPOINTS" };
                mistakes.push(Mistake::new(
                    read_key.place(key),
                    format!("`{}` is an address of the other kind", config.endpoint.address()),
                    format!("Move it to {other}."),
                ));
                continue;
            }
            browsers.push((read_key.place(key), config));
        }
    }
    let mut known: Vec<AttachedConfig> = Vec::new();
    for (written, config) in browsers {
        let same_address = known.iter().any(|other| other.endpoint.address() == config.endpoint.address());
        let same_name = config.name.is_some() && known.iter().any(|other| other.name == config.name);
        let what = match (same_address, same_name) {
            (true, _) => config.endpoint.address(),
            (_, true) => config.name.as_deref().unwrap_or_default(),
            (false, false) => {
                known.push(config);
                continue;
            }
        };
        mistakes.push(Mistake::new(
            written,
            format!("`{what}` stands for a browser already"),
            "Remove one of them.",
        ));
    }
    known
}

/// `[[browsers]]`, one table each.
pub(super) fn read_tables(layer: &mut Layer, content: Toml) {
    let here = |layer: &Layer, written: &str| place(written, &layer.source);
    let Toml::Array(tables) = content else {
        let place = here(layer, "browsers");
        return layer.mistakes.push(Mistake::new(
            place,
            "it is a list of tables",
            "Write `[[browsers]]` on a line of its own and the keys of one browser below.",
        ));
    };
    for (number, table) in tables.into_iter().enumerate() {
        let written = format!("browsers[{number}]");
        match read_table(table) {
            Ok(config) => layer.browsers.push((written, config)),
            Err(problem) => {
                let place = here(layer, &written);
                layer.mistakes.push(Mistake::new(
                    place,
                    problem,
                    format!("A browser has {FIELDS}; only url is needed."),
                ));
            }
        }
    }
}

fn read_table(table: Toml) -> Result<AttachedConfig, String> {
    let Toml::Table(mut table) = table else { return Err("it is no table".to_owned()) };
    let url = match table.remove("url").or_else(|| table.remove("ws")) {
        Some(Toml::String(url)) => url,
        Some(_) => return Err("`url` is a text".to_owned()),
        None => return Err("`url` is missing".to_owned()),
    };
    let mut config = AttachedConfig::at(Endpoint::parse(&url)?);
    for (name, value) in table {
        match (name.as_str(), value) {
            ("name", Toml::String(text)) if !text.trim().is_empty() => config.name = Some(text),
            ("tags", Toml::Array(tags)) => {
                let tags = tags.into_iter().map(|tag| tag.as_str().map(str::to_owned)).collect::<Option<_>>();
                config.tags = tags.ok_or("`tags` is a list of texts")?;
            }
            ("driver", Toml::String(driver)) if driver == AttachedConfig::DRIVER => config.driver = driver,
            ("driver", _) => return Err(format!("`driver` can be `{}`", AttachedConfig::DRIVER)),
            ("start", Toml::String(command)) => config.start = Some(words(&command)?),
            ("start", Toml::Array(items)) if !items.is_empty() => {
                let items =
                    items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>();
                config.start = Some(items.ok_or("`start` is a text or a list of texts")?);
            }
            ("headers", Toml::Table(given)) => {
                let Endpoint::WebSocket { headers, .. } = &mut config.endpoint else {
                    return Err("`headers` go with a ws:// address".to_owned());
                };
                for (name, value) in given {
                    let value = value.as_str().ok_or("`headers` holds texts")?.to_owned();
                    headers.push((name, value));
                }
            }
            ("name" | "tags" | "start" | "headers", _) => {
                return Err(format!("the value of `{name}` is not right"));
            }
            _ => return Err(format!("there is no `{name}`")),
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use crate::config::{Layer, Source, environment_layer, file_layer, load};

    fn environment(pairs: &[(&str, &str)]) -> Layer {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        environment_layer(Source::Environment, pairs.collect::<Vec<_>>())
    }

    fn file(text: &str, trusted: bool) -> Layer {
        file_layer(Source::File { path: "greenroom.toml".into(), trusted }, text)
    }

    #[test]
    fn addresses_stand_in_the_environment_with_start_commands_or_without() {
        let urls = "http://127.0.0.1:9222|chrome --port={port} --features=a,b , http://127.0.0.1:9223";
        let layer = environment(&[
            ("PW_MCP_PROXY_BROWSER_URLS", urls),
            ("PW_MCP_PROXY_WS_ENDPOINTS", "ws://127.0.0.1:9/devtools/browser/x"),
        ]);
        let browsers = load(vec![layer]).unwrap().browsers;
        let addresses: Vec<_> = browsers.iter().map(|browser| browser.endpoint.address()).collect();
        assert_eq!(
            addresses,
            ["http://127.0.0.1:9222", "http://127.0.0.1:9223", "ws://127.0.0.1:9/devtools/browser/x"]
        );
        assert_eq!(browsers[0].start_words().unwrap(), ["chrome", "--port=9222", "--features=a,b"]);
        assert_eq!(browsers[1].start, None);
    }

    #[test]
    fn a_file_has_names_tags_headers_and_start_commands() {
        let text = r#"
            [[browsers]]
            name = "work"
            url = "http://127.0.0.1:9222"
            tags = ["mine", "chrome"]
            start = ["chrome", "--remote-debugging-port={port}"]
            [[browsers]]
            url = "ws://127.0.0.1:9223/x"
            headers = { Authorization = "Bearer x" }
        "#;
        let browsers = load(vec![file(text, true)]).unwrap().browsers;
        assert_eq!((browsers[0].name.as_deref(), browsers[0].tags.len()), (Some("work"), 2));
        assert_eq!(browsers.len(), 2);
        let mistakes = load(vec![file(text, false)]).unwrap_err().to_string();
        assert!(mistakes.contains("merely lies in the working directory"), "{mistakes}");
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        let twice = environment(&[("GREENROOM_BROWSER_URLS", "http://a:1,http://a:1")]);
        assert!(load(vec![twice]).unwrap_err().to_string().contains("stands for a browser already"));
        let other = environment(&[("GREENROOM_BROWSER_URLS", "ws://a:1/x")]);
        assert!(load(vec![other]).unwrap_err().to_string().contains("Move it to WS_ENDPOINTS"));
        let bad = environment(&[("GREENROOM_BROWSER_URLS", "9222")]);
        assert!(load(vec![bad]).unwrap_err().to_string().contains("is no address"));
        let unknown = file("[[browsers]]\nurl = 'http://a:1'\ncolour = 'red'", true);
        assert!(load(vec![unknown]).unwrap_err().to_string().contains("there is no `colour`"));
        let missing = file("[[browsers]]\nname = 'x'", true);
        assert!(load(vec![missing]).unwrap_err().to_string().contains("`url` is missing"));
    }
}
