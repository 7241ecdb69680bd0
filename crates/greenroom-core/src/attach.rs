//! Browsers that somebody else has started: how each is reached, and when another attempt may be made.

use std::time::Duration;

/// How long after a failed attempt calls do not make another.
pub const COOL_DOWN: Duration = Duration::from_secs(60);

/// Pauses between the tries of one attempt.
pub const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(500)];

/// The debugging address of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Url(String),
    WebSocket { url: String, headers: Vec<(String, String)> },
}

impl Endpoint {
    pub fn address(&self) -> &str {
        match self {
            Self::Url(url) | Self::WebSocket { url, .. } => url,
        }
    }

    /// The address as others may see it: whoever reads it does not learn what opens the door.
    pub fn shown(&self) -> String {
        let address = self.address();
        let (address, query) = match address.split_once('?') {
            Some((address, _)) => (address, "?…"),
            None => (address, ""),
        };
        match address.split_once("://") {
            Some((scheme, rest)) => {
                let authority = rest.split('/').next().unwrap_or_default();
                let bare = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
                format!("{scheme}://{bare}{}{query}", &rest[authority.len()..])
            }
            None => format!("{address}{query}"),
        }
    }

    /// The host that it names, without brackets.
    pub fn host(&self) -> &str {
        let rest = self.address().split_once("://").map_or(self.address(), |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        }
    }

    /// Its port, given or implied.
    pub fn port(&self) -> u16 {
        let (scheme, rest) = self.address().split_once("://").unwrap_or(("http", self.address()));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let after_host = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
        let implied = if matches!(scheme, "https" | "wss") { 443 } else { 80 };
        after_host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(implied)
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Reads an address that begins with `http://`, `https://`, `ws://` or `wss://`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("`{text}` {why}"));
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong(
                "is no address such as http://127.0.0.1:9222 or ws://127.0.0.1:9222/devtools/browser/…",
            );
        };
        let endpoint = match scheme {
            "http" | "https" => Self::Url(text.trim_end_matches('/').to_owned()),
            "ws" | "wss" => Self::WebSocket { url: text.to_owned(), headers: Vec::new() },
            _ => return wrong("does not begin with http://, https://, ws:// or wss://"),
        };
        if rest.trim_matches('/').is_empty()
            || rest.contains(char::is_whitespace)
            || endpoint.host().is_empty()
        {
            return wrong("names no host");
        }
        Ok(endpoint)
    }
}

/// One browser, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedConfig {
    pub name: Option<String>,
    pub endpoint: Endpoint,
    pub tags: Vec<String>,
    /// Which kind of server drives it.
    pub driver: String,
    /// What starts it when it is not there: a program and its arguments.
    pub start: Option<Vec<String>>,
}

impl AttachedConfig {
    pub const DRIVER: &str = "chrome-devtools";

    pub fn at(endpoint: Endpoint) -> Self {
        Self { name: None, endpoint, tags: Vec::new(), driver: Self::DRIVER.to_owned(), start: None }
    }

    /// The start command with what it does not know filled in.
    pub fn start_words(&self) -> Option<Vec<String>> {
        let (url, port) = (self.endpoint.address(), self.endpoint.port().to_string());
        let fill = |word: &String| word.replace("{url}", url).replace("{port}", &port);
        self.start.as_ref().map(|words| words.iter().map(fill).collect())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Connecting,
    Connected,
    Disconnected,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
        }
    }
}

/// What is known of the connection to one browser. Times are passed in, as durations since any fixed moment.
#[derive(Clone, Debug)]
pub struct Attachment {
    pub state: State,
    pub last_error: Option<String>,
    pub last_attempt: Option<Duration>,
    /// Whether the last attempt failed: only then is there a pause.
    has_failed: bool,
}

impl Default for Attachment {
    fn default() -> Self {
        Self { state: State::Pending, last_error: None, last_attempt: None, has_failed: false }
    }
}

impl Attachment {
    /// How long a call has to wait before it may cause another attempt; nothing when it may now.
    pub fn cool_down(&self, now: Duration) -> Option<Duration> {
        let last = self.last_attempt.filter(|_| self.has_failed)?;
        (last + COOL_DOWN).checked_sub(now).filter(|left| !left.is_zero())
    }

    pub fn begin(&mut self, now: Duration) {
        self.state = State::Connecting;
        self.last_attempt = Some(now);
    }

    pub fn succeed(&mut self) {
        *self = Self { state: State::Connected, last_error: None, has_failed: false, ..*self };
    }

    /// An attempt has come to nothing.
    pub fn fail(&mut self, now: Duration, error: String) {
        let (state, last_error) = (State::Disconnected, Some(error));
        *self = Self { state, last_error, last_attempt: Some(now), has_failed: true };
    }

    /// A connection that there was is gone. The next call may try at once.
    pub fn lose(&mut self, error: String) {
        *self = Self { state: State::Disconnected, last_error: Some(error), has_failed: false, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AttachedConfig, Attachment, COOL_DOWN, Endpoint, State};

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, host, port, is_loopback) in [
            ("http://127.0.0.1:9222", "127.0.0.1", 9222, true),
            ("http://localhost:9222/", "localhost", 9222, true),
            ("ws://[::1]:9333/devtools/browser/x", "::1", 9333, true),
            ("https://user@example.com/x:1", "example.com", 443, false),
            ("http://127.0.0.1.evil.example", "127.0.0.1.evil.example", 80, false),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(
                (endpoint.host(), endpoint.port(), endpoint.is_loopback()),
                (host, port, is_loopback),
                "{text}"
            );
        }
        for wrong in ["9222", "ftp://x", "http://", "http://a b"] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (address, shown) in [
            ("http://127.0.0.1:9222", "http://127.0.0.1:9222"),
            ("ws://[::1]:9333/devtools/browser/x", "ws://[::1]:9333/devtools/browser/x"),
            ("wss://me:secret@browsers.example/x?token=secret", "wss://browsers.example/x?…"),
            ("https://browsers.example?a=@/", "https://browsers.example?…"),
        ] {
            assert_eq!(Endpoint::parse(address).unwrap().shown(), shown);
        }
    }

    #[test]
    fn a_start_command_gets_what_it_does_not_know() {
        let mut config = AttachedConfig::at(Endpoint::parse("http://127.0.0.1:9222").unwrap());
        config.start = Some(vec!["chrome".into(), "--remote-debugging-port={port}".into(), "{url}".into()]);
        assert_eq!(
            config.start_words().unwrap(),
            ["chrome", "--remote-debugging-port=9222", "http://127.0.0.1:9222"]
        );
    }

    #[test]
    fn after_a_failure_calls_wait_and_after_a_loss_they_do_not() {
        let mut attachment = Attachment::default();
        assert_eq!(attachment.cool_down(at(0)), None);
        attachment.begin(at(10));
        assert_eq!(attachment.state, State::Connecting);
        attachment.fail(at(11), "refused".to_owned());
        assert_eq!(attachment.cool_down(at(31)), Some(at(40)));
        assert_eq!(attachment.cool_down(at(11) + COOL_DOWN), None);
        attachment.begin(at(80));
        attachment.succeed();
        assert_eq!((attachment.state, attachment.last_error.clone()), (State::Connected, None));
        attachment.lose("gone".to_owned());
        assert_eq!(attachment.cool_down(at(81)), None, "it may be back already");
        assert_eq!(attachment.last_error.as_deref(), Some("gone"));
    }
}
