//! The comparison as a document in Markdown.

use std::fmt::{self, Display, Formatter};

use lock_core::toolkit::HumanDuration;

use super::comparison::{Backend, Both, Comparison, Judged, judged};
use super::file::Measured;
use crate::report::{Row, number, rate, short};

/// Returns the document.
pub(super) fn document(comparison: &Comparison<'_>) -> String {
    let mut text = Text::default();
    text.line("# Before and after\n");
    text.runs(comparison.runs);
    text.verdicts(comparison);
    for backend in &comparison.backends {
        text.backend(backend);
    }
    text.not_run(comparison.runs);
    text.0
}

/// What is written so far.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: impl Display) {
        self.0.push_str(&format!("{line}\n"));
    }

    /// Describes both runs, and says if they can't be compared.
    fn runs(&mut self, runs: Both<&Measured>) {
        self.line("| | before | after |\n|---|---|---|");
        let run = |of: fn(&Measured) -> String| runs.map(|run| Some(of(run)));
        for (name, Both { before, after }) in [
            ("began", run(|run| run.run.began.clone())),
            ("revision", run(|run| run.run.revision.clone().unwrap_or_else(dash))),
            ("machine", run(machine)),
            ("load before", run(|run| number(run.run.machine.load, 2))),
            ("built", run(|run| format!("{}, {}", run.run.machine.fixed.build, run.run.machine.fixed.rustc))),
            ("a workload", run(|run| format!("{} s", run.run.seconds))),
            ("all", run(length)),
        ] {
            self.line(format_args!(
                "| {name} | {} | {} |",
                before.unwrap_or_else(dash),
                after.unwrap_or_else(dash)
            ));
        }
        let conditions = runs.map(|run| Some((&run.run.machine.fixed, run.run.seconds)));
        if conditions.before != conditions.after {
            self.line("\n**The machines, or what was built on them, or the times differ: compare the ratios alone.**");
        }
    }

    /// Says how many bounds are reached, and which are not.
    fn verdicts(&mut self, comparison: &Comparison<'_>) {
        let rows =
            comparison.backends.iter().flat_map(|backend| backend.rows.iter().map(move |row| (backend, row)));
        let all: Vec<_> = rows
            .flat_map(|(backend, row)| judged(*row).into_iter().map(move |one| (backend, *row, one)))
            .collect();
        let count = |reached: fn(&Judged) -> Option<bool>| {
            let judged = all.iter().filter_map(|(.., one)| reached(one));
            let (total, reached) = (judged.clone().count(), judged.filter(|reached| *reached).count());
            format!("{reached} of {total}")
        };
        let (before, after) = (count(|one| one.reached.before), count(|one| one.reached.after));
        self.line(format_args!("\nBounds that are reached: {before} before, {after} after."));
        let missed = all.iter().filter(|(.., one)| one.reached.after == Some(false));
        for (nth, (backend, row, one)) in missed.enumerate() {
            if nth == 0 {
                self.line("\nMissed after the change:\n");
            }
            self.line(format_args!("- {}, {}: {}", backend.name, case(*row), bound(one)));
        }
    }

    fn backend(&mut self, backend: &Backend<'_>) {
        self.line(format_args!("\n## {}\n", backend.name));
        let product = backend.server.map(|server| server.product.clone());
        if product.before.is_some() || product.after.is_some() {
            let Both { before, after } = product;
            self.line(format_args!("{}\n", change(before.unwrap_or_else(dash), after.unwrap_or_else(dash))));
        }
        let heads = ["workload", "per s", "p50 us", "p99 us", "ratio", "p99 ratio", "token price"];
        self.line(format_args!("| {} | further figures | to reach |", heads.join(" | ")));
        self.line(format_args!("|---|{}---|---|", "---:|".repeat(heads.len() - 1)));
        for row in &backend.rows {
            self.line(Cells(*row));
        }
    }

    fn not_run(&mut self, runs: Both<&Measured>) {
        let not_run = runs.after.map_or(&[][..], |run| &run.not_run);
        for (nth, not) in not_run.iter().enumerate() {
            if nth == 0 {
                self.line("\n## Not measured after the change\n");
            }
            let what = not.workload.as_ref().map_or_else(String::new, |workload| format!(", {workload}"));
            let failed = if not.failed { "failed: " } else { "" };
            self.line(format_args!("- {}{what}: {failed}{}", not.backend, not.why));
        }
    }
}

fn machine(run: &Measured) -> String {
    let fixed = &run.run.machine.fixed;
    let cpu = fixed.cpu.as_deref().unwrap_or(&fixed.arch);
    let kernel = fixed.kernel.as_deref().unwrap_or_default();
    format!("{cpu}, {} threads, {} {kernel}", fixed.cpus, fixed.os).trim_end().to_owned()
}

fn length(run: &Measured) -> String {
    let seconds = |took: f64| HumanDuration(std::time::Duration::from_secs(took as u64)).to_string();
    run.end.as_ref().map_or_else(|| "interrupted".to_owned(), |end| seconds(end.took_s))
}

/// One line of a backend's table.
struct Cells<'a>(Both<&'a Row>);

impl Display for Cells<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Cells(rows) = *self;
        let cell = |of: fn(&Row) -> String| changed(rows.map(|row| Some(of(row))));
        let cells = [
            case(rows),
            cell(|row| rate(row.per_s)),
            cell(|row| number(row.p50_us, 1)),
            cell(|row| number(row.p99_us, 1)),
            cell(|row| number(row.ratio, 2)),
            cell(|row| number(row.p99_ratio, 2)),
            cell(|row| number(row.token_price, 2)),
            further(rows),
            judged(rows).iter().map(verdict).collect::<Vec<_>>().join("; "),
        ];
        write!(f, "| {} |", cells.join(" | "))
    }
}

