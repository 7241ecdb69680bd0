//! What the answer to a call says about the lease that it was served with.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::call;

#[derive(Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) pool: String,
    pub(crate) instance: String,
    /// How long the call waited for it, by the server's own account.
    pub(crate) waited: Duration,
}

#[derive(Deserialize)]
struct Answered {
    #[serde(rename = "_meta", default)]
    meta: Meta,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(rename = "greenroom/pool")]
    pool: Option<String>,
    #[serde(rename = "greenroom/instance")]
    instance: Option<String>,
    #[serde(rename = "greenroom/waitedMs")]
    waited_ms: Option<f64>,
}

impl Lease {
    pub(super) fn of_answer(message: &[u8]) -> Result<Self> {
        let (_, result) = call::response(message)?.context("not an answer")?;
        let Answered { meta } = serde_json::from_str(result.get())
            .with_context(|| format!("the answer's _meta is not what was agreed on: {result}"))?;
        match meta {
            Meta { pool: Some(pool), instance: Some(instance), waited_ms: Some(waited_ms) } => {
                let waited = Duration::try_from_secs_f64(waited_ms / 1e3)
                    .with_context(|| format!("greenroom/waitedMs is {waited_ms}"))?;
                Ok(Self { pool, instance, waited })
            }
            Meta { pool, instance, waited_ms } => {
                let there = [
                    ("greenroom/pool", pool.is_some()),
                    ("greenroom/instance", instance.is_some()),
                    ("greenroom/waitedMs", waited_ms.is_some()),
                ];
                let missing: Vec<_> =
                    there.into_iter().filter(|(_, there)| !there).map(|(name, _)| name).collect();
                bail!(
                    "the call was not served by a pool, or does not say so: {} missing in the answer's _meta",
                    missing.join(", ")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(meta: &str) -> Result<Lease> {
        Lease::of_answer(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[]{meta}}}}}"#).as_bytes())
    }

    #[test]
    fn an_answer_says_who_served_it_and_how_long_it_waited() {
        let lease = read(
            r#","_meta":{"greenroom/pool":"DEFAULT","greenroom/instance":"1","greenroom/waitedMs":2.5,"other":[]}"#,
        );
        let expected =
            Lease { pool: "DEFAULT".into(), instance: "1".into(), waited: Duration::from_micros(2500) };
        assert_eq!(lease.unwrap(), expected);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = read("").unwrap_err().to_string();
        assert!(error.contains("greenroom/pool, greenroom/instance, greenroom/waitedMs missing"), "{error}");
        let error =
            read(r#","_meta":{"greenroom/pool":"A","greenroom/waitedMs":0}"#).unwrap_err().to_string();
        assert!(error.contains("so: greenroom/instance missing"), "{error}");
    }

    #[test]
    fn what_has_another_type_is_shown() {
        for meta in [r#""greenroom/instance":1"#, r#""greenroom/waitedMs":"1""#] {
            let error = read(&format!(r#","_meta":{{{meta}}}"#)).unwrap_err().to_string();
            assert!(error.contains("not what was agreed on") && error.contains(meta), "{error}");
        }
    }
}
