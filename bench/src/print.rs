//! The printed output of a run: rows while they are measured, the verdicts at the end, tables in Markdown, and figures for people.

use std::fmt::Write;
use std::path::Path;

use crate::Outcome;
use crate::args::Diff;
use crate::case::Case;
use crate::goals::{Goal, Verdict};
use crate::report::{Claim, NotRun, Report};
use crate::row::Row;
use crate::subjects::Kind;

pub(crate) fn head() {
    println!(
        "{:<18} {:<38} {:<16} {:>9} {:>8} {:>8} {:>8} {:>6}  times the baseline's rate, p50, p99",
        "server", "case", "subject", "per s", "p50", "p99", "longest", "errors"
    );
}

pub(crate) fn row(row: &Row) {
    let ratios = row.ratios.as_ref().map_or_else(String::new, |ratios| {
        let all = [ratios.per_s, ratios.p50, ratios.p99].map(|ratio| or_dash(ratio, times));
        let of =
            if ratios.of == Kind::Baseline.as_str() { String::new() } else { format!(" of {}", ratios.of) };
        all.join(" ") + &of
    });
    println!(
        "{:<18} {:<38} {:<16} {:>9} {:>8} {:>8} {:>8} {:>6}  {ratios}",
        row.server,
        row.case,
        row.subject,
        number(row.per_s),
        or_dash(row.p50_us, micros),
        or_dash(row.p99_us, micros),
        or_dash(row.max_us, micros),
        row.errors,
    );
    let mut further = further(row);
    further.extend((!row.lacks.is_empty()).then(|| format!("without {}", row.lacks.join(", "))));
    further.extend(row.first_error.as_ref().map(|error| format!("the first error: {error}")));
    if !further.is_empty() {
        println!("{:<18}   {}", "", further.join("; "));
    }
}

/// Returns the figures that only some rows have, with their names.
pub(crate) fn further(row: &Row) -> Vec<String> {
    row.extra.iter().map(|(name, figure)| format!("{} {}", name.replace('_', " "), number(*figure))).collect()
}

pub(crate) fn not_run(not: &NotRun) {
    let what =
        not.case.as_ref().map_or_else(|| not.server.clone(), |case| format!("{case} on {}", not.server));
    eprintln!("{what}: {}, because {}", if not.failed { "failed" } else { "not run" }, not.why);
}

/// Prints the verdicts on the goals and on the claims.
pub(crate) fn verdicts(report: &Report) {
    println!("\ngoals (bench/README.md): what the library has to reach");
    report.goals.iter().for_each(|goal| println!("{}", goal_line(goal)));
    println!("\nclaims (docs/claims.md): the scheme of the texts, and the library");
    let is_measured =
        |claim: &&Claim| [&claim.naive, &claim.ours].iter().any(|judged| judged.verdict != "not-measured");
    for claim in report.claims.iter().filter(is_measured) {
        let (naive, ours) = (&claim.naive, &claim.ours);
        println!("{} {}: {}", claim.id, claim.scheme, claim.text);
        println!("    the scheme: {} ({})", naive.verdict, naive.because);
        println!("    ours: {} ({})", ours.verdict, ours.because);
    }
}

/// `missed crowd, redis: 0.31 >= 0.5 (times …)`
pub(crate) fn goal_line(goal: &Goal) -> String {
    let Goal { id, server, verdict, figure, bound, says } = goal;
    let verdict = match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "missed",
        Verdict::NotMeasured => "not measured",
    };
    match figure.zip(bound.as_ref()) {
        Some((figure, bound)) => format!("{verdict:<12} {id}, {server}: {} {bound} ({says})", number(figure)),
        None => format!("{verdict:<12} {id}, {server}: {says}"),
    }
}

/// Prints the changes from one run to another.
pub(crate) fn diff(options: &Diff) -> Outcome<()> {
    print!("{}", changes(&Report::read(&options.before)?, &Report::read(&options.after)?));
    Ok(())
}

