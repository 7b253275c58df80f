//! The report as a page for a browser: one file, which loads nothing and works without its script.

mod backends;
mod bars;
mod claims;
mod decision;
mod distribution;
mod dots;
mod figures_table;
mod html;
mod method;
mod needs;
mod peers;
mod plots;
mod svg;
mod table;
mod timeline;

use std::fs;
use std::path::{Path, PathBuf};

use self::html::{Html, element, paragraph};
use super::report::Report;
use crate::Outcome;

/// The file's name in the folder of a run.
const FILE: &str = "report.html";

/// Writes `report.html` into the folder, and returns its path. A reader never sees half of it.
pub(super) fn write(report: &Report, folder: &Path) -> Outcome<PathBuf> {
    let (unfinished, file) = (folder.join("report.html.new"), folder.join(FILE));
    fs::write(&unfinished, page(report))?;
    fs::rename(unfinished, &file)?;
    Ok(file)
}

pub(super) fn page(report: &Report) -> String {
    let sections = [
        needs::needs(report),
        decision::decision(report),
        timeline::timeline(),
        plots::plots(report),
        peers::peers(report),
        bars::bars(report),
        claims::claims(report),
        method::method(report),
        method::machine(report),
        figures_table::all_figures(report),
        figures_table::not_run(report),
    ];
    let main = summary(report).then(sections.into_iter().collect::<Html>());
    let parts = [
        ("style", include_str!("style.css")),
        ("main", main.as_str()),
        ("script", include_str!("script.js")),
    ];
    fill(include_str!("template.html"), &parts)
}

/// Returns when it was measured, how much of it, and on what.
fn summary(report: &Report) -> Html {
    let machine = &report.machine.fixed;
    let processor = machine.cpu.as_deref().unwrap_or(&machine.arch);
    let until = report.ended.as_ref().map_or_else(String::new, |ended| format!(" to {ended}"));
    let kind = if report.options.quick { "A quick run" } else { "A thorough run" };
    let measured = report.servers.iter().filter(|server| server.info.is_some()).count();
    let says = format!(
        "{kind} of {measured} of {} servers, {}{until}, on {processor} with {} threads, {} {}.",
        report.options.on.len(),
        report.began,
        machine.cpus,
        machine.os,
        machine.kernel.as_deref().unwrap_or(""),
    );
    let incomplete = "This run is not complete: the last section says what is missing.";
    let warning = (!report.complete).then(|| element("p", &[("class", "warning")], incomplete));
    paragraph(says).then(warning.into_iter().collect::<Html>())
}

/// Puts parts into the places `{{name}}` of a template. A part may have braces of its own.
fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    for piece in template.split("{{") {
        let Some((name, rest)) = piece.split_once("}}") else {
            filled.push_str(piece);
            continue;
        };
        filled.extend(parts.iter().filter(|(part, _)| *part == name).map(|(_, text)| *text));
        filled.push_str(rest);
    }
    filled
}

/// A report with figures that were made up, which the tests of this crate share.
#[cfg(test)]
pub(super) fn sample() -> Report {
    serde_json::from_str(include_str!("../../../tests/page/report.json")).unwrap()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the values of an attribute, in their order.
    fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
        let begin = format!(r#" {attribute}=""#);
        page.split(&begin).skip(1).filter_map(|rest| rest.split_once('"')).map(|(value, _)| value).collect()
    }

    #[test]
    fn a_template_is_filled_once() {
        assert_eq!(fill("<{{a}}{{b}}>", &[("a", "{{b}}"), ("b", "1")]), "<{{b}}1>");
    }

    #[test]
    fn a_page_loads_nothing() {
        let page = page(&sample());
        for loads in ["http://", "https://", "<img", "<iframe", "@import", "url(", " src="] {
            let found = page.split_once(loads).map(|(_, rest)| rest.chars().take(60).collect::<String>());
            assert!(found.is_none(), "{loads}{found:?}");
        }
        // The empty icon keeps a browser from asking for one.
        let is_inside = |to: &&str| to.starts_with('#') || *to == "data:,";
        assert!(values(&page, "href").iter().all(is_inside));
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn ids_are_unique_and_every_reference_has_its_target() {
        let page = page(&sample());
        let ids = values(&page, "id");
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        let labels = values(&page, "aria-labelledby").into_iter().flat_map(|ids| ids.split(' '));
        let links = values(&page, "href").into_iter().filter_map(|to| to.strip_prefix('#'));
        for target in labels.chain(links) {
            assert!(unique.contains(target), "{target}");
        }
    }

    #[test]
    fn every_table_has_a_caption_and_every_picture_a_title_and_a_description() {
        let page = page(&sample());
        assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
        let pictures = page.matches(r#"role="img" "#).count();
        assert!(pictures >= 8, "{pictures}");
        assert_eq!((page.matches("<title id").count(), page.matches("<desc").count()), (pictures, pictures));
    }

    #[test]
    fn a_report_without_any_figure_gives_a_page() {
        let mut report = sample();
        for row in &mut report.rows {
            (row.p50_us, row.p90_us, row.p99_us, row.max_us) = (None, None, None, None);
            (row.ratios, row.spread) = (None, None);
            row.extra.clear();
            row.histogram.clear();
        }
        assert!(page(&report).contains("not measured: no cycle of it ended"));
        (report.rows, report.ended, report.complete) = (Vec::new(), None, false);
        let machine = &mut report.machine;
        (machine.load, machine.fixed.cpu, machine.fixed.memory_bytes) = (None, None, None);
        let without_rows = page(&report);
        assert!(without_rows.contains("Not measured in this run.") && !without_rows.contains("NaN"));
        assert!(without_rows.contains("This run is not complete"));
        report.servers.clear();
        assert!(page(&report).contains("</html>"));
    }

    #[test]
    fn what_a_report_says_can_break_no_page() {
        let mut report = sample();
        let hostile = r#"</script><script>alert("x")</script>"#;
        report.servers[0].name = hostile.to_owned();
        report.rows[0].server = hostile.to_owned();
        report.rows[0].first_error = Some(hostile.to_owned());
        report.not_run[0].why = hostile.to_owned();
        let page = page(&report);
        assert!(!page.contains(hostile));
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn a_page_is_written_beside_its_report() {
        let folder = tempfile::tempdir().unwrap();
        let file = write(&sample(), folder.path()).unwrap();
        assert_eq!(file, folder.path().join("report.html"));
        assert_eq!(fs::read_to_string(file).unwrap(), page(&sample()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
