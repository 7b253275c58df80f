//! The decision table: each server with its principle, what speaks for and against it, what it promises, and what it
//! costs.

use super::backends::character;
use super::html::{Html, details, element, list, paragraph, section};
use super::needs::measure;
use super::table::{Cell, Column, Layout, Row, Table};
use crate::backend::Backend;
use crate::compare::figures::{extra, figure, micros, millis, number, ours};
use crate::compare::report::{Promises, Report, ServerReport};
use crate::compare::workload::Case;

/// Returns the section with the table.
pub(super) fn decision(report: &Report) -> Html {
    let says = "The guarantees are what the library says of the server that was measured, with its settings. The \
                figures are the library's own, on one machine with its servers: a network adds its round trips. A \
                server that was measured with a disk, too, has one row here: the table above has its other figures.";
    let columns = [
        Column::text("server"),
        Column::sentences("principle"),
        Column::sentences("pros"),
        Column::sentences("cons"),
        Column::sentences("guarantees"),
        Column::number("cycle, p50"),
        Column::number("cycles/s, 64 names"),
        Column::number("hand-over, p50"),
        Column::number("recovery, less the ttl"),
        Column::number("requests per hand-over, 64 contenders"),
    ];
    let table = Table {
        id: "servers",
        caption: "The servers: principle, pros, cons, guarantees, figures".to_owned(),
        layout: Layout::Stack,
        columns: columns.to_vec(),
        rows: distinct(report).map(|server| row(report, server)).collect(),
    };
    section("decide", "The servers compared", paragraph(says).then(table.html()))
}

/// Returns the servers without those that promise what one before them does, with other settings.
fn distinct(report: &Report) -> impl Iterator<Item = &ServerReport> {
    let same = |a: &ServerReport, b: &ServerReport| {
        let promises = |server: &ServerReport| {
            let info = server.info.as_ref()?;
            Some((info.lease.clone(), info.fair.clone(), info.wakes.clone(), info.fencing.kind.clone()))
        };
        a.backend == b.backend
            && a.product == b.product
            && promises(a).is_some_and(|of_a| promises(b) == Some(of_a))
    };
    let servers = report.servers.iter().enumerate();
    let is_first = move |(at, server): &(usize, &ServerReport)| {
        !report.servers[..*at].iter().any(|before| same(before, server))
    };
    servers.filter(is_first).map(|(_, server)| server)
}

fn row(report: &Report, server: &ServerReport) -> Row {
    let mut cells = vec![Cell::of(named(server))];
    match Backend::named(&server.backend).map(character) {
        Some(character) => cells.extend([
            Cell::of(character.principle),
            Cell::of(list(character.pros.iter().copied())),
            Cell::of(list(character.cons.iter().copied())),
        ]),
        None => cells.extend(["", "", ""].map(Cell::of)),
    }
    cells.push(Cell::of(match &server.info {
        Some(promises) => guarantees(server, promises),
        None => missing(server.not_run.as_deref().unwrap_or("this run did not come to it")),
    }));
    let at = |case| ours(report, server, case);
    let crowd = Case::OneName { contenders: 64, processes: 8 };
    cells.extend([
        measure(&figure(at(Case::OwnNames { tasks: 1 }), |row| row.p50_us), micros),
        measure(&figure(at(Case::OwnNames { tasks: 64 }), |row| Some(row.per_s)), number),
        measure(&figure(at(Case::HandOver), |row| row.p50_us), micros),
        measure(&extra(at(Case::Recovery), "recovery_over_ttl_ms"), millis),
        measure(&extra(at(crowd), "requests_per_hand_over"), number),
    ]);
    cells.into()
}

fn missing(why: &str) -> Html {
    element("span", &[("class", "missing")], format!("not measured: {why}"))
}

/// Returns the server's name, and under it the product.
fn named(server: &ServerReport) -> Html {
    let product = server.product.iter().map(|product| element("small", &[], product.as_str()));
    element("strong", &[], server.name.as_str()).then(product.collect::<Html>())
}

