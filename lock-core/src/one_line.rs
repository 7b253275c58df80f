//! Text of one line, that can be shown: whatever a server or another client has written.

use std::borrow::Cow;

/// Replaces by a space each character that would control a terminal, end a line, or change the direction of what is
/// beside it.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    match text.contains(is_control) {
        true => Cow::Owned(text.replace(is_control, " ")),
        false => Cow::Borrowed(text),
    }
}

/// U+2028 and U+2029 are separators of lines and paragraphs. The others are those of Unicode's `Bidi_Control`.
fn is_control(c: char) -> bool {
    let separates = matches!(c, '\u{2028}' | '\u{2029}');
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || separates || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    // Proves: cleaned-text
    #[test]
    fn nothing_is_left_that_controls_a_terminal() {
        for (text, line) in [
            ("deploy@web-3", "deploy@web-3"),
            ("\u{1b}[2Ja\nlock: b\r\0", " [2Ja lock: b  "),
            ("\u{9b}2J", " 2J"),
            ("a\u{202e}b\u{2028}c", "a b c"),
            ("jób 🔒", "jób 🔒"),
        ] {
            assert_eq!(one_line(text), line, "{text:?}");
        }
    }
}
