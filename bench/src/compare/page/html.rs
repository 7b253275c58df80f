//! HTML that can't be broken by what is put into it: text becomes [`Html`] by being escaped, in one place.

/// A piece of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn then(mut self, next: impl Into<Html>) -> Html {
        self.0.push_str(&next.into().0);
        self
    }
}

impl From<&str> for Html {
    fn from(text: &str) -> Html {
        Html(escape(text))
    }
}

impl From<String> for Html {
    fn from(text: String) -> Html {
        Html::from(text.as_str())
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<T: IntoIterator<Item = Html>>(pieces: T) -> Html {
        Html(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

/// Returns an element with its content. A string as content is escaped, and so is each value of an attribute.
pub(super) fn element(
    name: &'static str,
    attributes: &[(&'static str, &str)],
    content: impl Into<Html>,
) -> Html {
    Html(format!("{}{}</{name}>", opening(name, attributes), content.into().0))
}

/// Returns an element that has neither content nor an end, such as `input`.
pub(super) fn void(name: &'static str, attributes: &[(&'static str, &str)]) -> Html {
    Html(opening(name, attributes))
}

fn opening(name: &str, attributes: &[(&str, &str)]) -> String {
    let attributes: String =
        attributes.iter().map(|(name, value)| format!(r#" {name}="{}""#, escape(value))).collect();
    format!("<{name}{attributes}>")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns a paragraph.
pub(super) fn paragraph(content: impl Into<Html>) -> Html {
    element("p", &[], content)
}

/// Returns a list of items.
pub(super) fn list<T: Into<Html>>(items: impl IntoIterator<Item = T>) -> Html {
    element("ul", &[], items.into_iter().map(|item| element("li", &[], item)).collect::<Html>())
}

/// Returns a section with its heading, which labels it.
pub(super) fn section(id: &str, heading: &str, content: Html) -> Html {
    let label = format!("{id}-heading");
    let heading = element("h2", &[("id", &label)], heading);
    element("section", &[("id", id), ("aria-labelledby", &label)], heading.then(content))
}

/// Returns something that is shown when its summary is opened.
pub(super) fn details(summary: &str, content: Html) -> Html {
    element("details", &[], element("summary", &[], summary).then(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let piece = element("td", &[("data-label", r#""><script>"#)], "<b>'x' & y</b>");
        assert_eq!(
            piece.as_str(),
            r#"<td data-label="&quot;&gt;&lt;script&gt;">&lt;b&gt;&#39;x&#39; &amp; y&lt;/b&gt;</td>"#
        );
    }

    #[test]
    fn a_piece_is_escaped_once() {
        let piece = element("p", &[], element("b", &[], "a & b").then(" < c"));
        assert_eq!(piece.as_str(), "<p><b>a &amp; b</b> &lt; c</p>");
        assert_eq!(list(["1", "2"]).as_str(), "<ul><li>1</li><li>2</li></ul>");
    }
}