/// Returns the workload with its parameters, and the subject if it is not simply the library.
fn case(rows: Both<&Row>) -> String {
    let Some(row) = rows.latest() else { return String::new() };
    match &*row.subject {
        "ours" => row.case(),
        other => format!("{}, {other}", row.case()),
    }
}

/// Returns the errors, if there are any, and the further figures.
fn further(rows: Both<&Row>) -> String {
    let failed = rows.map(|row| (row.errors > 0).then_some(())).latest();
    let errors =
        failed.map(|()| format!("**errors** {}", changed(rows.map(|row| Some(row.errors.to_string())))));
    let names = rows.latest().into_iter().flat_map(|row| row.figures.keys());
    let figure = |name: &String| {
        let values = rows.map(|row| Some(number_of(row, name)));
        format!("{} {}", name.replace('_', " "), changed(values))
    };
    errors.into_iter().chain(names.map(figure)).collect::<Vec<_>>().join("; ")
}

fn number_of(row: &Row, name: &str) -> String {
    row.figures.get(name).map_or_else(dash, |figure| short(*figure))
}

/// Returns the bound with its verdicts: `p99 ratio <= 1.5: missed → reached`.
fn verdict(judged: &Judged) -> String {
    let word = |reached: bool| Some(if reached { "reached" } else { "**missed**" }.to_owned());
    format!("{}: {}", bound(judged), changed(judged.reached.map(word)))
}

fn bound(judged: &Judged) -> String {
    format!("{} {}", judged.figure.replace('_', " "), judged.bound)
}

fn changed(values: Both<String>) -> String {
    let Both { before, after } = values;
    change(before.unwrap_or_else(dash), after.unwrap_or_else(dash))
}

/// Returns both values, or one if they are the same.
fn change(before: String, after: String) -> String {
    if before == after { after } else { format!("{before} → {after}") }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::file::tests::text;
    use super::*;
    use crate::quick::lines::{End, Line, NotRun, Server};
    use crate::targets::{Bound, Verdict};

    fn file(per_s: f64, bytes: f64, reached: bool) -> Measured {
        let server = Server {
            backend: "redis".to_owned(),
            product: Some("redis 7.0".to_owned()),
            address: String::new(),
            durable: Some(false),
        };
        let verdict = Verdict { figure: "p99_ratio".to_owned(), bound: Bound::AtMost(1.5), reached };
        let row = Row {
            backend: "redis".to_owned(),
            workload: "held".to_owned(),
            parameters: BTreeMap::from([("locks".to_owned(), 100)]),
            subject: "ours".to_owned(),
            per_s,
            figures: BTreeMap::from([("bytes_per_lock".to_owned(), bytes)]),
            ..Row::default()
        };
        let not_run = NotRun {
            backend: "redis".to_owned(),
            workload: Some("delay".to_owned()),
            why: "releases are pushed".to_owned(),
            failed: false,
        };
        Measured::parse(&text(&[
            Line::Server { server },
            Line::Row(Box::new(row.judged(vec![verdict]))),
            Line::NotRun { not_run },
            Line::End { end: End { took_s: 61.5, failed: 0 } },
        ]))
        .unwrap()
    }

    #[test]
    fn a_line_has_both_figures_and_both_verdicts() {
        let (before, after) = (file(90.0, 3_100.0, false), file(812.4, 2_100.0, true));
        let document = document(&Comparison::of(&before, &after));
        let line = "| held locks=100 | 90.0 → 812 | - | - | - | - | - | bytes per lock 3100 → 2100 | p99 ratio <= 1.5: \
                    **missed** → reached |";
        assert!(document.contains(line), "{document}");
        assert!(document.contains("0 of 1 before, 1 of 1 after"), "{document}");
        assert!(document.contains("\n## redis\n\nredis 7.0\n"), "{document}");
        assert!(document.contains("- redis, delay: releases are pushed"), "{document}");
        assert!(
            document.contains("| all | 61 s | 61 s |") && !document.contains("Missed after"),
            "{document}"
        );
    }

    #[test]
    fn what_is_missed_is_listed_and_what_is_in_one_run_is_shown() {
        let mut after = file(90.0, 3_100.0, false);
        after.rows[0].errors = 3;
        let before = Measured::parse(&text(&[])).unwrap();
        let document = document(&Comparison::of(&before, &after));
        assert!(document.contains("\n- redis, held locks=100: p99 ratio <= 1.5\n"), "{document}");
        assert!(document.contains("| - → 90.0 |"), "{document}");
        assert!(document.contains("| **errors** - → 3; bytes per lock"), "{document}");
        assert!(document.contains("p99 ratio <= 1.5: - → **missed** |"), "{document}");
        assert!(document.contains("| all | interrupted | 61 s |"), "{document}");
    }

    #[test]
    fn runs_on_different_machines_are_not_compared_in_silence() {
        let (before, mut after) = (file(1.0, 1.0, true), file(1.0, 1.0, true));
        let differs = |after: &Measured| document(&Comparison::of(&before, after)).contains("differ");
        assert!(!differs(&after));
        after.run.machine.fixed.cpus += 1;
        assert!(differs(&after));
    }
}
