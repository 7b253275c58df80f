//! A plot of how latencies are distributed: a band for each server, over one logarithmic axis of time.

use super::dots::{absent, grid, shortened, x};
use super::html::{Html, details, element};
use super::svg::{self, Axis, PathEnd, Point, WIDTH, at};
use super::table::{Cell, Column, Layout, Table};
use crate::compare::figures::{micros, of_subject, ours};
use crate::compare::report::{Report, Row, ServerReport};
use crate::compare::workload::Case;
use crate::subjects::Kind;

/// A plot of the latencies of one case.
pub(super) struct Distribution {
    /// No other plot of the page has it.
    pub(super) id: &'static str,
    pub(super) table_id: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) case: Case,
}

const HEAD: f64 = 34.0;
/// The height of a server's band, with the space above it.
const BAND: f64 = 58.0;
const SPACE: f64 = 14.0;
/// The upper bound of a bucket, divided by that of the bucket before it.
const GROWTH: f64 = 1.25;

/// Bounds are rounded, so neighbours may lie this far apart, in units of the picture.
const ROUNDING: f64 = 1.0;

/// A server's rows, or why there are none.
struct Band<'a> {
    server: &'a str,
    ours: Result<&'a Row, String>,
    floor: Option<&'a Row>,
}

impl Distribution {
    pub(super) fn html(&self, report: &Report) -> Html {
        let bands: Vec<Band<'_>> =
            report.servers.iter().map(|server| Band::of(report, server, self.case)).collect();
        let missing: Vec<&str> =
            bands.iter().filter(|band| band.ours.is_err()).map(|band| band.server).collect();
        let bounds =
            bands.iter().flat_map(Band::rows).flat_map(|row| &row.histogram).map(|(bound, _)| *bound);
        let drawn = match Axis::logarithmic(bounds.flat_map(|bound| [bound / GROWTH, bound])) {
            Some(axis) => legend().then(self.picture(&bands, axis)).then(absent(&missing)),
            None => element("p", &[("class", "missing")], "Not measured in this run."),
        };
        let says = element("p", &[], self.description);
        let table = details("The figures of this plot", self.table(&bands));
        let content = element("h3", &[], self.title).then(says).then(drawn).then(table);
        element("div", &[("class", "plot"), ("id", self.id)], content)
    }

    fn picture(&self, bands: &[Band<'_>], axis: Axis) -> Html {
        let drawn: Vec<(&Band<'_>, &Row)> =
            bands.iter().filter_map(|band| Some((band, *band.ours.as_ref().ok()?))).collect();
        let height = HEAD + BAND * drawn.len() as f64 + 4.0;
        let mut content = grid(axis, height, micros);
        for (above, (band, ours)) in drawn.into_iter().enumerate() {
            content = content.then(band.draw(ours, axis, HEAD + BAND * above as f64));
        }
        let bands: Vec<String> = bands.iter().map(Band::in_words).collect();
        let description = format!("{} {}", self.description, bands.join(" "));
        svg::picture(self.id, self.title, &description, height, content)
    }

    fn table(&self, bands: &[Band<'_>]) -> Html {
        let columns =
            ["p50", "p90", "p99", "max", "p50 of the floor", "p99 of the floor"].map(Column::number);
        let columns = [Column::text("server")].into_iter().chain(columns).collect();
        let cell = |figure: Option<f64>| match figure {
            Some(figure) => Cell::number(micros(figure), Some(figure)),
            None => Cell::of("not measured"),
        };
        let row = |band: &Band<'_>| {
            let floor = |figure: fn(&Row) -> Option<f64>| cell(band.floor.and_then(figure));
            let mut cells = vec![Cell::of(band.server)];
            match &band.ours {
                Ok(ours) => cells.extend([ours.p50_us, ours.p90_us, ours.p99_us, ours.max_us].map(cell)),
                Err(why) => cells.extend((0..4).map(|_| Cell::of(format!("not measured: {why}")))),
            }
            cells.extend([floor(|row| row.p50_us), floor(|row| row.p99_us)]);
            cells.into()
        };
        let (caption, rows) = (self.title.to_owned(), bands.iter().map(row).collect());
        Table { id: self.table_id, caption, layout: Layout::Scroll, columns, rows }.html()
    }
}

impl<'a> Band<'a> {
    fn of(report: &'a Report, server: &'a ServerReport, case: Case) -> Band<'a> {
        Band {
            server: &server.name,
            ours: ours(report, server, case),
            floor: of_subject(report, server, case, Kind::Floor.as_str()).ok(),
        }
    }

    fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.ours.iter().copied().chain(self.floor)
    }

