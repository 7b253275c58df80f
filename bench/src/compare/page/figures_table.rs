//! Every figure of a report as a table, and what has no figure.

use super::html::{Html, element, list, paragraph, section};
use super::table::{self, Cell, Column, Layout, Table};
use crate::compare::figures::{micros, number};
use crate::compare::report::{Report, Row};

/// Returns the section with a line for each row of the report.
pub(super) fn all_figures(report: &Report) -> Html {
    let says = "One line for each row of report.json. A ratio is this subject's figure divided by that of the subject \
                named beside it; the spread is the least and the greatest of the rounds.";
    let columns = [
        Column::text("server"),
        Column::text("workload"),
        Column::text("subject"),
        Column::number("per s"),
        Column::number("p50"),
        Column::number("p90"),
        Column::number("p99"),
        Column::number("max"),
        Column::number("errors"),
        Column::text("compared with"),
        Column::number("ratio per s"),
        Column::number("ratio p50"),
        Column::number("ratio p99"),
        Column::sentences("spread of per s"),
        Column::sentences("further figures"),
    ];
    let table = Table {
        id: "figures",
        caption: "All figures".to_owned(),
        layout: Layout::Scroll,
        columns: columns.to_vec(),
        rows: report.rows.iter().map(row).collect(),
    };
    section("all", "All figures", paragraph(says).then(table.html()))
}

fn row(row: &Row) -> table::Row {
    let latency = |figure: Option<f64>| cell(figure, micros);
    let ratio = |figure: Option<f64>| cell(figure, |ratio| format!("{ratio:.2}"));
    let ratios = row.ratios.as_ref();
    let spread = row.spread.and_then(|spread| spread.per_s);
    let spread = spread.map_or_else(dash, |(least, greatest)| format!("{least:.2} to {greatest:.2}").into());
    let errors = match &row.first_error {
        Some(first) => Html::from(row.errors.to_string()).then(element("small", &[], first.as_str())),
        None => row.errors.to_string().into(),
    };
    let mut cells = vec![
        Cell::of(row.server.as_str()),
        Cell::of(case(row)),
        Cell::of(row.subject.as_str()),
        cell(Some(row.per_s), number),
    ];
    cells.extend([row.p50_us, row.p90_us, row.p99_us, row.max_us].map(latency));
    cells.push(Cell::number(errors, Some(row.errors as f64)));
    cells.push(Cell::of(ratios.map_or_else(dash, |ratios| ratios.of.as_str().into())));
    let figures =
        [ratios.and_then(|of| of.per_s), ratios.and_then(|of| of.p50), ratios.and_then(|of| of.p99)];
    cells.extend(figures.map(ratio));
    cells.extend([Cell::of(spread), Cell::of(further(row))]);
    cells.into()
}

fn cell(figure: Option<f64>, write: fn(f64) -> String) -> Cell {
    Cell::number(figure.map_or_else(dash, |figure| write(figure).into()), figure)
}

fn further(row: &Row) -> Html {
    if row.extra.is_empty() {
        return dash();
    }
    list(row.extra.iter().map(|(name, figure)| format!("{name} {}", number(*figure))))
}

/// Returns what stands where there is no figure.
fn dash() -> Html {
    let spoken = element("span", &[("class", "spoken")], "none");
    element("span", &[("aria-hidden", "true")], "–").then(spoken)
}

/// `own-names, tasks 8`
fn case(row: &Row) -> String {
    let parameters = row.parameters.iter().map(|(name, value)| format!(", {name} {}", number(*value as f64)));
    row.workload.clone() + &parameters.collect::<String>()
}

/// Returns the section with what was not measured, and why.
pub(super) fn not_run(report: &Report) -> Html {
    let absent = report.servers.iter().filter_map(|server| {
        let why = server.not_run.as_deref()?;
        Some(line(&server.name, "everything", why))
    });
    let steps = report.not_run.iter().map(|not| line(&not.server, &not.workload, &not.why));
    let rows: Vec<table::Row> = absent.chain(steps).collect();
    if rows.is_empty() {
        return section("not-run", "What was not measured", paragraph("Everything was measured."));
    }
    let columns = vec![Column::text("server"), Column::text("workload"), Column::text("why")];
    let caption = "What has no figures, and why".to_owned();
    let table = Table { id: "without-figures", caption, layout: Layout::Scroll, columns, rows };
    section("not-run", "What was not measured", table.html())
}

fn line(server: &str, workload: &str, why: &str) -> table::Row {
    [server, workload, why].map(Cell::of).into_iter().collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page::sample;

    #[test]
    fn each_row_of_the_report_has_a_line() {
        let report = sample();
        let html = all_figures(&report);
        assert_eq!(html.as_str().matches(r#"<th scope="row""#).count(), report.rows.len());
        for row in &report.rows {
            assert!(html.as_str().contains(&number(row.per_s)), "{row:?}");
        }
    }

    #[test]
    fn each_reason_is_shown() {
        let report = sample();
        let html = not_run(&report);
        let absent = report.servers.iter().filter(|server| server.not_run.is_some()).count();
        assert_eq!(html.as_str().matches(r#"<th scope="row""#).count(), report.not_run.len() + absent);
        let nothing = Report { servers: Vec::new(), not_run: Vec::new(), ..report };
        assert!(not_run(&nothing).as_str().contains("Everything was measured."));
    }
}
