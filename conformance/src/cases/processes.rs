//! Whole processes, killed and stopped: the program `lock` is the holder.

use crate::runner::Case;

pub(crate) const CASES: &[Case] = &[];
