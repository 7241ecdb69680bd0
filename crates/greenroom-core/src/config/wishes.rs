//! Comparing what one process was told with what another one runs with, without showing either.
//!
//! Only what somebody has written counts as a wish: who says nothing takes what is there. Values travel as digests,
//! because some of them are secrets.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::keys::{Group, Key};
use super::settings::{Scope, Setting, Settings, Source};
use super::value::{Kind, Value};

/// The browsers of a file, which are no key.
const BROWSERS: &str = "[[browsers]]";

/// Digests by the name of what is wished for: `KEY`, `POOL/KEY` or `POOL/0/KEY`, or the browsers of a file.
pub type Wishes = BTreeMap<String, String>;

impl Settings {
    /// What was written and decides how calls are served. `folder` is what relative paths are relative to.
    pub fn wishes(&self, folder: &Path) -> Wishes {
        let written =
            self.all().filter(|(_, setting)| setting.source != Source::BuiltIn && serves(setting.key));
        let mut wishes: Wishes =
            written.map(|(scope, setting)| (name(scope, setting.key), digest(setting, folder))).collect();
        wishes.extend(self.digest_of_browsers().map(|digest| (BROWSERS.to_owned(), digest)));
        wishes
    }

    fn digest_of_browsers(&self) -> Option<String> {
        let browsers: Vec<_> = self.browsers().iter().map(|(_, browser)| browser).collect();
        (!browsers.is_empty()).then(|| in_hex(Sha256::new().chain_update(format!("{browsers:?}"))))
    }

    /// The wishes that these settings do not fulfil, by name.
    pub fn unmet<'a>(&self, wishes: &'a Wishes, folder: &Path) -> Vec<&'a str> {
        let is_met = |wish: &str, wanted: &str| {
            if wish == BROWSERS {
                return self.digest_of_browsers().as_deref() == Some(wanted);
            }
            self.named(wish).is_some_and(|setting| {
                let is_said = setting.source != Source::BuiltIn || !says_more_when_written(setting.key);
                is_said && digest(setting, folder) == wanted
            })
        };
        wishes.iter().filter(|(wish, wanted)| !is_met(wish, wanted)).map(|(wish, _)| wish.as_str()).collect()
    }

    fn named(&self, wish: &str) -> Option<&Setting> {
        let mut parts = wish.rsplit('/');
        let key = Key::find(parts.next()?)?;
        let (last, first) = (parts.next(), parts.next());
        let view = match (first, last) {
            (Some(pool), Some(instance)) => self.view(Some(pool), Some(instance.parse().ok()?)),
            (None, Some(pool)) => self.view(Some(pool), None),
            _ => self.view(None, None),
        };
        Some(view.get(key.name))
    }
}

/// Whether it matters to who calls, and not only to who runs the process.
fn serves(key: &Key) -> bool {
    let of_server = [
        "ADDRESSING",
        "BROWSER_URLS",
        "WS_ENDPOINTS",
        "IMPLICIT_SESSION",
        "MAX_REQUEST_MB",
        "MAX_SESSIONS_PER_CALLER",
        "SESSION_FILES_GRACE",
    ];
    key.group != Group::Server || of_server.contains(&key.name)
}

/// Where no pool is configured, these mean something else than their default when nobody has written them.
fn says_more_when_written(key: &Key) -> bool {
    ["ISOLATED", "LEASE_TIMEOUT"].contains(&key.name)
}

fn name(scope: &Scope, key: &Key) -> String {
    match scope {
        Scope::Global => key.name.to_owned(),
        Scope::Pool(pool) => format!("{pool}/{}", key.name),
        Scope::Instance(pool, id) => format!("{pool}/{id}/{}", key.name),
    }
}

/// Every part with its length, so that two different values are never written the same.
fn digest(setting: &Setting, folder: &Path) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    };
    add(setting.key.name);
    let place = |path: &Path| folder.join(path).to_string_lossy().into_owned();
    match &setting.value {
        None => add("not set"),
        Some(Value::Path(path)) => add(&place(path)),
        Some(Value::List(items)) if setting.key.kind == Kind::Paths => {
            items.iter().for_each(|item| add(&place(Path::new(item))));
        }
        Some(Value::List(items)) => items.iter().for_each(|item| add(item)),
        Some(Value::Pairs(pairs)) => {
            let mut pairs: Vec<_> = pairs.iter().collect();
            pairs.sort();
            for (name, value) in pairs {
                add(name);
                add(value);
            }
        }
        Some(value) => add(&value.to_string()),
    }
    in_hex(hash)
}

