//! Pictures in SVG: their frame, their axes, and the shapes that stand for values.

use super::html::{Html, element};

/// How wide each picture is, in its own units.
pub(super) const WIDTH: f64 = 720.0;

/// Returns a picture with a title and a description for those who don't see it.
pub(super) fn picture(id: &str, title: &str, description: &str, height: f64, content: Html) -> Html {
    let (title_id, description_id) = (format!("{id}-title"), format!("{id}-description"));
    let labels = format!("{title_id} {description_id}");
    let named = element("title", &[("id", &title_id)], title).then(element(
        "desc",
        &[("id", &description_id)],
        description,
    ));
    let view = format!("0 0 {WIDTH} {height}");
    let picture = element(
        "svg",
        &[("viewBox", &view), ("role", "img"), ("aria-labelledby", &labels)],
        named.then(content),
    );
    let frame = [("class", "frame"), ("role", "region"), ("aria-label", title), ("tabindex", "0")];
    element("div", &frame, picture)
}

/// A place in a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

pub(super) fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}

/// Returns a text that begins at a point.
pub(super) fn text(class: &str, at: Point, text: &str) -> Html {
    element("text", &[("class", class), ("x", &unit(at.x)), ("y", &unit(at.y))], text)
}

pub(super) fn line(class: &str, from: Point, to: Point) -> Html {
    let [x1, y1, x2, y2] = [from.x, from.y, to.x, to.y].map(unit);
    element("line", &[("class", class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)], Html::default())
}

/// Returns a rectangle by its upper left corner and its size.
pub(super) fn rectangle(class: &str, corner: Point, size: Point) -> Html {
    let [x, y, width, height] = [corner.x, corner.y, size.x, size.y].map(unit);
    let attributes = [("class", class), ("x", &*x), ("y", &*y), ("width", &*width), ("height", &*height)];
    element("rect", &attributes, Html::default())
}

/// Returns a closed shape, or an open line, through these points.
pub(super) fn path(class: &str, points: &[Point], end: PathEnd) -> Html {
    let mut data = String::new();
    for (at, point) in points.iter().enumerate() {
        data.push_str(if at == 0 { "M" } else { "L" });
        data.push_str(&format!("{} {}", unit(point.x), unit(point.y)));
    }
    if end == PathEnd::Closed {
        data.push('Z');
    }
    element("path", &[("class", class), ("d", &data)], Html::default())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathEnd {
    Open,
    Closed,
}

/// Shapes differ, so that series can be told apart without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Circle,
    Square,
    Diamond,
    Triangle,
}

impl Mark {
    /// In the order of the series.
    pub(super) const ALL: [Mark; 4] = [Mark::Circle, Mark::Square, Mark::Diamond, Mark::Triangle];

    fn class(self) -> &'static str {
        match self {
            Mark::Circle => "series-0",
            Mark::Square => "series-1",
            Mark::Diamond => "series-2",
            Mark::Triangle => "series-3",
        }
    }

    /// Draws it around a point.
    pub(super) fn draw(self, around: Point) -> Html {
        const R: f64 = 4.5;
        let Point { x, y } = around;
        let closed = |points: &[Point]| path(self.class(), points, PathEnd::Closed);
        match self {
            Mark::Circle => {
                let [x, y, r] = [x, y, R].map(unit);
                element(
                    "circle",
                    &[("class", self.class()), ("cx", &x), ("cy", &y), ("r", &r)],
                    Html::default(),
                )
            }
            Mark::Square => closed(&[at(x - R, y - R), at(x + R, y - R), at(x + R, y + R), at(x - R, y + R)]),
            Mark::Diamond => {
                closed(&[at(x, y - R - 1.0), at(x + R + 1.0, y), at(x, y + R + 1.0), at(x - R - 1.0, y)])
            }
            Mark::Triangle => closed(&[at(x, y - R - 1.0), at(x + R + 0.5, y + R), at(x - R - 0.5, y + R)]),
        }
    }

    /// Draws it as a picture of its own, beside its name.
    pub(super) fn icon(self) -> Html {
        let attributes = [("class", "icon"), ("viewBox", "0 0 14 14"), ("aria-hidden", "true")];
        element("svg", &attributes, self.draw(at(7.0, 7.0)))
    }
}

