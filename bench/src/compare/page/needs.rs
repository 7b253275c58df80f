//! "Which should I take?": what a reader may need, and which servers meet it.

use super::backends::{Reach, character};
use super::html::{Html, element, paragraph, section, void};
use super::table::{Cell, Column, Layout, Row, Table};
use crate::backend::Backend;
use crate::compare::figures::{figure, micros, number, ours};
use crate::compare::report::{Promises, Report, ServerReport};
use crate::compare::workload::Case;

/// Something that a server gives or doesn't give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Machine,
    Network,
    MemberLoss,
    Order,
    Push,
    Disk,
    NoClock,
}

impl Need {
    const ALL: [Need; 7] =
        [Need::Machine, Need::Network, Need::MemberLoss, Need::Order, Need::Push, Need::Disk, Need::NoClock];

    /// The needs that can be asked for together.
    const OPTIONS: [Need; 5] = [Need::MemberLoss, Need::Order, Need::Push, Need::Disk, Need::NoClock];

    /// Its name in the page's script.
    fn token(self) -> &'static str {
        match self {
            Need::Machine => "machine",
            Need::Network => "network",
            Need::MemberLoss => "member-loss",
            Need::Order => "order",
            Need::Push => "push",
            Need::Disk => "disk",
            Need::NoClock => "no-clock",
        }
    }

    /// The heading of its column.
    fn head(self) -> &'static str {
        match self {
            Need::Machine => "several processes",
            Need::Network => "several machines",
            Need::MemberLoss => "goes on when a member fails",
            Need::Order => "processes in order",
            Need::Push => "releases are pushed",
            Need::Disk => "on the disk first",
            Need::NoClock => "token without clocks",
        }
    }

    /// As an option of the question.
    fn wish(self) -> &'static str {
        match self {
            Need::Machine => "Processes of one machine",
            Need::Network => "Processes of several machines",
            Need::MemberLoss => "Locks go on when one of several servers fails",
            Need::Order => "Processes are served in the order in which they came",
            Need::Push => "The server tells a waiter of a release, so that a wait is short",
            Need::Disk => "A grant is on the disk before it counts",
            Need::NoClock => "The fencing token depends on no clock that can be set",
        }
    }

    /// Returns whether a server meets it; `None` if that is not known.
    fn is_met(self, server: &ServerReport, promises: &Promises, reach: Reach) -> Option<bool> {
        let fencing = promises.fencing.kind.as_str();
        Some(match self {
            Need::Machine => reach != Reach::Process,
            Need::Network => reach == Reach::Network,
            Need::MemberLoss => {
                matches!(fencing, "while-a-majority-keeps-its-data" | "until-a-majority-loses-its-data")
            }
            Need::Order => promises.fair == "per process",
            Need::Push => promises.wakes == "pushed",
            Need::Disk => return server.durable,
            Need::NoClock => matches!(fencing, "always" | "until-a-majority-loses-its-data"),
        })
    }
}

/// Returns the section with the questions and the table that answers them.
pub(super) fn needs(report: &Report) -> Html {
    let says = "The best server is often one that you run already. The table says what each measured server gives; \
                its answers come from what the library says of that server. It says nothing of servers that were not \
                measured.";
    let result = element(
        "div",
        &[("id", "answer"), ("role", "status"), ("aria-live", "polite"), ("hidden", "")],
        Html::default(),
    );
    let content = paragraph(says).then(questions(report)).then(result).then(table(report).html());
    section("choose", "Which should I take?", content)
}

/// Returns the questions, hidden until the page's script can answer them.
fn questions(report: &Report) -> Html {
    let whom = [("", "Tasks of one process"), choice(Need::Machine), choice(Need::Network)];
    let whom = whom.into_iter().enumerate().map(|(at, (value, label))| radio("reach", value, label, at == 2));
    let wishes = Need::OPTIONS.into_iter().map(|need| checkbox("need", need.token(), need.wish()));
    let mut backends: Vec<&str> = measured(report).map(|server| server.backend.as_str()).collect();
    backends.sort_unstable();
    backends.dedup();
    let backends = backends.into_iter().map(|backend| checkbox("run", backend, backend));
    let counts = [
        ("cycle", "One lock at a time: the time of a cycle"),
        ("rate", "Many locks at the same time: cycles a second"),
        ("hand-over", "A lock that others wait for: the time of a hand-over"),
    ];
    let counts = counts.into_iter().enumerate();
    let counts = counts.map(|(at, (value, label))| radio("sort", value, label, at == 0));
    let content = question("Whom does a lock exclude?", whom.collect())
        .then(question("What do you need?", wishes.collect()))
        .then(question("Which of these do you run already? (None: any of them)", backends.collect()))
        .then(question("What should be fast?", counts.collect()));
    element("form", &[("id", "questions"), ("aria-labelledby", "choose-heading"), ("hidden", "")], content)
}

