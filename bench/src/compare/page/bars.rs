//! Whether the library reaches what it has to.

use super::html::{Html, element, paragraph, section};
use super::table::{Cell, Column, Layout, Table};
use crate::compare::figures::number;
use crate::compare::judged::BarReport;
use crate::compare::report::Report;

/// Returns the section with a line for each bar; empty if the report has none.
pub(super) fn bars(report: &Report) -> Html {
    if report.bars.is_empty() {
        return Html::default();
    }
    let says = "What the library has to reach on each server, and whether it did in this run. A bar that was not \
                measured is neither met nor missed.";
    let table = Table {
        id: "bars",
        caption: "The bars".to_owned(),
        layout: Layout::Stack,
        columns: vec![
            Column::text("bar"),
            Column::text("server"),
            Column::text("verdict"),
            Column::number("figure"),
            Column::text("to reach"),
            Column::sentences("what the figure is, or why there is none"),
            Column::sentences("text"),
        ],
        rows: report.bars.iter().map(|bar| cells(bar).into()).collect(),
    };
    section("the-bars", "What has to be reached", paragraph(says).then(table.html()))
}

fn cells(bar: &BarReport) -> Vec<Cell> {
    let class = match bar.verdict.as_str() {
        "met" => "yes",
        "not-met" => "no",
        _ => "missing",
    };
    let verdict = bar.verdict.replace('-', " ");
    vec![
        Cell::of(bar.id.as_str()),
        Cell::of(bar.server.as_deref().unwrap_or("the run")),
        Cell::of(element("span", &[("class", class)], verdict.as_str())),
        Cell::number(bar.figure.map_or_else(String::new, number), bar.figure),
        Cell::of(bar.bound.as_deref().unwrap_or_default()),
        Cell::of(bar.because.as_str()),
        Cell::of(bar.text.as_str()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page::sample;

    #[test]
    fn every_bar_has_a_line_with_its_verdict() {
        let report = sample();
        let html = bars(&report);
        assert!(!report.bars.is_empty());
        assert_eq!(html.as_str().matches(r#"<th scope="row""#).count(), report.bars.len());
        for verdict in ["met", "not met", "not measured"] {
            assert!(html.as_str().contains(&format!(">{verdict}</span>")), "{verdict}");
        }
        let none = Report { bars: Vec::new(), ..report };
        assert_eq!(bars(&none).as_str(), "");
    }
}
