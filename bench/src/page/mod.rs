//! The report as a page for a browser: one file, which loads nothing and works without its script.

mod charts;

use std::fmt::{self, Display, Write as _};
use std::path::Path;

use self::charts::{Bar, Chart};
use crate::Outcome;
use crate::args;
use crate::backend::Backend;
use crate::case::Case;
use crate::goals::{self, Verdict};
use crate::print::{
    figures as figures_of, further, goal_line, measured, micros, number, or_dash, put_table, table, times,
};
use crate::report::{self, Promises, Report, Server};
use crate::row::Row;

pub(crate) const FILE: &str = "report.html";

/// Makes the pages of an earlier run from its report.
pub(crate) fn make(options: &args::Page) -> Outcome<()> {
    let mut report = Report::read(&options.folder)?;
    report.judge();
    report.write(&options.folder)?;
    write(&report, &options.folder)?;
    report::write(&options.folder, "README.md", &markdown(&report))?;
    match &options.readme {
        Some(readme) => put_table(&report, readme),
        None => Ok(()),
    }
}

pub(crate) fn write(report: &Report, folder: &Path) -> Outcome<()> {
    report::write(folder, FILE, &page(report)?)
}

/// Returns the page for those who read it beside the sources.
fn markdown(report: &Report) -> String {
    format!(
        "# The comparison, measured\n\nOne run of `lock-bench run`. [report.html](report.html) is the page to choose from: \
         download it, and open it\nin a browser. [report.json](report.json) holds every figure \
         ([what they are](../../bench/README.md)).\n\n{}\n\n{}\n\
         A *cycle* acquires and releases a lock, both confirmed. A *hand-over* is the time from before a release in one\n\
         process to the grant in another one, which waits. A round trip and a write to the disk decide most of these\n\
         figures, and both are yours: `cargo run --release -p lock-bench -- run --quick` measures your servers. This\n\
         run took {:.0} minutes.\n",
        measured(report),
        table(report),
        report.took_s / 60.0
    )
}

fn page(report: &Report) -> Outcome<String> {
    let sections = [
        choice(report),
        pictures(report)?,
        peers(report),
        reached(report),
        claims(report),
        figures(report),
        not_run(report),
        machine(report),
    ];
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"icon\" href=\"data:,\">\
         <title>Which server for locks?</title><style>{}</style></head>\n<body><main>\n{}</main>\
         <script>{}</script></body></html>\n",
        include_str!("style.css"),
        sections.concat(),
        include_str!("script.js")
    ))
}

/// A text in which HTML has no meaning.
struct Text<T>(T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        text.chars().try_for_each(|c| match c {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            '"' => f.write_str("&quot;"),
            other => f.write_char(other),
        })
    }
}

