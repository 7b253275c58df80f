//! `%` escapes.

use crate::error::{Error, Result};

/// Decodes the `%` escapes of a text before the `?` of a URL: `%40` is `@`.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) for a `%` without two hexadecimal digits, and for bytes that are no UTF-8. The
/// error does not quote the text, which may be a password.
pub fn unescape(text: &str) -> Result<String> {
    decode(text).ok_or_else(|| Error::invalid("a broken % escape before the ? of the URL"))
}

/// Decodes the `%` escapes of a text; `None` if one of them is broken.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16));
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Escapes everything that may have a meaning in a parameter of a URL.
pub(super) fn escape(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escaped = value
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn what_was_escaped_is_decoded() {
        assert_eq!(unescape("a%20b%C3%A9%25").unwrap(), "a bé%");
        assert_eq!(escape("a b/é%&="), "a%20b/%C3%A9%25%26%3D");
        let all: String = (1..=0xff_u8).map(char::from).collect();
        assert_eq!(unescape(&escape(&all)).unwrap(), all);
    }

    #[test]
    fn a_broken_escape_is_refused() {
        for bad in ["%", "%4", "a%", "%zz", "%+f", "%ff"] {
            assert_eq!(unescape(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
