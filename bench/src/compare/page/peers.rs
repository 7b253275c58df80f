//! Other libraries' locks beside this one: what each costs, what it lacks, and what that costs this library.

use super::html::{Html, element, list, paragraph, section};
use super::needs::measure;
use super::table::{Cell, Column, Layout, Row, Table};
use crate::compare::figures::{figure, micros, number, of_subject};
use crate::compare::peers::PeerReport;
use crate::compare::report::{Report, ServerReport};
use crate::compare::workload::Case;
use crate::subjects::Kind;

/// Returns the section with a line for each library on each server; empty if none was measured.
pub(super) fn peers(report: &Report) -> Html {
    let of_server =
        |server| measured_on(report, server).into_iter().map(move |peer| row(report, server, peer));
    let rows: Vec<Row> = report.servers.iter().flat_map(of_server).collect();
    if rows.is_empty() {
        return Html::default();
    }
    let says = "Other libraries' locks, in the same rounds on the same servers. Each figure stands before that of this \
                library. Where one promises less, the last column says what, and what this library pays for it.";
    let table = Table {
        id: "peers",
        caption: "Other libraries".to_owned(),
        layout: Layout::Stack,
        columns: vec![
            Column::text("library"),
            Column::text("server"),
            Column::number("cycle, p50"),
            Column::number("this library's"),
            Column::number("cycles/s, 64 names"),
            Column::number("those of this library"),
            Column::number("hand-over, p50"),
            Column::number("that of this library"),
            Column::sentences("what it lacks, and what that costs"),
        ],
        rows,
    };
    section("other-libraries", "Other libraries", paragraph(says).then(table.html()))
}

/// Returns the libraries of which there is a row on this server, in the order of the rows.
fn measured_on<'a>(report: &'a Report, server: &ServerReport) -> Vec<&'a PeerReport> {
    let mut peers: Vec<&PeerReport> = Vec::new();
    let rows = report.rows.iter().filter(|row| row.server == server.name);
    for peer in rows.filter_map(|row| row.peer.as_ref()) {
        if !peers.iter().any(|known| known.name == peer.name) {
            peers.push(peer);
        }
    }
    peers
}

fn row(report: &Report, server: &ServerReport, peer: &PeerReport) -> Row {
    let PeerReport { name, version, language, .. } = peer;
    let which = element("small", &[], format!("{version}, {language}"));
    let mut cells = vec![Cell::of(Html::from(name.as_str()).then(which)), Cell::of(server.name.as_str())];
    let both = [name.as_str(), Kind::Ours.as_str()];
    let at = |case, subject| of_subject(report, server, case, subject);
    let one = |subject| figure(at(Case::OwnNames { tasks: 1 }, subject), |row| row.p50_us);
    let many = |subject| figure(at(Case::OwnNames { tasks: 64 }, subject), |row| Some(row.per_s));
    let hand_over = |subject| figure(at(Case::HandOver, subject), |row| row.p50_us);
    cells.extend(both.map(|subject| measure(&one(subject), micros)));
    cells.extend(both.map(|subject| measure(&many(subject), number)));
    cells.extend(both.map(|subject| measure(&hand_over(subject), micros)));
    let lacks =
        peer.lacks.iter().map(|lack| Html::from(format!("{}: {}", lack.promise, lack.costs).as_str()));
    cells.push(Cell::of(list(lacks)));
    cells.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page::sample;
    use crate::compare::peers::LackReport;

    #[test]
    fn each_library_has_a_line_with_both_figures_and_what_it_lacks() {
        let mut report = sample();
        assert_eq!(peers(&report).as_str(), "", "none was measured");
        let ours = |row: &&crate::compare::report::Row| row.subject == "ours" && row.workload == "own-names";
        let ours = report.rows.iter().find(ours).unwrap().clone();
        let mut theirs = ours.clone();
        theirs.subject = "rslock".to_owned();
        let peer = crate::subjects::peers::Peer::Rslock;
        let mut described = PeerReport::of(peer, lock_core::driver::Wakes::Pushed);
        described.lacks = vec![LackReport { promise: "token".to_owned(), costs: "a counter".to_owned() }];
        theirs.peer = Some(described);
        report.rows.push(theirs);
        let html = peers(&report);
        assert_eq!(html.as_str().matches(r#"<th scope="row""#).count(), 1);
        assert!(html.as_str().contains("token: a counter"), "{html:?}");
    }
}