/// Returns a table. The first cell of a line is its head.
fn html_table(heads: &[&str], lines: impl IntoIterator<Item = Vec<String>>) -> String {
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", Text(head))).collect();
    let line = |cells: Vec<String>| {
        let cells = cells.iter().enumerate().map(|(at, cell)| match at {
            0 => format!("<th scope=\"row\">{}</th>", Text(cell)),
            _ => format!("<td>{}</td>", Text(cell)),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let lines: String = lines.into_iter().map(line).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{heads}</tr></thead>\n<tbody>{lines}</tbody></table></div>\n"
    )
}

fn folded(summary: impl Display, content: &str) -> String {
    format!("<details><summary>{}</summary>\n{content}</details>\n", Text(summary))
}

/// A reader may need these: the name in the script, and the text.
const NEEDS: [(&str, &str); 6] = [
    ("machine", "several processes"),
    ("network", "several machines"),
    ("order", "processes are served in order"),
    ("push", "a release wakes the waiter"),
    ("member", "goes on when a member fails"),
    ("clock", "the token needs no clock"),
];

fn meets(need: &str, server: &Server, promises: &Promises) -> bool {
    let fencing = promises.fencing.as_str();
    match need {
        "machine" => server.backend != Backend::Memory,
        "network" => !matches!(server.backend, Backend::Memory | Backend::Sqlite),
        "order" => promises.fair != "no",
        "push" => promises.wakes == "pushed",
        "member" => matches!(fencing, "while-a-majority-keeps-its-data" | "until-a-majority-loses-its-data"),
        _ => matches!(fencing, "always" | "until-a-majority-loses-its-data"),
    }
}

/// The answer to "which server?": those that write to the disk first apart from those that don't, the fastest first.
fn choice(report: &Report) -> String {
    let ask = |(name, text): &(&str, &str)| {
        let checked = if *name == "network" { " checked" } else { "" };
        format!("<label><input type=\"checkbox\" value=\"{name}\"{checked}> {text}</label>\n")
    };
    let asked: String = NEEDS.iter().map(ask).collect();
    let groups = [
        (Some(true), "A grant is on the disk before it counts"),
        (
            Some(false),
            "Nothing is on the disk before it counts: a crash of the server may free a lock that is held",
        ),
        (None, "Servers that were there: whether they write first is not known"),
    ];
    let groups: String = groups
        .iter()
        .filter_map(|(durable, text)| {
            let mut servers: Vec<_> =
                report.measured().filter(|(server, _)| server.durable == *durable).collect();
            let cycle =
                |server: &Server| report.ours(&server.name, Case::OwnNames { tasks: 1 }, |row| row.p50_us);
            servers.sort_by(|(one, _), (other, _)| {
                let [one, other] = [one, other].map(|server| cycle(server).unwrap_or(f64::INFINITY));
                one.total_cmp(&other)
            });
            let lines: String =
                servers.iter().map(|(server, promises)| candidate(report, server, promises)).collect();
            let head = format!("<tr class=\"group\"><th colspan=\"7\">{}</th></tr>\n", Text(text));
            (!servers.is_empty()).then(|| format!("<tbody>{head}{lines}</tbody>\n"))
        })
        .collect();
    format!(
        "<h1>Which server for locks?</h1>\n<p>The best one is often one that you run already. The fastest that give what \
         you need stand first, measured on one machine.</p>\n<form id=\"needs\" hidden>{asked}</form>\n\
         <p id=\"answer\" role=\"status\"></p>\n<div class=\"wide\"><table id=\"servers\"><thead><tr>\
         <th>server</th><th>one cycle, p50</th><th>cycles a second, 64 names</th><th>hand-over, p50</th>\
         <th>waiters</th><th>the token rises</th><th>its holder is killed: a waiter has it</th></tr></thead>\n\
         {groups}</table></div>\n<p class=\"note\">A cycle acquires and releases a lock, both confirmed. A hand-over is the \
         time from a release in one process to the grant in another one, which waits.</p>\n"
    )
}

fn candidate(report: &Report, server: &Server, promises: &Promises) -> String {
    let needs = NEEDS.iter().map(|(name, _)| *name).filter(|need| meets(need, server, promises));
    let needs = needs.collect::<Vec<_>>().join(" ");
    let waiters = match (promises.fair.as_str(), promises.wakes.as_str()) {
        ("no", "pushed") => "woken, in no order",
        ("no", _) => "poll",
        _ => "woken in order",
    };
    let token = match promises.fencing.as_str() {
        "always" => "always",
        "while-data-is-kept" => "while the data is kept",
        "while-a-majority-keeps-its-data" => "while a majority keeps its data",
        _ => "until a majority loses its data",
    };
    let [cycle, cycles, hand_over, recovery] = figures_of(report, &server.name);
    let cells = [cycle, cycles, hand_over, waiters.to_owned(), token.to_owned(), recovery];
    let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", Text(cell))).collect();
    format!("<tr data-needs=\"{needs}\"><th scope=\"row\">{}</th>{cells}</tr>\n", Text(&server.name))
}

fn pictures(report: &Report) -> Outcome<String> {
    let bars = |case: Case, value: fn(&Row) -> Option<f64>, end: fn(&Row) -> Option<f64>| -> Vec<Bar> {
        let bar = |(server, _): (&Server, _)| {
            let (value, end) =
                (report.ours(&server.name, case, value)?, report.ours(&server.name, case, end));
            Some(Bar { label: server.name.clone(), value, end, durable: server.durable })
        };
        report.measured().filter_map(bar).collect()
    };
    let charts = [
        Chart {
            title: "One cycle: p50, with a line to the p99",
            bars: bars(Case::OwnNames { tasks: 1 }, |row| row.p50_us, |row| row.p99_us),
            shown: micros,
        },
        Chart {
            title: "Hand-over between two processes: p50, with a line to the p99",
            bars: bars(Case::HandOver, |row| row.p50_us, |row| row.p99_us),
            shown: micros,
        },
        Chart {
            title: "Cycles a second, 64 tasks on 64 names",
            bars: bars(Case::OwnNames { tasks: 64 }, |row| Some(row.per_s), |_| None),
            shown: number,
        },
        Chart {
            title: "Hand-overs a second, 64 contenders in 8 processes",
            bars: bars(Case::OneName { contenders: 64, processes: 8 }, |row| Some(row.per_s), |_| None),
            shown: number,
        },
    ];
    let mut figures = String::new();
    for chart in charts.iter().filter(|chart| !chart.bars.is_empty()) {
        writeln!(figures, "<figure>{}</figure>", chart.svg()?)?;
    }
    Ok(format!(
        "<h2>Figures</h2>\n<p>Blue writes to the disk first, orange does not. Each mark of a scale is ten times the one \
         before it.</p>\n<div class=\"charts\">{figures}</div>\n"
    ))
}

/// Other libraries' locks, and what the library promises that they don't.
fn peers(report: &Report) -> String {
    let lines: Vec<_> = report
        .rows
        .iter()
        .filter(|row| !row.lacks.is_empty())
        .map(|row| {
            let time = or_dash(row.p50_us, micros);
            let ratio = or_dash(row.ratios.as_ref().and_then(|ratios| ratios.per_s), times);
            vec![row.subject.clone(), row.server.clone(), row.case.clone(), time, ratio, row.lacks.join(", ")]
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let heads = ["library", "server", "case", "p50", "rate / this library's", "without"];
    format!("<h2>Other libraries</h2>\n<p>A faster one does less.</p>\n{}", html_table(&heads, lines))
}

fn reached(report: &Report) -> String {
    let count = |verdict| report.goals.iter().filter(|goal| goal.verdict == verdict).count();
    let missed = report.goals.iter().filter(|goal| goal.verdict == Verdict::Missed);
    let missed: String = missed.map(|goal| format!("<li>{}</li>\n", Text(goal_line(goal)))).collect();
    let all: String =
        report.goals.iter().map(|goal| format!("<li>{}</li>\n", Text(goal_line(goal)))).collect();
    let texts =
        html_table(&["goal", "text"], goals::texts().map(|(id, text)| vec![id.to_owned(), text.to_owned()]));
    format!(
        "<h2>What it has to reach</h2>\n<p>Of its goals, {} were met, {} missed and {} not measured.</p>\n<ul>{missed}</ul>\n{}",
        count(Verdict::Met),
        count(Verdict::Missed),
        count(Verdict::NotMeasured),
        folded("Every goal", &format!("{texts}<ul>{all}</ul>\n"))
    )
}

fn claims(report: &Report) -> String {
    let holds = |verdict: &str| match verdict {
        "holds" => "true",
        "does-not-hold" => "not true",
        "holds-within-a-limit" => "in part",
        _ => "not measured",
    };
    let lines = report.claims.iter().map(|claim| {
        let [naive, ours] = [&claim.naive, &claim.ours]
            .map(|judged| format!("{}: {}", holds(&judged.verdict), judged.because));
        vec![claim.id.clone(), claim.scheme.clone(), claim.text.clone(), naive, ours]
    });
    let table =
        html_table(&["", "scheme", "what texts claim of it", "of the scheme", "of this library"], lines);
    format!(
        "<h2>What texts claim</h2>\n{}",
        folded("27 claims about well-known schemes, tried on both", &table)
    )
}

fn figures(report: &Report) -> String {
    let lines = report.rows.iter().map(|row| {
        let time = |time| or_dash(time, micros);
        let ratio =
            row.ratios.as_ref().and_then(|ratios| Some(format!("{:.2} of {}", ratios.per_s?, ratios.of)));
        let mut further = further(row);
        further.extend((row.errors > 0).then(|| format!("{} errors", row.errors)));
        let figures = [number(row.per_s), time(row.p50_us), time(row.p99_us), time(row.max_us)];
        let mut cells = vec![row.server.clone(), row.case.clone(), row.subject.clone()];
        cells.extend(figures);
        cells.extend([ratio.unwrap_or_default(), further.join(", ")]);
        cells
    });
    let heads = ["server", "case", "subject", "per s", "p50", "p99", "longest", "rate", "further"];
    folded(format!("Every figure: {} rows", report.rows.len()), &html_table(&heads, lines))
}

fn not_run(report: &Report) -> String {
    let lines = report.not_run.iter().map(|not| {
        let why = if not.failed { format!("failed: {}", not.why) } else { not.why.clone() };
        vec![not.server.clone(), not.case.clone().unwrap_or_default(), why]
    });
    folded("What was not measured, and why", &html_table(&["server", "case", "why"], lines))
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let servers = report.measured().map(|(server, promises)| {
        let product = server.product.clone().unwrap_or_default();
        vec![server.name.clone(), product, promises.clock.clone(), promises.data_loss.clone()]
    });
    let servers = html_table(&["server", "product", "clock", "if it loses data"], servers);
    let complete = if report.complete { "" } else { " The run is not complete." };
    let text = format!(
        "{}{complete} {} {}, {}, revision {}, a {} build.",
        measured(report),
        machine.fixed.os,
        machine.fixed.kernel.as_deref().unwrap_or_default(),
        machine.fixed.rustc,
        machine.revision.as_deref().unwrap_or("unknown"),
        machine.fixed.build
    );
    folded("The run, its machine and its servers", &format!("<p>{}</p>\n{servers}", Text(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn a_page_loads_nothing_and_escapes_texts() {
        let mut report = sample();
        report.servers[0].name = "<img>".to_owned();
        let page = page(&report).unwrap();
        for loads in ["https://", "<img", "<iframe", "@import", "url(", " src="] {
            assert!(!page.contains(loads), "{loads}");
        }
        assert!(page.contains("&lt;img&gt;") && page.matches("<svg").count() == 4);
    }

    #[test]
    fn those_that_write_first_are_ranked_apart() {
        let page = page(&sample()).unwrap();
        let at = |text: &str| page.find(text).unwrap();
        let line = |server: &str| at(&format!("<th scope=\"row\">{server}</th>"));
        assert!(
            at("A grant is on the disk") < line("sqlite") && line("sqlite") < at("Nothing is on the disk")
        );
        assert!(at("Nothing is on the disk") < line("memory") && line("memory") < line("redis"));
    }

    #[test]
    fn a_fair_form_meets_the_need_for_an_order() {
        let report = sample();
        let gives = |name: &str, need| {
            let (server, promises) = report.measured().find(|(server, _)| server.name == name).unwrap();
            meets(need, server, promises)
        };
        assert!(gives("redis fair=true", "order") && !gives("redis", "order") && gives("etcd", "order"));
        assert!(!gives("memory", "machine") && !gives("sqlite", "network") && gives("sqlite", "machine"));
        assert!(gives("etcd", "member") && gives("etcd", "clock") && !gives("redis", "clock"));
    }

    #[test]
    fn what_is_committed_is_of_the_committed_report() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compare");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let report = Report::read(&folder).unwrap();
        assert!(
            read(FILE) == page(&report).unwrap() && read("README.md") == markdown(&report),
            "run lock-bench page docs/compare"
        );
        assert!(read("report.json").len() <= 150_000);
    }
}