/// Returns the library's figures of both reports beside each other.
fn changes(before: &Report, after: &Report) -> String {
    let mut text = String::new();
    if before.machine.fixed != after.machine.fixed {
        text += "**The machines or the builds differ: only the ratios can be compared.**\n\n";
    }
    text += "| server | case | per s | p50 | p99 | rate / baseline's |\n|---|---|---|---|---|---|\n";
    for row in after.rows.iter().filter(|row| row.subject == Kind::Ours.as_str()) {
        let is_same =
            |old: &&Row| (&old.server, &old.case, &old.subject) == (&row.server, &row.case, &row.subject);
        let Some(old) = before.rows.iter().find(is_same) else { continue };
        let ratio = |row: &Row| row.ratios.as_ref()?.per_s;
        let cells = [
            change(Some(old.per_s), Some(row.per_s), number),
            change(old.p50_us, row.p50_us, micros),
            change(old.p99_us, row.p99_us, micros),
            change(ratio(old), ratio(row), times),
        ];
        line(&mut text, &[&[row.server.clone(), row.case.clone()][..], &cells].concat());
    }
    let is_new = |goal: &&Goal| {
        let same = before.goals.iter().find(|old| (&old.id, &old.server) == (&goal.id, &goal.server));
        same.is_some_and(|old| old.verdict != goal.verdict)
    };
    for goal in after.goals.iter().filter(is_new) {
        writeln!(text, "\n- {}", goal_line(goal)).expect("a String takes every text");
    }
    text
}

/// `140 µs → 150 µs (+7 %)`
fn change(before: Option<f64>, after: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    match before.zip(after) {
        Some((before, after)) if before != 0.0 => {
            let percent = (after / before - 1.0) * 100.0;
            format!("{} → {} ({percent:+.0} %)", shown(before), shown(after))
        }
        _ => "–".to_owned(),
    }
}

/// Returns the table of figures, one line for each server.
pub(crate) fn table(report: &Report) -> String {
    let mut table = "| server | one cycle, p50 | cycles a second, 64 names | hand-over, p50 | its holder is killed: a waiter has it |\n\
                     |---|---|---|---|---|\n"
        .to_owned();
    for (server, _) in report.measured() {
        line(&mut table, &[&[server.name.clone()][..], &figures(report, &server.name)].concat());
    }
    table
}

/// Returns the figures of a server for the table: a cycle, cycles with 64 names, a hand-over, and a recovery.
pub(crate) fn figures(report: &Report, server: &str) -> [String; 4] {
    let at = |case, figure: fn(&Row) -> Option<f64>, text: fn(f64) -> String| {
        or_dash(report.ours(server, case, figure), text)
    };
    [
        at(Case::OwnNames { tasks: 1 }, |row| row.p50_us, micros),
        at(Case::OwnNames { tasks: 64 }, |row| Some(row.per_s), number),
        at(Case::HandOver, |row| row.p50_us, micros),
        at(Case::Recovery, late, recovery),
    ]
}

/// Returns the milliseconds from the end of the ttl until a waiter had the lock.
fn late(row: &Row) -> Option<f64> {
    row.extra.get("recovery_over_ttl_ms").copied()
}

fn recovery(millis_after_ttl: f64) -> String {
    match millis_after_ttl > 0.0 {
        true => format!("{} after the ttl", micros(millis_after_ttl * 1e3)),
        false => "within the ttl".to_owned(),
    }
}

fn line(table: &mut String, cells: &[String]) {
    writeln!(table, "| {} |", cells.join(" | ")).expect("a String takes every text");
}

/// Says when it was measured, and on what.
pub(crate) fn measured(report: &Report) -> String {
    let machine = &report.machine.fixed;
    let day = report.began.split('T').next().unwrap_or_default();
    let on_disk = report.servers.iter().filter(|server| server.durable == Some(true));
    let on_disk: Vec<&str> = on_disk.map(|server| &*server.name).collect();
    format!(
        "Measured on {day}, in a {} run of version {}, on {} with {} threads, with the servers on the same machine.\n\
         These wrote to the disk before they acknowledged: {}.",
        if report.quick { "quick" } else { "thorough" },
        machine.version,
        machine.cpu.as_deref().unwrap_or(&machine.arch),
        machine.cpus,
        on_disk.join(", "),
    )
}

/// The lines of a page between which the table stands.
const BEGIN: &str = "<!-- figures of docs/compare: lock-bench page -->";
const END: &str = "<!-- end of the figures -->";

pub(crate) fn put_table(report: &Report, page: &Path) -> Outcome<()> {
    let text = std::fs::read_to_string(page)?;
    let text =
        with_table(&text, report).ok_or_else(|| format!("{} has no place for the table", page.display()))?;
    Ok(std::fs::write(page, text)?)
}

/// Returns the text with the report's table in its place; `None` if it has no such place.
fn with_table(text: &str, report: &Report) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n{}\n\n{END}{after}", table(report), measured(report)))
}

