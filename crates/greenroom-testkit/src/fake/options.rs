//! The command line: the transport, the shape of the answers, and the scripted faults.

use std::path::PathBuf;
use std::time::Duration;

pub(super) const FAULTS_VARIABLE: &str = "FAKE_UPSTREAM_FAULTS";

/// All flags of `fake-upstream`.
pub const USAGE: &str = "\
Usage: fake-upstream [FLAGS]     (flags are read from FAKE_UPSTREAM_FAULTS too)

Transport:
  --http                 serve Streamable HTTP on a free port of 127.0.0.1
  --port PORT            the port for --http
  --http-json            answer a POST with JSON, not with an event stream
  --http-forget-after N  forget all sessions once N tool calls have been answered

Answers:
  --id-first             write jsonrpc and id before result
  --extra-tools N        list N more tools, extra_1 to extra_N
  --loud-echo            list the tool echo with one more parameter
  --late MS              hold back the answer of every tool
  --late-start MS        hold back the answer to initialize
  --ignore-cancel        answer calls that were cancelled

Faults:
  --crash-on-start       exit before reading anything
  --crash-once FILE      crash on start if FILE does not exist, and create it
  --crash-first N FILE   crash on the first N starts, counted in FILE
  --crash-on-call N      exit in the middle of the Nth tools/call
  --exit-code C          the exit code of these crashes (1)
  --stderr TEXT          what these crashes print on stderr first
  --hang-on-initialize   never answer initialize
  --hang-once FILE       never answer initialize if FILE does not exist, and create it
  --hang-on-call N       never answer the Nth tools/call
  --ignore-sigterm       do not end on SIGTERM
  --ignore-stdin-close   do not end when stdin closes
  --spawn-child          start a process that outlives this one; the tool child_pid names it
  --just-sleep           be that process
";

#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) http: bool,
    pub(super) port: u16,
    pub(super) http_json: bool,
    pub(super) http_forget_after: Option<u64>,
    pub(super) id_first: bool,
    pub(super) extra_tools: u64,
    pub(super) loud_echo: bool,
    pub(super) late: Option<Duration>,
    pub(super) late_start: Option<Duration>,
    pub(super) ignore_cancel: bool,
    pub(super) crash_on_start: bool,
    pub(super) crash_first: Option<(u64, PathBuf)>,
    pub(super) crash_on_call: Option<u64>,
    pub(super) exit_code: Option<i32>,
    pub(super) stderr: Option<String>,
    pub(super) hang_on_initialize: bool,
    pub(super) hang_once: Option<PathBuf>,
    pub(super) hang_on_call: Option<u64>,
    pub(super) ignore_sigterm: bool,
    pub(super) ignore_stdin_close: bool,
    pub(super) spawn_child: bool,
    pub(super) just_sleep: bool,
}

impl Options {
    pub(super) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(flag) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--http" => options.http = true,
                "--port" => options.port = number(&flag, &value()?)?,
                "--http-json" => options.http_json = true,
                "--http-forget-after" => options.http_forget_after = Some(number(&flag, &value()?)?),
                "--id-first" => options.id_first = true,
                "--extra-tools" => options.extra_tools = number(&flag, &value()?)?,
                "--loud-echo" => options.loud_echo = true,
                "--late" => options.late = Some(Duration::from_millis(number(&flag, &value()?)?)),
                "--late-start" => options.late_start = Some(Duration::from_millis(number(&flag, &value()?)?)),
                "--ignore-cancel" => options.ignore_cancel = true,
                "--crash-on-start" => options.crash_on_start = true,
                "--crash-once" => options.crash_first = Some((1, value()?.into())),
                "--crash-first" => {
                    options.crash_first = Some((number(&flag, &value()?)?, value()?.into()));
                }
                "--crash-on-call" => options.crash_on_call = Some(number(&flag, &value()?)?),
                "--exit-code" => options.exit_code = Some(number(&flag, &value()?)?),
                "--stderr" => options.stderr = Some(value()?),
                "--hang-on-initialize" => options.hang_on_initialize = true,
                "--hang-once" => options.hang_once = Some(value()?.into()),
                "--hang-on-call" => options.hang_on_call = Some(number(&flag, &value()?)?),
                "--ignore-sigterm" => options.ignore_sigterm = true,
                "--ignore-stdin-close" => options.ignore_stdin_close = true,
                "--spawn-child" => options.spawn_child = true,
                "--just-sleep" => options.just_sleep = true,
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(flag: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{flag} needs a number, not {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn a_flag_may_take_two_values() {
        let options = parse("--crash-first 2 starts.txt --exit-code 7").unwrap();
        assert_eq!(options.crash_first, Some((2, PathBuf::from("starts.txt"))));
        assert_eq!(options.exit_code, Some(7));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parse("--nonsense").unwrap_err(), "unknown flag --nonsense");
        assert_eq!(parse("--late soon").unwrap_err(), "--late needs a number, not soon");
        assert_eq!(parse("--late").unwrap_err(), "--late needs a value");
    }

    #[test]
    fn the_usage_names_every_flag_that_is_parsed() {
        let arms = include_str!("options.rs").lines().filter_map(|line| line.trim().strip_prefix("\"--"));
        let flags: Vec<_> = arms.map(|arm| arm.split('"').next().unwrap()).collect();
        assert!(flags.len() > 20, "the arms of the match above are no longer found");
        for flag in flags {
            assert!(USAGE.contains(&format!("  --{flag} ")), "--{flag} is not in the usage");
        }
    }
}
