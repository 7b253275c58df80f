//! Tables that scroll or stack on a narrow screen, and that the page's script can sort.

use super::html::{Html, element};

/// A table with its caption.
pub(super) struct Table {
    /// No other table of the page has it.
    pub(super) id: &'static str,
    pub(super) caption: String,
    pub(super) layout: Layout,
    pub(super) columns: Vec<Column>,
    /// The first cell of each row is its heading.
    pub(super) rows: Vec<Row>,
}

/// What a table does on a narrow screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// It scrolls in its own frame.
    Scroll,
    /// Each row becomes a card.
    Stack,
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    head: &'static str,
    order: Order,
}

/// By what a column can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Text,
    Number,
    /// It has sentences.
    Unsorted,
}

impl Column {
    pub(super) const fn text(head: &'static str) -> Column {
        Column { head, order: Order::Text }
    }

    pub(super) const fn number(head: &'static str) -> Column {
        Column { head, order: Order::Number }
    }

    pub(super) const fn sentences(head: &'static str) -> Column {
        Column { head, order: Order::Unsorted }
    }
}

/// A row: its cells, and what the page's script reads of it.
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) attributes: Vec<(&'static str, String)>,
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Row {
        Row { cells, attributes: Vec::new() }
    }
}

/// A cell of a table.
pub(super) struct Cell {
    content: Html,
    /// By what it is sorted in a column of numbers.
    value: Option<f64>,
}

impl Cell {
    pub(super) fn of(content: impl Into<Html>) -> Cell {
        Cell { content: content.into(), value: None }
    }

    pub(super) fn number(content: impl Into<Html>, value: Option<f64>) -> Cell {
        Cell { content: content.into(), value }
    }
}

impl Table {
    pub(super) fn html(&self) -> Html {
        let caption_id = format!("{}-caption", self.id);
        let caption = element("caption", &[("id", &caption_id)], self.caption.as_str());
        let heads = self.columns.iter().map(|column| self.head(*column)).collect::<Html>();
        let head = element("thead", &self.role("rowgroup"), element("tr", &self.role("row"), heads));
        let rows = self.rows.iter().map(|row| self.row(row)).collect::<Html>();
        let body = element("tbody", &self.role("rowgroup"), rows);
        let class = match self.layout {
            Layout::Scroll => "scrolls",
            Layout::Stack => "stacks",
        };
        let mut attributes = vec![("id", self.id), ("class", class)];
        attributes.extend(self.role("table"));
        let table = element("table", &attributes, caption.then(head).then(body));
        // A region that scrolls has to be reached by the keyboard.
        let frame =
            [("class", "frame"), ("role", "region"), ("aria-labelledby", &*caption_id), ("tabindex", "0")];
        element("div", &frame, table)
    }

    /// Returns the role of a part. A browser forgets the roles of a table whose rows are shown as cards.
    fn role(&self, role: &'static str) -> Vec<(&'static str, &'static str)> {
        match self.layout {
            Layout::Scroll => Vec::new(),
            Layout::Stack => vec![("role", role)],
        }
    }

    fn head(&self, column: Column) -> Html {
        let mut attributes = vec![("scope", "col")];
        match column.order {
            Order::Text => attributes.push(("data-sort", "text")),
            Order::Number => attributes.push(("data-sort", "number")),
            Order::Unsorted => {}
        }
        attributes.extend(self.role("columnheader"));
        element("th", &attributes, column.head)
    }

    fn row(&self, row: &Row) -> Html {
        let cells = row.cells.iter().zip(&self.columns).enumerate();
        let cells = cells.map(|(at, (cell, column))| self.cell(at, cell, *column)).collect::<Html>();
        let mut attributes: Vec<(&'static str, &str)> =
            row.attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
        attributes.extend(self.role("row"));
        element("tr", &attributes, cells)
    }

    fn cell(&self, at: usize, cell: &Cell, column: Column) -> Html {
        if at == 0 {
            let mut attributes = vec![("scope", "row")];
            attributes.extend(self.role("rowheader"));
            return element("th", &attributes, cell.content.clone());
        }
        let value = cell.value.map(|value| value.to_string());
        let mut attributes = vec![("data-label", column.head)];
        if column.order == Order::Number {
            attributes.push(("class", "number"));
        }
        attributes.extend(value.as_deref().map(|value| ("data-value", value)));
        attributes.extend(self.role("cell"));
        element("td", &attributes, cell.content.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(layout: Layout) -> String {
        let columns = vec![Column::text("server"), Column::number("rate"), Column::sentences("why")];
        let rows =
            vec![vec![Cell::of("a<b"), Cell::number("1,000", Some(1000.0)), Cell::of("because")].into()];
        Table { id: "t", caption: "A & B".to_owned(), layout, columns, rows }.html().as_str().to_owned()
    }

    #[test]
    fn a_table_has_a_caption_headings_and_values_to_sort_by() {
        let html = table(Layout::Scroll);
        for expected in [
            r#"<caption id="t-caption">A &amp; B</caption>"#,
            r#"<th scope="col" data-sort="text">server</th>"#,
            r#"<th scope="col" data-sort="number">rate</th>"#,
            r#"<th scope="col">why</th>"#,
            r#"<th scope="row">a&lt;b</th>"#,
            r#"<td data-label="rate" class="number" data-value="1000">1,000</td>"#,
        ] {
            assert!(html.contains(expected), "{expected} is not in {html}");
        }
    }

    #[test]
    fn a_table_that_becomes_cards_names_its_roles() {
        let html = table(Layout::Stack);
        for role in ["table", "rowgroup", "row", "columnheader", "rowheader", "cell"] {
            assert!(html.contains(&format!(r#"role="{role}""#)), "{role} is not in {html}");
        }
    }
}
