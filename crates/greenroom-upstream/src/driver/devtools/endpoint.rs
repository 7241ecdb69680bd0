//! Where a browser that somebody else has started listens, and whether it does.

use std::time::Duration;

use greenroom_core::attach::Endpoint;
use reqwest::{Client, Url};

/// How long a browser may take to say that it is there.
const LIMIT: Duration = Duration::from_secs(3);

/// Where its process can be asked over HTTP whether it is there.
fn version_url(endpoint: &Endpoint) -> Result<Url, String> {
    let address = endpoint.address();
    let spelled = match address.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        _ => address.to_owned(),
    };
    let mut url =
        Url::parse(&spelled).map_err(|error| format!("{} is no address: {error}", endpoint.shown()))?;
    url.set_path("/json/version");
    Ok(url)
}

/// Whether a browser answers there. An `http` address has to describe a browser. Behind a WebSocket any answer to a plain
/// request will do: a handshake would open a connection that some services count, and some browsers ask a person about.
pub async fn reachable(endpoint: &Endpoint) -> Result<(), String> {
    let (address, url) = (endpoint.shown(), version_url(endpoint)?);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().timeout(LIMIT).build().map_err(|error| error.to_string())?;
    let mut request = client.get(url);
    if let Endpoint::WebSocket { headers, .. } = endpoint {
        for (name, value) in headers {
            request = request.header(name, value);
        }
    }
    let answer = request.send().await.map_err(|error| {
        let why = if error.is_timeout() {
            format!("no answer within {} s", LIMIT.as_secs())
        } else if error.is_connect() {
            "nothing listens there".to_owned()
        } else {
            // With its address it would say more than others may see.
            error.without_url().to_string()
        };
        format!("no browser answers at {address}: {why}")
    })?;
    if matches!(endpoint, Endpoint::WebSocket { .. }) {
        return Ok(());
    }
    let status = answer.status();
    let text = answer.text().await.unwrap_or_default();
    if status.is_success() && text.contains("webSocketDebuggerUrl") {
        Ok(())
    } else {
        Err(format!(
            "what answers at {address} is no browser with a debugging port (HTTP {status}). Start it with \
             `--remote-debugging-port`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, version_url};

    #[test]
    fn the_process_behind_an_address_is_asked_over_http() {
        let socket = |url: &str| Endpoint::WebSocket { url: url.to_owned(), headers: Vec::new() };
        let asked = |endpoint: &Endpoint| version_url(endpoint).map(|url| url.to_string());
        let near = "http://127.0.0.1:9222/json/version";
        assert_eq!(asked(&Endpoint::Url("http://127.0.0.1:9222".to_owned())).as_deref(), Ok(near));
        assert_eq!(asked(&socket("ws://127.0.0.1:9222/devtools/browser/x")).as_deref(), Ok(near));
        let far = asked(&socket("wss://browsers.example/?token=1"));
        assert_eq!(far.as_deref(), Ok("https://browsers.example/json/version?token=1"));
        assert!(asked(&Endpoint::Url("nonsense".to_owned())).is_err());
        assert!(socket("ws://[::1]:9222/x").is_loopback() && !socket("wss://browsers.example").is_loopback());
    }
}
