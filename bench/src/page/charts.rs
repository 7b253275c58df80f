//! Pictures of figures, drawn by plotters.

use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Outcome;

/// Bars from the left, on a logarithmic scale.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) bars: Vec<Bar>,
    pub(super) shown: fn(f64) -> String,
}

pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    /// Where a line from the bar ends.
    pub(super) end: Option<f64>,
    pub(super) durable: Option<bool>,
}

const WIDTH: u32 = 600;
const BAR: u32 = 22;
const AROUND: u32 = 76;
const FONT: &str = "sans-serif";

impl Bar {
    fn color(&self) -> RGBColor {
        match self.durable {
            Some(true) => RGBColor(58, 110, 165),
            Some(false) => RGBColor(230, 140, 50),
            None => RGBColor(120, 120, 120),
        }
    }

    fn figures(&self) -> impl Iterator<Item = f64> {
        [Some(self.value), self.end].into_iter().flatten()
    }
}

impl Chart {
    pub(super) fn svg(&self) -> Outcome<String> {
        let mut svg = String::new();
        self.draw(&mut svg)?;
        Ok(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", self.title), 1))
    }

    fn draw(&self, svg: &mut String) -> Outcome<()> {
        // A scale of one place has no length.
        let last = self.bars.len().saturating_sub(1).max(1);
        let all = || self.bars.iter().flat_map(Bar::figures);
        // From a power of ten to another one, with room for the figure beside the longest bar.
        let low = 10_f64.powf(all().fold(f64::INFINITY, f64::min).log10().floor());
        let high = all().fold(low * 2.0, f64::max) * 8.0;
        let area =
            SVGBackend::with_string(svg, (WIDTH, AROUND + BAR * (last as u32 + 1))).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, (FONT, 19))
            .margin(6)
            .x_label_area_size(26)
            .y_label_area_size(150)
            .build_cartesian_2d((low..high).log_scale(), (0..last).into_segmented())?;
        // The first one is drawn at the top.
        let place = |at: usize| last.saturating_sub(at);
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(8)
            .y_labels(2 * last)
            .label_style((FONT, 15))
            .x_label_formatter(&|figure| (self.shown)(*figure))
            .y_label_formatter(&|at| match at {
                SegmentValue::CenterOf(at) => {
                    self.bars.get(place(*at)).map_or_else(String::new, |bar| bar.label.clone())
                }
                _ => String::new(),
            })
            .draw()?;
        for (at, bar) in self.bars.iter().enumerate() {
            let (at, color) = (place(at), bar.color());
            let corners = [(low, SegmentValue::Exact(at)), (bar.value, SegmentValue::Exact(at + 1))];
            let mut filled = Rectangle::new(corners, color.filled());
            filled.set_margin(4, 4, 0, 0);
            chart.draw_series([filled])?;
            let middle = SegmentValue::CenterOf(at);
            let end = bar.end.unwrap_or(bar.value).max(bar.value);
            chart.draw_series([PathElement::new(
                [(bar.value, middle.clone()), (end, middle.clone())],
                color,
            )])?;
            let text = format!(" {}", (self.shown)(bar.value));
            let style = (FONT, 15).into_font().into_text_style(&area).pos(Pos::new(HPos::Left, VPos::Center));
            chart.draw_series([Text::new(text, (end, middle), style)])?;
        }
        Ok(area.present()?)
    }
}
