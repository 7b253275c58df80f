//! A plot of figures as dots on one axis: a row for each server, a mark for each series.

use super::html::{Html, details, element};
use super::svg::{self, Axis, Mark, WIDTH, at};
use super::table::{Cell, Column, Layout, Table};

/// A plot, with a table of the same figures.
pub(super) struct Dots {
    /// No other plot of the page has it.
    pub(super) id: &'static str,
    /// The id of its table.
    pub(super) table_id: &'static str,
    pub(super) title: &'static str,
    /// What it shows, and which direction is better.
    pub(super) description: &'static str,
    pub(super) scale: Scale,
    /// How a figure is written.
    pub(super) write: fn(f64) -> String,
    /// A value that figures are to be compared with, and what it is.
    pub(super) bar: Option<(f64, &'static str)>,
    /// The names of the series, four at most.
    pub(super) series: &'static [&'static str],
    pub(super) rows: Vec<DotRow>,
}

/// How values are spread over the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Logarithmic,
}

/// A server's figures, one for each series, or why there is none.
pub(super) struct DotRow {
    pub(super) server: String,
    pub(super) figures: Vec<Result<f64, String>>,
}

/// Where the labels end and the axis begins.
pub(super) const LEFT: f64 = 170.0;
/// Where the axis ends: there is room for the figure beside the last dot.
const RIGHT: f64 = WIDTH - 70.0;
/// The height of one series in a row.
const LINE: f64 = 16.0;
/// Between two rows.
const GAP: f64 = 8.0;
/// The height of the names of the ticks.
const HEAD: f64 = 34.0;

impl Dots {
    pub(super) fn html(&self) -> Html {
        let heading = element("h3", &[], self.title);
        let says = element("p", &[], self.description);
        let drawn = match self.axis() {
            Some(axis) => self.legend().then(self.picture(axis)).then(absent(&self.absent())),
            None => element("p", &[("class", "missing")], "Not measured in this run."),
        };
        let table = details("The figures of this plot", self.table());
        element("div", &[("class", "plot"), ("id", self.id)], heading.then(says).then(drawn).then(table))
    }

    fn axis(&self) -> Option<Axis> {
        let figures = self.rows.iter().flat_map(|row| row.figures.iter().flatten().copied());
        // An axis of nothing but the bar would show nothing.
        let mut figures: Vec<f64> = figures.collect();
        if !figures.is_empty() {
            figures.extend(self.bar.map(|(bar, _)| bar));
        }
        match self.scale {
            Scale::Linear => Axis::linear(figures.into_iter()),
            Scale::Logarithmic => Axis::logarithmic(figures.into_iter()),
        }
    }

    fn legend(&self) -> Html {
        let named = |series: usize| element("li", &[], Mark::ALL[series].icon().then(self.series[series]));
        let bar = self.bar.map(|(_, name)| element("li", &[("class", "bar-name")], name));
        let names = self.drawn().map(named).chain(bar);
        element("ul", &[("class", "legend")], names.collect::<Html>())
    }

    fn picture(&self, axis: Axis) -> Html {
        let rows = self.rows.iter().filter(|row| row.is_measured());
        let each = GAP + LINE * self.drawn().count() as f64;
        let height = HEAD + each * rows.clone().count() as f64 + GAP;
        let mut content = grid(axis, height, self.write);
        if let Some((bar, _)) = self.bar {
            let x = x(axis, bar);
            content = content.then(svg::line("bar", at(x, HEAD - 6.0), at(x, height)));
        }
        for (above, row) in rows.enumerate() {
            let top = HEAD + each * above as f64;
            content = content.then(self.row(row, axis, top, top + each));
        }
        svg::picture(self.id, self.title, &self.summary(), height, content)
    }

    fn row(&self, row: &DotRow, axis: Axis, top: f64, bottom: f64) -> Html {
        let label = svg::text("label", at(4.0, top + GAP + LINE * 0.8), &shortened(&row.server));
        let mut drawn = svg::line("between", at(0.0, bottom), at(WIDTH, bottom)).then(label);
        for (line, series) in self.drawn().enumerate() {
            let y = top + GAP + LINE * (line as f64 + 0.5);
            drawn = drawn.then(match &row.figures[series] {
                Ok(figure) => dot(Mark::ALL[series], axis, *figure, y, &(self.write)(*figure)),
                Err(_) => svg::text("missing", at(LEFT + 4.0, y + 4.0), "not measured"),
            });
        }
        drawn
    }

    /// Returns the series that the picture shows: those of which one server has a figure.
    fn drawn(&self) -> impl Iterator<Item = usize> + Clone {
        let is_measured = |series: &usize| self.rows.iter().any(|row| row.figures[*series].is_ok());
        (0..self.series.len()).filter(is_measured)
    }