fn in_hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rstest::rstest;

    use super::super::{Settings, Source, environment_layer, file_layer, load};

    fn settings(pairs: &[(&str, &str)]) -> Arc<Settings> {
        let variables = pairs.iter().map(|(name, value)| (format!("GREENROOM_{name}"), (*value).to_owned()));
        load(vec![environment_layer(Source::Environment, variables)]).unwrap().settings
    }

    fn unmet(wishes: &[(&str, &str)], server: &[(&str, &str)]) -> Vec<String> {
        let wishes = settings(wishes).wishes(Path::new("/agent"));
        let unmet = settings(server).unmet(&wishes, Path::new("/srv"));
        unmet.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn browsers_of_a_file_are_a_wish() {
        let of_file = |text: &str| {
            let source = Source::File { path: "mine.toml".into(), trusted: true };
            load(vec![file_layer(source, text)]).unwrap().settings
        };
        let work = of_file("[[browsers]]\nname = 'work'\nurl = 'http://127.0.0.1:9222'");
        let other = of_file("[[browsers]]\nname = 'work'\nurl = 'http://127.0.0.1:9223'");
        let (here, wishes) = (Path::new("/"), work.wishes(Path::new("/")));
        assert!(work.unmet(&wishes, here).is_empty());
        assert_eq!(other.unmet(&wishes, here), ["[[browsers]]"]);
        assert_eq!(settings(&[]).unmet(&wishes, here), ["[[browsers]]"]);
        assert!(work.unmet(&settings(&[]).wishes(here), here).is_empty());
    }

    const POOL: [(&str, &str); 2] = [("_A_INSTANCES", "2"), ("_A_IS_DEFAULT", "true")];

    #[test]
    fn who_wishes_nothing_takes_what_is_there() {
        let none: [&str; 0] = [];
        assert_eq!(unmet(&[], &[("HEADLESS", "false")]), none);
        assert_eq!(unmet(&[], &POOL), none);
        assert_eq!(unmet(&[("LOG", "debug"), ("HTTP_PORT", "7"), ("DATA_DIR", "x")], &[]), none);
    }

    #[rstest]
    #[case(&[("HEADLESS", "false")], &[("HEADLESS", "no")], &[])]
    #[case(&[("HEADLESS", "false")], &[], &["HEADLESS"])]
    #[case(&[("HEADLESS", "true")], &[], &[])]
    #[case(&[("ADDRESSING", "session"), ("TIMEOUT", "1")], &[("TIMEOUT", "1")], &["ADDRESSING"])]
    #[case(&POOL, &[], &["A/INSTANCES", "A/IS_DEFAULT"])]
    #[case(&POOL, &POOL, &[])]
    #[case(
        &[POOL[0], POOL[1], ("_A__1_TIMEOUT", "5")],
        &[POOL[0], POOL[1], ("_A_TIMEOUT", "5")],
        &[]
    )]
    #[case(
        &[POOL[0], POOL[1], ("_A__1_TIMEOUT", "5")],
        &[POOL[0], POOL[1], ("_A__0_TIMEOUT", "5")],
        &["A/1/TIMEOUT"]
    )]
    #[case(&[("OUTPUT_DIR", "/out")], &[("OUTPUT_DIR", "/out")], &[])]
    #[case(&[("OUTPUT_DIR", "out")], &[("OUTPUT_DIR", "out")], &["OUTPUT_DIR"])]
    #[case(&[("ENV", "A=1,B=2")], &[("ENV", "B=2,A=1")], &[])]
    #[case(&[("ENV", "A=1")], &[("ENV", "A=2")], &["ENV"])]
    fn a_wish_is_met_by_the_same_effective_value(
        #[case] wishes: &[(&str, &str)],
        #[case] server: &[(&str, &str)],
        #[case] expected: &[&str],
    ) {
        assert_eq!(unmet(wishes, server), expected);
    }

    /// Without pools a browser is isolated unless somebody says otherwise, whatever the key's default.
    #[test]
    fn a_default_that_is_said_aloud_is_not_always_the_same() {
        assert_eq!(unmet(&[("ISOLATED", "false")], &[]), ["ISOLATED"]);
        assert!(unmet(&[("ISOLATED", "false")], &[("ISOLATED", "false")]).is_empty());
    }

    #[test]
    fn no_value_can_be_read_from_a_wish_and_no_stranger_breaks_the_comparison() {
        let wishes = settings(&[("ENV", "TOKEN=hunter2")]).wishes(Path::new("/"));
        assert!(!format!("{wishes:?}").contains("hunter2"));
        let strange = ["", "/", "a/b/c/d", "A/x/TIMEOUT", "NO_SUCH_KEY"];
        let wishes = strange.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        assert_eq!(settings(&[]).unmet(&wishes, Path::new("/")).len(), strange.len());
    }
}
