//! What the subjects are put to.

pub(crate) mod cycles;
pub(crate) mod hand_over;
pub(crate) mod side;
