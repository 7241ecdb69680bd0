//! How strings are written in a snapshot: when they need quotes, and what stands between them.

use std::borrow::Cow;

/// Names are written as JSON strings.
pub(super) fn push_json(out: &mut String, text: &str) {
    push_quoted(out, text, |c| c < ' ', |code| format!("\\u{code:04x}"));
}

/// Between double quotes, with what JSON and YAML both escape; the rest of what `is_odd` by its code.
fn push_quoted(out: &mut String, text: &str, is_odd: fn(char) -> bool, by_code: fn(u32) -> String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if is_odd(c) => out.push_str(&by_code(u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// A key is what stands before the colon. Its name is escaped already, so single quotes around it will do.
pub(super) fn push_key(out: &mut String, key: &str) {
    if needs_quotes(key) {
        out.push('\'');
        out.push_str(&key.replace('\'', "''"));
        out.push('\'');
    } else {
        out.push_str(key);
    }
}

/// A value is what stands behind the colon.
pub(super) fn push_value(out: &mut String, value: &str) {
    if needs_quotes(value) {
        let is_odd = |c: char| c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c);
        push_quoted(out, value, is_odd, |code| format!("\\x{code:02x}"));
    } else {
        out.push_str(value);
    }
}

/// The rules of Playwright's `yamlStringNeedsQuotes`, in the meaning that JavaScript gives them.
fn needs_quotes(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return true };
    if "-&*],?!>|@\"'#%[".contains(first) || is_space(first) || text.chars().next_back().is_some_and(is_space)
    {
        return true;
    }
    let mut before = '\0';
    for c in text.chars() {
        let is_needed = match c {
            '\t' => before == ':',
            '\0'..' ' | '\u{7f}'..='\u{9f}' | '{' | '}' | '`' => true,
            '#' => is_space(before),
            _ => before == ':' && is_space(c),
        };
        if is_needed {
            return true;
        }
        before = c;
    }
    before == ':' || is_word_of_yaml(text) || is_number(text)
}

fn is_word_of_yaml(text: &str) -> bool {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "true", "false", "on", "off", "null"];
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// What `\s` means in JavaScript.
fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

/// Whether JavaScript's `Number` makes a number of it. It begins and ends with no space and with no minus.
fn is_number(text: &str) -> bool {
    let digits = |digits: &str, radix| !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2), ("0X", 16), ("0O", 8), ("0B", 2)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return digits(rest, radix);
        }
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "Infinity" {
        return true;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        None => (text, None),
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits(whole)
        && are_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent), 10))
}

/// Reads a string in double quotes that begins with one. Returns it and what follows the closing quote.
pub(super) fn double_quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut read = String::new();
    let mut rest = inner;
    loop {
        let at = rest.find(['"', '\\'])?;
        read.push_str(&rest[..at]);
        let is_end = rest.as_bytes()[at] == b'"';
        rest = &rest[at + 1..];
        if is_end {
            return Some((read, rest));
        }
        rest = escaped(rest, &mut read)?;
    }
}

/// What stands behind a backslash. Returns what follows.
fn escaped<'a>(text: &'a str, read: &mut String) -> Option<&'a str> {
    let kind = text.chars().next()?;
    let rest = &text[kind.len_utf8()..];
    read.push(match kind {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '"' | '\\' | '/' => kind,
        'x' => {
            let (code, rest) = hexadecimal(rest, 2)?;
            read.push(char::from_u32(code)?);
            return Some(rest);
        }
        'u' => {
            let (code, rest) = hexadecimal(rest, 4)?;
            let second = rest.strip_prefix("\\u").and_then(|second| hexadecimal(second, 4));
            let (c, rest) = match (code, second) {
                (0xd800..0xdc00, Some((low @ 0xdc00..0xe000, rest))) => {
                    (char::from_u32(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)), rest)
                }
                _ => (char::from_u32(code), rest),
            };
            // Half of a pair, where a page has cut a text inside an emoji.
            read.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
            return Some(rest);
        }
        _ => return None,
    });
    Some(rest)
}

fn hexadecimal(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hexadecimal.then(|| u32::from_str_radix(digits, 16).ok()).flatten().map(|code| (code, rest))
}

/// Reads a key in single quotes that begins with one. Returns it and what follows the closing quote.
pub(super) fn single_quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.strip_prefix('\'')?;
    let mut from = 0;
    loop {
        let at = from + inner[from..].find('\'')?;
        if inner[at + 1..].starts_with('\'') {
            from = at + 2;
            continue;
        }
        let read = &inner[..at];
        let read = if from == 0 { Cow::Borrowed(read) } else { Cow::Owned(read.replace("''", "'")) };
        return Some((read, &inner[at + 1..]));
    }
}
