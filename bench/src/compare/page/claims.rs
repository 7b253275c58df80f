//! What the run says of each claim of the texts.

use super::html::{Html, element, paragraph, section};
use super::table::{Cell, Column, Layout, Table};
use crate::compare::judged::{ClaimReport, Judgement};
use crate::compare::report::Report;

/// Returns the section with a line for each claim; empty if the report has none.
pub(super) fn claims(report: &Report) -> Html {
    if report.claims.is_empty() {
        return Html::default();
    }
    let says = "What texts claim of locks on these servers, and what this run found: for the scheme as the texts \
                describe it, and for the library on the same kind of server. That a claim holds may be good or bad.";
    let table = Table {
        id: "claims",
        caption: "The claims".to_owned(),
        layout: Layout::Stack,
        columns: vec![
            Column::text("claim"),
            Column::text("scheme"),
            Column::sentences("text"),
            Column::sentences("the scheme"),
            Column::sentences("the library"),
        ],
        rows: report.claims.iter().map(|claim| cells(claim).into()).collect(),
    };
    section("the-claims", "What the texts claim", paragraph(says).then(table.html()))
}

fn cells(claim: &ClaimReport) -> Vec<Cell> {
    vec![
        Cell::of(claim.id.as_str()),
        Cell::of(claim.scheme.as_str()),
        Cell::of(claim.text.as_str()),
        Cell::of(judged(&claim.naive)),
        Cell::of(judged(&claim.ours)),
    ]
}

fn judged(judgement: &Judgement) -> Html {
    let verdict = judgement.verdict.replace('-', " ");
    element("strong", &[], verdict.as_str()).then(": ").then(judgement.because.as_str())
}