fn guarantees(server: &ServerReport, promises: &Promises) -> Html {
    let backend = Backend::named(&server.backend);
    let reach = backend.map(|backend| format!("It excludes {}.", character(backend).reach.as_str()));
    let disk = server.durable.map(|durable| match durable {
        true => "A grant is on the disk before it counts.",
        false => "A grant counts before it is on a disk.",
    });
    let short = [
        order(&promises.fair),
        wakes(&promises.wakes),
        lease(&promises.lease),
        token(&promises.fencing.kind),
        format!("The ttl is {} to {}.", ttl(promises.min_ttl_ms), ttl(promises.max_ttl_ms)),
    ];
    let short = reach.into_iter().chain(short).chain(disk.map(str::to_owned));
    let exact = [
        ("Token", promises.fencing.text.clone()),
        ("Clock", promises.clock.clone()),
        ("Loss of data", promises.data_loss.clone()),
        ("Requests for a hand-over", promises.requests_per_hand_over.to_string()),
        ("Address", promises.address.clone()),
    ];
    list(short).then(details("In its own words", definitions(exact)))
}

/// Returns a list of terms, each with what it is.
pub(super) fn definitions<const N: usize>(terms: [(&str, String); N]) -> Html {
    let pair = |(term, text): (&str, String)| element("dt", &[], term).then(element("dd", &[], text));
    element("dl", &[], terms.into_iter().map(pair).collect::<Html>())
}

fn order(fair: &str) -> String {
    match fair {
        "per process" => "Processes are served in the order in which they came.".to_owned(),
        "no" => "Processes are served in no particular order.".to_owned(),
        other => format!("Order: {other}."),
    }
}

fn wakes(wakes: &str) -> String {
    match wakes {
        "pushed" => "Waiters are told of a release.".to_owned(),
        "polled" => "Waiters have to poll.".to_owned(),
        other => format!("Releases: {other}."),
    }
}

fn lease(lease: &str) -> String {
    match lease {
        "lock" => "Each lock has a lease of its own.".to_owned(),
        "session" => "All locks of a client belong to one session.".to_owned(),
        other => format!("Lease: {other}."),
    }
}

fn token(kind: &str) -> String {
    match kind {
        "always" => "The token rises always.".to_owned(),
        "while-data-is-kept" => "The token rises while the server keeps its data and its clock.".to_owned(),
        "while-a-majority-keeps-its-data" => {
            "The token rises while a majority of the servers keep their data and their clocks.".to_owned()
        }
        "until-a-majority-loses-its-data" => {
            "The token rises until a majority of the servers lose their data.".to_owned()
        }
        other => format!("The token: {other}."),
    }
}

fn ttl(millis: u64) -> String {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    match millis {
        millis if millis >= DAY && millis.is_multiple_of(DAY) => format!("{} days", millis / DAY),
        millis if millis >= 1000 && millis.is_multiple_of(1000) => format!("{} s", millis / 1000),
        millis => format!("{millis} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page::sample;

    #[test]
    fn a_ttl_has_the_largest_unit_that_fits() {
        assert_eq!([50, 1_000, 300_000, 1_500].map(ttl), ["50 ms", "1 s", "300 s", "1500 ms"]);
        assert_eq!(ttl(365 * 24 * 3_600_000), "365 days");
    }

    #[test]
    fn every_server_has_a_row_with_its_guarantees_or_the_reason() {
        let report = sample();
        let html = decision(&report);
        for server in &report.servers {
            assert!(html.as_str().contains(&format!("<strong>{}</strong>", server.name)), "{}", server.name);
        }
        assert!(html.as_str().contains("Processes are served in the order in which they came."));
        assert!(html.as_str().contains("not measured: there is no ZooKeeper on this machine"));
    }

    #[test]
    fn a_kind_that_this_program_does_not_know_is_shown_with_what_is_known() {
        let mut report = sample();
        report.servers[0].backend = "new".to_owned();
        assert!(decision(&report).as_str().contains("In its own words"));
    }
}