pub(crate) fn or_dash(figure: Option<f64>, shown: fn(f64) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), shown)
}

/// Writes a ratio: `0.87`.
pub(crate) fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// Writes a time with two digits: `84 µs`, `1.3 ms`.
pub(crate) fn micros(micros: f64) -> String {
    match micros.abs() {
        size if size < 995.0 => format!("{} µs", number(micros)),
        size if size < 995e3 => format!("{} ms", number(micros / 1e3)),
        _ => format!("{} s", number(micros / 1e6)),
    }
}

/// Writes a number with two digits: `74,000`, `84`, `1.3`, `0.95`.
pub(crate) fn number(number: f64) -> String {
    let rounded: f64 = format!("{:.1e}", number.abs()).parse().unwrap_or(0.0);
    if rounded == 0.0 {
        return "0".to_owned();
    }
    let decimals = usize::try_from(1 - rounded.log10().floor() as i32).unwrap_or(0);
    let text = format!("{rounded:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut shown = if number < 0.0 { "−".to_owned() } else { String::new() };
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn figures_have_two_digits() {
        let shown = [74_012.4, 999.0, 84.0, 9.96, 1.26, 0.953, 0.0123, 0.0, -3.21].map(number);
        assert_eq!(shown, ["74,000", "1,000", "84", "10", "1.3", "0.95", "0.012", "0", "−3.2"]);
        assert_eq!([84.0, 1_300.0, 999.0, 2_100_000.0].map(micros), ["84 µs", "1.3 ms", "1.0 ms", "2.1 s"]);
        assert_eq!([-41.2, 95.1].map(recovery), ["within the ttl", "95 ms after the ttl"]);
    }

    #[test]
    fn every_server_that_was_measured_has_a_line() {
        let (report, table) = (sample(), table(&sample()));
        assert_eq!(table.lines().count(), 2 + report.measured().count());
        let redis = table.lines().find(|line| line.starts_with("| redis |")).unwrap();
        assert!(redis.contains(" µs | ") && redis.ends_with("| within the ttl |"), "{redis}");
    }

    #[test]
    fn a_table_replaces_only_the_one_before_it() {
        let text = format!("above\n{BEGIN}\nstale\n{END}\nbelow\n");
        let once = with_table(&text, &sample()).unwrap();
        assert!(once.starts_with("above\n<!--") && once.ends_with("-->\nbelow\n") && !once.contains("stale"));
        assert_eq!((with_table(&once, &sample()), with_table("no place", &sample())), (Some(once), None));
    }

    #[test]
    fn runs_are_compared_by_the_librarys_figures_and_goals() {
        let mut before = sample();
        before.judge();
        let mut after = before.clone();
        let text = changes(&before, &after);
        assert!(
            text.contains("(+0 %)") && !text.contains("| baseline |") && !text.contains("differ"),
            "{text}"
        );
        let (case, missed) = (Case::OwnNames { tasks: 1 }.to_string(), Verdict::Missed);
        let is_it = |row: &&mut Row| row.server == "redis" && row.case == case && row.subject == "ours";
        after.rows.iter_mut().find(is_it).unwrap().per_s *= 1.5;
        after.machine.fixed.cpus += 1;
        after.goals.iter_mut().for_each(|goal| goal.verdict = missed);
        let text = changes(&before, &after);
        assert!(text.contains("(+50 %)") && text.contains("differ") && text.contains("- missed"), "{text}");
    }

    #[test]
    fn a_goal_has_its_figure_or_the_reason() {
        let goal = Goal {
            id: "crowd".to_owned(),
            server: "redis".to_owned(),
            verdict: Verdict::Missed,
            figure: Some(0.314),
            bound: Some(">= 0.5".to_owned()),
            says: "times".to_owned(),
        };
        assert_eq!(goal_line(&goal), "missed       crowd, redis: 0.31 >= 0.5 (times)");
        let open = Goal { figure: None, bound: None, verdict: Verdict::NotMeasured, ..goal };
        assert_eq!(goal_line(&open), "not measured crowd, redis: times");
    }

    #[test]
    fn the_readme_has_the_committed_figures() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        let report = Report::read(&root.join("docs/compare")).unwrap();
        assert!(
            with_table(&readme, &report).unwrap() == readme,
            "run lock-bench page docs/compare --readme README.md"
        );
    }
}
