//! A picture of how a holder loses its lock, and what the fencing token is for.

use super::html::{Html, element, paragraph, section};
use super::svg::{self, PathEnd, Point, WIDTH, at};

/// Returns the section with the picture and the same story in words.
pub(super) fn timeline() -> Html {
    let says = "A lock alone can't stop a holder that stands still in the middle of its work. The resource can, if it \
                keeps the greatest fencing token that it has seen, and refuses a lower one.";
    let steps = STEPS.map(|step| element("li", &[], step)).into_iter().collect::<Html>();
    let content = paragraph(says).then(picture()).then(element("ol", &[], steps));
    section("loss", "What happens when a lock is lost", content)
}

const STEPS: [&str; 6] = [
    "Client A is granted the lock with token 33.",
    "A stands still: its process is stopped, or its machine is suspended. It renews no lease.",
    "The lease ends on the server. Client B, which waited, is granted the lock with token 34.",
    "B writes with token 34. The resource keeps 34.",
    "A goes on and sends the write that it had begun, with token 33. At its next step the library tells it that the \
     lock is lost.",
    "The resource refuses 33, because it has seen 34. Nothing is written over.",
];

const HEIGHT: f64 = 292.0;
/// The lines of the client A, the server, the client B and the resource.
const LANES: [(&str, f64); 4] =
    [("Client A", 50.0), ("Lock server", 115.0), ("Client B", 180.0), ("Resource", 245.0)];
/// Where the lines begin.
const START: f64 = 100.0;
/// The times of the story.
const GRANTED: f64 = 130.0;
const STOPPED: f64 = 215.0;
const LEASE_ENDS: f64 = 370.0;
const B_WRITES: f64 = 450.0;
const RESUMED: f64 = 540.0;
const REFUSED: f64 = 600.0;

fn picture() -> Html {
    let [a, server, b, resource] = LANES.map(|(_, y)| y);
    let lanes = LANES.iter().map(|(name, y)| lane(name, *y)).collect::<Html>();
    let periods = [
        period("holds-a", a, GRANTED, STOPPED, "holds 33"),
        period("stopped", a, STOPPED, RESUMED, "stands still"),
        period("holds-a", server, GRANTED, LEASE_ENDS, "lease of A, token 33"),
        period("holds-b", server, LEASE_ENDS, WIDTH - 10.0, "lease of B, token 34"),
        period("waits", b, GRANTED, LEASE_ENDS, "waits"),
        period("holds-b", b, LEASE_ENDS, WIDTH - 10.0, "holds 34"),
    ];
    let steps = [
        arrow(at(GRANTED, server), at(GRANTED, a), 1),
        number(at(STOPPED, a - 26.0), 2),
        arrow(at(LEASE_ENDS, server), at(LEASE_ENDS, b), 3),
        arrow(at(B_WRITES, b), at(B_WRITES, resource), 4),
        arrow(at(RESUMED, a), at(REFUSED, resource), 5),
    ];
    let outcomes = svg::text("good", at(B_WRITES - 88.0, resource + 30.0), "34: written")
        .then(svg::text("bad", at(REFUSED - 6.0, resource + 30.0), "✗ 33: refused"))
        .then(number(at(REFUSED - 22.0, resource + 26.0), 6));
    let content = lanes.then(periods.into_iter().collect::<Html>());
    let content = content.then(steps.into_iter().collect::<Html>()).then(outcomes);
    svg::picture("loss-picture", "Write 33 is refused after write 34", &STEPS.join(" "), HEIGHT, content)
}

fn lane(name: &str, y: f64) -> Html {
    svg::text("label", at(4.0, y + 4.0), name).then(svg::line("lane", at(START, y), at(WIDTH, y)))
}

/// Draws what is true from one moment to another.
fn period(class: &str, y: f64, from: f64, until: f64, name: &str) -> Html {
    svg::rectangle(class, at(from, y - 13.0), at(until - from, 26.0)).then(svg::text(
        "period",
        at(from + 10.0, y + 4.0),
        name,
    ))
}

/// Draws a message and the number of its step.
fn arrow(from: Point, to: Point, step: usize) -> Html {
    // It begins and ends at the edges of the periods.
    let (length, gap) = ((to.x - from.x).hypot(to.y - from.y), 14.0);
    let (x, y) = ((to.x - from.x) / length, (to.y - from.y) / length);
    let from = at(from.x + x * gap, from.y + y * gap);
    let to = at(to.x - x * gap, to.y - y * gap);
    let side = |way: f64| at(to.x - 7.0 * x - way * 4.0 * y, to.y - 7.0 * y + way * 4.0 * x);
    let head = svg::path("arrow-head", &[to, side(1.0), side(-1.0)], PathEnd::Closed);
    let middle = at((from.x + to.x) / 2.0, (from.y + to.y) / 2.0);
    svg::line("arrow", from, to).then(head).then(number(at(middle.x - 14.0, middle.y), step))
}

/// Draws the number of a step in the list below the picture.
fn number(center: Point, step: usize) -> Html {
    let Point { x, y } = center;
    let [left, top] = [x, y].map(|number| format!("{number:.1}"));
    element("circle", &[("class", "step"), ("cx", &left), ("cy", &top), ("r", "8")], Html::default())
        .then(svg::text("step-number", at(x, y + 4.0), &step.to_string()))
}