fn choice(need: Need) -> (&'static str, &'static str) {
    (need.token(), need.wish())
}

fn question(legend: &str, options: Html) -> Html {
    element("fieldset", &[], element("legend", &[], legend).then(options))
}

fn checkbox(name: &str, value: &str, label: &str) -> Html {
    let input = void("input", &[("type", "checkbox"), ("name", name), ("value", value)]);
    element("label", &[], input.then(" ").then(label))
}

/// Returns an option of which one is chosen at a time.
fn radio(name: &str, value: &str, label: &str, chosen: bool) -> Html {
    let mut attributes = vec![("type", "radio"), ("name", name), ("value", value)];
    attributes.extend(chosen.then_some(("checked", "")));
    element("label", &[], void("input", &attributes).then(" ").then(label))
}

fn measured(report: &Report) -> impl Iterator<Item = &ServerReport> {
    report.servers.iter().filter(|server| server.info.is_some())
}

fn table(report: &Report) -> Table {
    let mut columns = vec![Column::text("server")];
    columns.extend(Need::ALL.map(|need| Column::text(need.head())));
    columns.extend(["cycle, p50", "cycles/s, 64 names", "hand-over, p50"].map(Column::number));
    let rows = report.servers.iter().filter_map(|server| row(report, server)).collect();
    let caption = "What each measured server gives".to_owned();
    Table { id: "needs", caption, layout: Layout::Scroll, columns, rows }
}

fn row(report: &Report, server: &ServerReport) -> Option<Row> {
    let (promises, backend) = (server.info.as_ref()?, Backend::named(&server.backend)?);
    let reach = character(backend).reach;
    let met = Need::ALL.map(|need| (need, need.is_met(server, promises, reach)));
    let [cycle, rate, hand_over] = [
        figure(ours(report, server, Case::OwnNames { tasks: 1 }), |row| row.p50_us),
        figure(ours(report, server, Case::OwnNames { tasks: 64 }), |row| Some(row.per_s)),
        figure(ours(report, server, Case::HandOver), |row| row.p50_us),
    ];
    let mut cells = vec![Cell::of(server.name.as_str())];
    cells.extend(met.iter().map(|(_, met)| Cell::of(answer(*met))));
    cells.extend([measure(&cycle, micros), measure(&rate, number), measure(&hand_over, micros)]);
    let tokens = met.iter().filter(|(_, met)| *met == Some(true)).map(|(need, _)| need.token());
    let mut attributes = vec![
        ("data-server", server.name.clone()),
        ("data-backend", server.backend.clone()),
        ("data-meets", tokens.collect::<Vec<_>>().join(" ")),
    ];
    let figures = [("data-cycle", cycle), ("data-rate", rate), ("data-hand-over", hand_over)];
    attributes
        .extend(figures.into_iter().filter_map(|(name, figure)| Some((name, figure.ok()?.to_string()))));
    Some(Row { cells, attributes })
}

fn answer(met: Option<bool>) -> Html {
    match met {
        Some(true) => element("span", &[("class", "yes")], "yes"),
        Some(false) => element("span", &[("class", "no")], "no"),
        None => "not known".into(),
    }
}

/// Returns a cell with a figure, or a link to the section that says why there is none.
pub(super) fn measure(figure: &Result<f64, String>, write: fn(f64) -> String) -> Cell {
    match figure {
        Ok(figure) => Cell::number(write(*figure), Some(*figure)),
        Err(why) => {
            let attributes = [("class", "missing"), ("href", "#not-run"), ("title", why.as_str())];
            Cell::of(element("a", &attributes, "not measured"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page::sample;

    fn meets(name: &str) -> Vec<Need> {
        let report = sample();
        let server = report.servers.iter().find(|server| server.name == name).unwrap();
        let promises = server.info.as_ref().unwrap();
        let reach = character(Backend::named(&server.backend).unwrap()).reach;
        Need::ALL.into_iter().filter(|need| need.is_met(server, promises, reach) == Some(true)).collect()
    }

    #[test]
    fn needs_are_met_by_what_info_promises() {
        assert_eq!(meets("redis"), [Need::Machine, Need::Network, Need::Push]);
        assert_eq!(meets("sqlite"), [Need::Machine, Need::Disk]);
        let etcd = meets("etcd");
        assert!([Need::MemberLoss, Need::Order, Need::NoClock].iter().all(|need| etcd.contains(need)));
    }

    #[test]
    fn the_table_has_no_row_of_a_server_that_was_not_measured() {
        let html = needs(&sample());
        assert!(!html.as_str().contains(r#"data-server="zookeeper""#), "{html:?}");
        assert!(html.as_str().contains(r#"data-meets="machine network push""#), "{html:?}");
    }
}
