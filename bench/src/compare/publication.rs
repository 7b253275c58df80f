//! A report as pages of this repository: `docs/compare/README.md`, and the table of figures in the README.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::figures::{extra, figure, micros, millis, number, ours};
use super::report::{Report, Row, ServerReport};
use super::workload::Case;
use crate::Outcome;

/// The lines of a page between which the table stands.
const BEGIN: &str = "<!-- figures of docs/compare: lock-bench publish -->";
const END: &str = "<!-- end of the figures -->";

const HEAD: &str = "\
| server | one cycle, p50 | cycles a second, 64 names | hand-over, p50 | a holder is killed: its lock is granted |
|---|---|---|---|---|
";

const PAGE: &str = "\
# The comparison, measured

A copy of one run of `lock-bench compare`, written by `lock-bench publish`. [report.html](report.html) is the page to
choose from: download it, and open it in a browser. [report.json](report.json) holds every figure
([its schema](../../bench/REPORT.md)).

";

const HOW_TO_READ: &str = "
A *cycle* acquires and releases a lock, both confirmed. In brackets: the rate over that of the *floor*, which is the
server's own driver sending the same commands in the same run. A *hand-over* is the time from before a release in one
process to the grant in another one, which waits. The last column counts from the kill; of a session's ttl, etcd and
ZooKeeper notice the end somewhat later.
[What is measured](../../bench/README.md#comparing-backends), and how.
";

const OWN: &str = "
## On your machine

```sh
cargo run --release -p lock-bench -- compare --quick
```

measures the servers that your machine has, in ten minutes. A round trip and a write to the disk decide most of these
figures, and both are yours.
";

/// Writes a report, its page for browsers, and its page in Markdown into the folder, and its table into `readme`.
pub(super) fn write(report: &Report, folder: &Path, readme: &Path) -> Outcome<()> {
    let text = fs::read_to_string(readme)?;
    let text = with_table(&text, report).ok_or_else(|| {
        format!("{} has no place for the table: a line {BEGIN}, and below it a line {END}", readme.display())
    })?;
    fs::create_dir_all(folder)?;
    report.write(folder)?;
    super::page::write(report, folder)?;
    fs::write(folder.join("README.md"), markdown(report))?;
    Ok(fs::write(readme, text)?)
}

/// Returns the page of a report.
fn markdown(report: &Report) -> String {
    let mut page = format!("{PAGE}{}\n\n{}{HOW_TO_READ}", measured(report), table(report));
    let claims = report.claims.iter().map(|claim| {
        format!("| {} | {} | {} | {} |\n", claim.id, claim.text, claim.naive.verdict, claim.ours.verdict)
    });
    let claims: String = claims.collect();
    if !claims.is_empty() {
        page += "\n## Claims\n\nWhat is claimed of schemes and servers, tried in this run: on the scheme that texts describe, and on \
                 this library.\nThe [list](../claims.md) says what each verdict needs.\n\n\
                 | | claim | the scheme | this library |\n|---|---|---|---|\n";
        page += &claims;
    }
    let absent: Vec<&ServerReport> =
        report.servers.iter().filter(|server| server.not_run.is_some()).collect();
    if !absent.is_empty() {
        page += "\n## Not run\n\n";
        page.extend(
            absent.into_iter().map(|server| {
                format!("- {}: {}\n", server.name, server.not_run.as_deref().unwrap_or_default())
            }),
        );
    }
    page + OWN
}

/// Returns the text with the report's table in its place; `None` if it has no such place.
fn with_table(text: &str, report: &Report) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n{}\n\n{END}{after}", table(report), measured(report)))
}

/// Says when it was measured, and on what.
fn measured(report: &Report) -> String {
    let machine = &report.machine.fixed;
    let day = report.began.split('T').next().unwrap_or_default();
    let run = if report.options.quick { "a quick run" } else { "a thorough run" };
    let on_disk: Vec<&str> = report
        .servers
        .iter()
        .filter(|server| server.durable == Some(true))
        .map(|server| &*server.name)
        .collect();
    format!(
        "Measured on {day}, in {run} of version {}, on {} with {} threads, with the servers on the same machine.\n\
         These wrote to the disk before they acknowledged: {}.",
        machine.version,
        machine.cpu.as_deref().unwrap_or(&machine.arch),
        machine.cpus,
        on_disk.join(", "),
    )
}

fn table(report: &Report) -> String {
    let mut table = HEAD.to_owned();
    for server in report.servers.iter().filter(|server| server.not_run.is_none()) {
        let at = |case| ours(report, server, case);
        let many = at(Case::OwnNames { tasks: 64 });
        let ratio = many.as_ref().ok().and_then(|row| ratio(row)).unwrap_or_default();
        let recovery = extra(at(Case::Recovery), "recovery_over_ttl_ms");
        writeln!(
            table,
            "| {} | {} | {}{ratio} | {} | {} |",
            server.name,
            shown(&figure(at(Case::OwnNames { tasks: 1 }), |row| row.p50_us), micros),
            shown(&figure(many, |row| Some(row.per_s)), number),
            shown(&figure(at(Case::HandOver), |row| row.p50_us), micros),
            shown(&recovery, |over| match over > 0.0 {
                true => format!("{} after its ttl", millis(over)),
                false => "within its ttl".to_owned(),
            }),
        )
        .expect("a String takes every text");
    }
    table
}

/// Returns the ratio of a row's rate to its floor's: ` (0.95)`.
fn ratio(row: &Row) -> Option<String> {
    let ratios = row.ratios.as_ref().filter(|ratios| ratios.of == "floor")?;
    ratios.per_s.map(|ratio| format!(" ({ratio:.2})"))
}

fn shown(figure: &Result<f64, String>, text: impl FnOnce(f64) -> String) -> String {
    figure.as_ref().map_or_else(|_| "–".to_owned(), |figure| text(*figure))
}

#[cfg(test)]
mod tests {
    use super::super::page::{page, sample};
    use super::*;

    fn root(path: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
    }

    #[test]
    fn every_server_that_was_measured_has_a_line() {
        let (report, table) = (sample(), table(&sample()));
        assert_eq!(table.lines().count(), 2 + report.servers.iter().filter(|s| s.not_run.is_none()).count());
        let redis = table.lines().find(|line| line.starts_with("| redis |")).unwrap();
        assert!(redis.contains(" µs | ") && redis.contains(" its ttl |"), "{redis}");
        assert!(!table.contains("zookeeper"));
        assert!(markdown(&report).contains("- zookeeper: there is no ZooKeeper on this machine"));
    }

    #[test]
    fn a_table_replaces_the_one_before_it_and_nothing_else() {
        let text = format!("above\n{BEGIN}\nstale\n{END}\nbelow\n");
        let once = with_table(&text, &sample()).unwrap();
        assert!(once.starts_with("above\n<!--") && once.ends_with("-->\nbelow\n") && !once.contains("stale"));
        assert_eq!(with_table(&once, &sample()).unwrap(), once);
        assert_eq!(with_table("no place", &sample()), None);
    }

    #[test]
    fn what_is_published_is_the_committed_report() {
        let folder = root("docs/compare");
        let report = Report::read(&folder).unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let again = "run lock-bench publish docs/compare";
        assert!(read(&folder.join("README.md")) == markdown(&report), "{again}");
        assert!(read(&folder.join("report.html")) == page(&report), "{again}");
        let readme = read(&root("README.md"));
        assert!(with_table(&readme, &report).unwrap() == readme, "{again}");
    }
}