    /// Returns the servers and the series that the picture leaves out.
    fn absent(&self) -> Vec<&str> {
        let servers = self.rows.iter().filter(|row| !row.is_measured()).map(|row| row.server.as_str());
        let series = (0..self.series.len()).filter(|series| !self.drawn().any(|drawn| drawn == *series));
        servers.chain(series.map(|series| self.series[series])).collect()
    }

    /// Returns the plot in words.
    fn summary(&self) -> String {
        let row = |row: &DotRow| {
            let figure = |(name, figure): (&&str, &Result<f64, String>)| match figure {
                Ok(figure) => format!("{name} {}", (self.write)(*figure)),
                Err(_) => format!("{name} not measured"),
            };
            let figures: Vec<String> = self.series.iter().zip(&row.figures).map(figure).collect();
            format!("{}: {}.", row.server, figures.join(", "))
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("{} {}", self.description, rows.join(" "))
    }

    fn table(&self) -> Html {
        let mut columns = vec![Column::text("server")];
        columns.extend(self.series.iter().map(|&name| Column::number(name)));
        let cell = |figure: &Result<f64, String>| match figure {
            Ok(figure) => Cell::number((self.write)(*figure), Some(*figure)),
            Err(why) => Cell::of(format!("not measured: {why}")),
        };
        let row = |row: &DotRow| {
            let mut cells = vec![Cell::of(row.server.as_str())];
            cells.extend(row.figures.iter().map(cell));
            cells.into()
        };
        let rows = self.rows.iter().map(row).collect();
        Table { id: self.table_id, caption: self.title.to_owned(), layout: Layout::Scroll, columns, rows }
            .html()
    }
}

impl DotRow {
    fn is_measured(&self) -> bool {
        self.figures.iter().any(Result::is_ok)
    }
}

/// Says what a picture leaves out because this run has no figure of it.
pub(super) fn absent(names: &[&str]) -> Html {
    match names {
        [] => Html::default(),
        names => {
            element("p", &[("class", "missing")], format!("Not measured in this run: {}.", names.join(", ")))
        }
    }
}

/// Returns the ticks of an axis with their values above, over a picture of this height.
pub(super) fn grid(axis: Axis, height: f64, write: fn(f64) -> String) -> Html {
    let tick = |value: f64| {
        let x = x(axis, value);
        svg::line("grid", at(x, HEAD - 10.0), at(x, height)).then(svg::text(
            "tick",
            at(x, HEAD - 16.0),
            &write(value),
        ))
    };
    axis.ticks().into_iter().map(tick).collect()
}

/// Returns where a value lies on the axis.
pub(super) fn x(axis: Axis, value: f64) -> f64 {
    LEFT + axis.place(value) * (RIGHT - LEFT)
}

/// Draws a line from the left end to a dot, and the figure beside it.
fn dot(mark: Mark, axis: Axis, value: f64, y: f64, figure: &str) -> Html {
    let x = x(axis, value);
    svg::line("stem", at(LEFT, y), at(x, y)).then(mark.draw(at(x, y))).then(svg::text(
        "figure",
        at(x + 9.0, y + 4.0),
        figure,
    ))
}

/// Returns a server's name, cut where it would run into the axis.
pub(super) fn shortened(name: &str) -> String {
    const LONGEST: usize = 22;
    match name.chars().count() {
        length if length <= LONGEST => name.to_owned(),
        _ => name.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figures::number;

    fn dots(figures: Vec<Result<f64, String>>) -> Dots {
        Dots {
            id: "plot",
            table_id: "plot-table",
            title: "Rates",
            description: "More is better.",
            scale: Scale::Logarithmic,
            write: number,
            bar: None,
            series: &["8", "64"],
            rows: vec![DotRow { server: "redis".to_owned(), figures }],
        }
    }

    #[test]
    fn a_plot_says_in_words_what_it_shows() {
        let html = dots(vec![Ok(74_000.0), Err("interrupted".to_owned())]).html();
        assert!(html.as_str().contains("redis: 8 74,000, 64 not measured."), "{html:?}");
        assert!(html.as_str().contains("not measured: interrupted"), "{html:?}");
    }

    #[test]
    fn a_series_and_a_server_without_figures_are_not_drawn_but_named() {
        let mut plot = dots(vec![Ok(74_000.0), Err("interrupted".to_owned())]);
        let none = || Err("there is none".to_owned());
        plot.rows.push(DotRow { server: "zookeeper".to_owned(), figures: vec![none(), none()] });
        let html = plot.html();
        assert!(html.as_str().contains("Not measured in this run: zookeeper, 64."), "{html:?}");
        assert!(!html.as_str().contains(">not measured</text>"), "{html:?}");
    }

    #[test]
    fn a_plot_of_nothing_says_so() {
        let html = dots(vec![Err("interrupted".to_owned()), Err("interrupted".to_owned())]).html();
        assert!(html.as_str().contains("Not measured in this run.") && !html.as_str().contains("<svg"));
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(shortened("redis"), "redis");
        assert_eq!(shortened("redis://a-long-name-of-a-host:6379").chars().count(), 22);
    }
}
