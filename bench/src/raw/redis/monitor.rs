//! Reads what a server's MONITOR prints.

/// One command that the server ran: `1700000000.123456 [0 127.0.0.1:5000] "SET" "key" "a \"value\"\x00"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether a script ran it.
    pub(crate) in_script: bool,
    /// The command and its arguments.
    pub(crate) words: Vec<Vec<u8>>,
}

impl Seen {
    /// Reads a line; `None` if it is not one of MONITOR's.
    pub(crate) fn parse(line: &str) -> Option<Seen> {
        let (time, rest) = line.split_once(" [")?;
        let (source, words) = rest.split_once("] ")?;
        time.split_once('.').filter(|(seconds, micros)| is_number(seconds) && is_number(micros))?;
        Some(Seen { in_script: source.ends_with(" lua"), words: split(words.as_bytes())? })
    }

    pub(crate) fn is(&self, command: &str) -> bool {
        self.words.first().is_some_and(|word| word.eq_ignore_ascii_case(command.as_bytes()))
    }

    /// Returns whether it is a part of a release: it notifies the clients that listen, or counts those that wait in
    /// order, of which only the first would be notified.
    pub(crate) fn releases(&self) -> bool {
        self.in_script && (self.is("publish") || self.is("zcard"))
    }

    /// Returns whether it waits until replicas have what was written. It names no key.
    pub(crate) fn waits(&self) -> bool {
        self.is("wait") || self.is("waitaof")
    }

    /// Returns the `n`th argument of a script that is run by its digest, from 0: what stands behind its keys.
    pub(crate) fn argument(&self, n: usize) -> Option<&[u8]> {
        let keys: usize = str::from_utf8(self.words.get(2)?).ok()?.parse().ok()?;
        self.words.get(keys.checked_add(3)?..)?.get(n).map(Vec::as_slice)
    }

    /// Returns whether a word contains `name`, as a key does, whatever its prefix and suffix are.
    pub(crate) fn concerns(&self, name: &str) -> bool {
        self.words.iter().any(|word| word.windows(name.len()).any(|part| part == name.as_bytes()))
    }
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Splits `"a" "b"` into its words.
fn split(mut text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    while !text.is_empty() {
        let (word, rest) = unquote(text)?;
        words.push(word);
        text = rest.trim_ascii_start();
    }
    Some(words)
}

/// Returns the word that `text` begins with, and what follows its closing quote.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut word = Vec::new();
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((word, rest)),
            b'\\' => {
                let (byte, after) = unescape(rest)?;
                word.push(byte);
                rest = after;
            }
            _ => word.push(*byte),
        }
    }
}

/// Decodes what follows a backslash.
fn unescape(text: &[u8]) -> Option<(u8, &[u8])> {
    let (byte, rest) = text.split_first()?;
    match byte {
        b'x' => {
            let (digits, rest) = rest.split_at_checked(2)?;
            Some((u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?, rest))
        }
        b'n' => Some((b'\n', rest)),
        b'r' => Some((b'\r', rest)),
        b't' => Some((b'\t', rest)),
        b'a' => Some((7, rest)),
        b'b' => Some((8, rest)),
        _ => Some((*byte, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let seen =
            Seen::parse(r#"1700000000.000042 [0 [::1]:5000] "SET" "a \"b\" ] " "\x00\\\n\xff""#).unwrap();
        assert_eq!(seen.words, [b"SET".as_slice(), b"a \"b\" ] ", b"\0\\\n\xff"]);
        assert!(seen.concerns("\"b\"") && !seen.concerns("c"));
        assert!(seen.is("set") && !seen.in_script);
        assert!(Seen::parse(r#"1.5 [0 lua] "GET" "k""#).unwrap().in_script);
    }

    #[test]
    fn arguments_stand_behind_the_keys() {
        let script = Seen::parse(r#"1.5 [0 h] "EVALSHA" "5a" "2" "k" "l" "a" "b""#).unwrap();
        assert_eq!([script.argument(0), script.argument(1)], [Some(&b"a"[..]), Some(&b"b"[..])]);
        assert_eq!(script.argument(2), None);
        let none = Seen::parse(r#"1.5 [0 h] "DEL" "k""#).unwrap();
        assert_eq!(none.argument(0), None);
    }

    #[test]
    fn what_monitor_does_not_say_is_refused() {
        for bad in [
            "OK",
            "",
            r#"1.5 [0 lua] "GET"#,
            r#"1.5 [0 lua] GET"#,
            r#"x.5 [0 lua] "GET""#,
            r#". [0 lua] "GET""#,
            r#"1.5 [0 lua] "\x0"#,
        ] {
            assert_eq!(Seen::parse(bad), None, "{bad}");
        }
    }
}
