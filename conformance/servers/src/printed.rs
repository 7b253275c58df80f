//! What programs have printed, for messages that say why something failed.

/// Returns the last lines of what a program printed, in one line.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn the_last_four_lines_are_told_and_empty_ones_do_not_count() {
        assert_eq!(last_lines("a\nb\n\nc\n  d\ne\n"), "b | c | d | e");
        assert_eq!(last_lines("a\n"), "a");
        assert_eq!(last_lines("\n \n"), "");
    }
}
