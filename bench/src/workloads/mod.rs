//! What the subjects are put to.

pub(crate) mod cycles;
pub(crate) mod hand_over;
mod other;
pub(crate) mod processes;
pub(crate) mod side;
