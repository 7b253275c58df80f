//! The report as a table for a terminal.

use std::fmt::{self, Display};

use super::judged::{BarReport, ClaimReport};
use super::report::{Report, Row};
use crate::report::{number, rate};

/// Displays a report.
pub(super) struct Table<'a>(pub(super) &'a Report);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table(report) = self;
        let width = |text: fn(&Row) -> String, head: &str| {
            let widths = report.rows.iter().map(|row| text(row).chars().count());
            widths.max().unwrap_or(0).max(head.len())
        };
        let (server, case) = (width(|row| row.server.clone(), "server"), width(case, "workload"));
        writeln!(
            f,
            "{:<server$} {:<case$} {:<15} {:>8} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6} {:>6}  spread of per s",
            "server",
            "workload",
            "subject",
            "per s",
            "p50 us",
            "p99 us",
            "max us",
            "errors",
            "per s",
            "p50",
            "p99"
        )?;
        for row in &report.rows {
            let ratios = row.ratios.as_ref();
            writeln!(
                f,
                "{:<server$} {:<case$} {:<15} {:>8} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6} {:>6}  {}",
                row.server,
                self::case(row),
                row.subject,
                rate(row.per_s),
                number(row.p50_us, 1),
                number(row.p99_us, 1),
                number(row.max_us, 1),
                row.errors,
                number(ratios.and_then(|ratios| ratios.per_s), 2),
                number(ratios.and_then(|ratios| ratios.p50), 2),
                number(ratios.and_then(|ratios| ratios.p99), 2),
                spread(row),
            )?;
            for (name, figure) in &row.extra {
                writeln!(f, "{:server$} {:case$}   {name} = {figure:.3}", "", "")?;
            }
            if let Some(peer) = &row.peer {
                writeln!(f, "{:server$} {:case$}   without {}", "", "", peer.lacking())?;
            }
        }
        for not in &report.not_run {
            writeln!(f, "not run: {}, {}: {}", not.server, not.workload, not.why)?;
        }
        writeln!(f, "\nclaims (docs/claims.md): the scheme of the texts, and the library")?;
        report.claims.iter().try_for_each(|claim| writeln!(f, "{}", ClaimLine(claim)))?;
        writeln!(f, "\nbars (bench/REPORT.md): what the library has to reach")?;
        report.bars.iter().try_for_each(|bar| writeln!(f, "{}", BarLine(bar)))
    }
}

/// One line on a bar: `met recovery, redis: -96.2 <= 100 (milliseconds after the ttl, …)`
struct BarLine<'a>(&'a BarReport);

impl Display for BarLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BarLine(BarReport { id, server, verdict, figure, bound, because, .. }) = self;
        write!(f, "{verdict:<12} {id}")?;
        server.iter().try_for_each(|server| write!(f, ", {server}"))?;
        match (figure, bound) {
            (Some(figure), Some(bound)) => write!(f, ": {figure:.2} {bound} ({because})"),
            _ => write!(f, ": {because}"),
        }
    }
}

/// One line on a claim: `T1 There is no expiry … | naive: holds (…) | ours: does-not-hold (…)`
struct ClaimLine<'a>(&'a ClaimReport);

impl Display for ClaimLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClaimLine(ClaimReport { id, text, scheme, naive, ours }) = self;
        write!(f, "{id} {scheme}: {text} | naive: {} ({})", naive.verdict, naive.because)?;
        write!(f, " | ours: {} ({})", ours.verdict, ours.because)
    }
}

/// `own-names tasks=8`
fn case(row: &Row) -> String {
    let parameters = row.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
    row.workload.clone() + &parameters.collect::<String>()
}

fn spread(row: &Row) -> String {
    let of_rates = row.spread.and_then(|spread| spread.per_s);
    of_rates.map_or_else(|| "-".to_owned(), |(least, greatest)| format!("{least:.2}..{greatest:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_figure_or_the_reason() {
        let met = BarReport {
            id: "recovery".to_owned(),
            text: String::new(),
            server: Some("redis".to_owned()),
            verdict: "met".to_owned(),
            figure: Some(-96.25),
            bound: Some("<= 100".to_owned()),
            because: "milliseconds".to_owned(),
        };
        assert_eq!(BarLine(&met).to_string(), "met          recovery, redis: -96.25 <= 100 (milliseconds)");
        let open = BarReport {
            server: None,
            verdict: "not-measured".to_owned(),
            figure: None,
            bound: None,
            because: "interrupted".to_owned(),
            ..met
        };
        assert_eq!(BarLine(&open).to_string(), "not-measured recovery: interrupted");
    }
}