/// What a horizontal axis shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    Linear {
        least: f64,
        greatest: f64,
        /// The distance of its ticks.
        step: f64,
    },
    /// In whole powers of ten.
    Logarithmic { least: i32, greatest: i32 },
}

impl Axis {
    /// Returns a logarithmic axis on which all these values are; `None` if none of them is above zero.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64>) -> Option<Axis> {
        let (least, greatest) = bounds(values.filter(|value| *value > 0.0))?;
        let least = least.log10().floor() as i32;
        Some(Axis::Logarithmic { least, greatest: (greatest.log10().ceil() as i32).max(least + 1) })
    }

    /// Returns an axis from zero, or from below it if a value is below it; `None` if there is no value.
    pub(super) fn linear(values: impl Iterator<Item = f64>) -> Option<Axis> {
        let (least, greatest) = bounds(values)?;
        let (least, greatest) = (least.min(0.0), greatest.max(0.0));
        let extent = if greatest > least { greatest - least } else { 1.0 };
        let power = 10f64.powf((extent / 5.0).log10().floor());
        let fits = |step: &f64| extent / step <= 6.0;
        let step = [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(fits).unwrap_or(10.0 * power);
        let greatest = ((least + extent) / step).ceil() * step;
        Some(Axis::Linear { least: (least / step).floor() * step, greatest, step })
    }

    /// Returns where a value lies: 0 at the left end, 1 at the right one.
    pub(super) fn place(self, value: f64) -> f64 {
        let share = match self {
            Axis::Linear { least, greatest, .. } => (value - least) / (greatest - least),
            // No logarithm of what isn't above zero: the left end.
            Axis::Logarithmic { .. } if value <= 0.0 => 0.0,
            Axis::Logarithmic { least, greatest } => {
                (value.log10() - f64::from(least)) / f64::from(greatest - least)
            }
        };
        share.clamp(0.0, 1.0)
    }

    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Axis::Linear { least, greatest, step } => {
                let count = ((greatest - least) / step).round() as u32;
                (0..=count).map(|at| least + f64::from(at) * step).collect()
            }
            Axis::Logarithmic { least, greatest } => {
                (least..=greatest).map(|power| 10f64.powi(power)).collect()
            }
        }
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.filter(|value| value.is_finite());
    finite.fold(None, |bounds, value| {
        let (least, greatest) = bounds.unwrap_or((value, value));
        Some((least.min(value), greatest.max(value)))
    })
}

/// Writes a number of units, with a decimal.
fn unit(number: f64) -> String {
    format!("{number:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_whole_powers_of_ten() {
        let axis = Axis::logarithmic([84.0, 0.0, 2_300.0].into_iter()).unwrap();
        assert_eq!(axis, Axis::Logarithmic { least: 1, greatest: 4 });
        assert_eq!(axis.ticks().len(), 4);
        assert!((axis.place(100.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!([0.0, 1.0, 1e9].map(|value| axis.place(value)), [0.0, 0.0, 1.0]);
        assert_eq!(Axis::logarithmic([0.0].into_iter()), None);
    }

    #[test]
    fn a_linear_axis_has_zero_and_all_values() {
        let axis = Axis::linear([-3.0, 48.0].into_iter()).unwrap();
        let Axis::Linear { least, greatest, step } = axis else { panic!("{axis:?}") };
        assert!(least <= -3.0 && greatest >= 48.0 && (4..=9).contains(&axis.ticks().len()), "{axis:?}");
        assert!(step > 0.0 && axis.ticks().contains(&0.0), "{axis:?}");
        for values in [vec![0.0], vec![5.0], vec![1e-9]] {
            let axis = Axis::linear(values.iter().copied()).unwrap();
            assert!(axis.place(values[0]).is_finite() && axis.ticks().len() < 12, "{axis:?}");
        }
        assert_eq!(Axis::linear([f64::NAN].into_iter()), None);
    }

    #[test]
    fn a_picture_has_a_title_and_a_description() {
        let picture = picture("p", "A < B", "They differ.", 100.0, line("axis", at(0.0, 1.0), at(2.0, 1.0)));
        assert!(picture.as_str().contains(r#"<title id="p-title">A &lt; B</title>"#), "{picture:?}");
        assert!(picture.as_str().contains(r#"aria-labelledby="p-title p-description""#), "{picture:?}");
    }
}