    fn draw(&self, ours: &Row, axis: Axis, top: f64) -> Html {
        let bottom = top + BAND;
        let label = svg::text("label", at(4.0, top + 28.0), &shortened(self.server));
        let drawn = svg::line("between", at(0.0, bottom), at(WIDTH, bottom)).then(label);
        let (outline, room) = (|row: &Row| outline(&row.histogram, axis, bottom), at(4.0, top + 45.0));
        let mut drawn = drawn.then(svg::path("density", &outline(ours), PathEnd::Closed));
        if let Some(floor) = self.floor {
            drawn = drawn.then(svg::path("floor", &outline(floor), PathEnd::Open));
        }
        let (Some(p50), Some(p99)) = (ours.p50_us, ours.p99_us) else { return drawn };
        let written = format!("p50 {}, p99 {}", micros(p50), micros(p99));
        let percentile = |value| {
            svg::line("percentile", at(x(axis, value), top + SPACE - 4.0), at(x(axis, value), bottom))
        };
        drawn.then(svg::text("small", room, &written)).then(percentile(p50)).then(percentile(p99))
    }

    fn in_words(&self) -> String {
        match &self.ours {
            Ok(Row { p50_us: Some(p50), p99_us: Some(p99), .. }) => {
                format!("{}: p50 {}, p99 {}.", self.server, micros(*p50), micros(*p99))
            }
            _ => format!("{}: not measured.", self.server),
        }
    }
}

fn legend() -> Html {
    let name = |class, name: &str| element("li", &[("class", class)], name);
    let names = name("density-name", "the library, with lines at p50 and p99")
        .then(name("floor-name", "its floor: the raw driver with the same requests"));
    element("ul", &[("class", "legend")], names)
}

/// Returns the outline of a histogram above a line. The highest bucket fills the band.
fn outline(histogram: &[(f64, u64)], axis: Axis, bottom: f64) -> Vec<Point> {
    let highest = histogram.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let mut points = Vec::new();
    let mut end = f64::NEG_INFINITY;
    for (bound, count) in histogram {
        let (left, right) = (x(axis, bound / GROWTH), x(axis, *bound));
        let y = bottom - (BAND - SPACE) * *count as f64 / highest as f64;
        // Between two buckets that are not neighbours, there is nothing.
        if left > end + ROUNDING {
            points.extend((!points.is_empty()).then(|| at(end, bottom)));
            points.push(at(left, bottom));
        }
        points.extend([at(left, y), at(right, y)]);
        end = right;
    }
    points.extend((!points.is_empty()).then(|| at(end, bottom)));
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page::sample;

    #[test]
    fn an_outline_returns_to_the_line_where_there_is_nothing() {
        let axis = Axis::Logarithmic { least: 0, greatest: 3 };
        let points = outline(&[(10.0, 4), (12.5, 8), (100.0, 1)], axis, 100.0);
        let on_the_line = points.iter().filter(|point| point.y == 100.0).count();
        assert_eq!((points.len(), on_the_line), (10, 4), "{points:?}");
        assert!(points.windows(2).all(|pair| pair[0].x <= pair[1].x + ROUNDING), "{points:?}");
        assert!(outline(&[], axis, 100.0).is_empty());
    }

    #[test]
    fn a_server_without_figures_is_named() {
        let case = Case::OwnNames { tasks: 1 };
        let plot = Distribution { id: "d", table_id: "d-table", title: "T", description: "D.", case };
        let html = plot.html(&sample());
        assert!(html.as_str().contains("zookeeper: not measured."), "{html:?}");
        assert!(html.as_str().contains("redis: p50 "), "{html:?}");
    }
}
