//! What became of bars, claims and their trials, as the report has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A bar on one server, or on the run, with the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BarReport {
    pub(crate) id: String,
    pub(crate) text: String,
    /// `None` if it is about the whole run.
    pub(crate) server: Option<String>,
    /// `met`, `not-met`, or `not-measured`.
    pub(crate) verdict: String,
    pub(crate) figure: Option<f64>,
    /// What the figure has to reach: `>= 0.5`.
    pub(crate) bound: Option<String>,
    /// What the figure is, or why there is none.
    pub(crate) because: String,
}

/// A claim, with the verdict on the scheme of the texts and on the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimReport {
    pub(crate) id: String,
    pub(crate) text: String,
    /// The scheme that it is about.
    pub(crate) scheme: String,
    pub(crate) naive: Judgement,
    pub(crate) ours: Judgement,
}

/// A verdict with the evidence for it, as the report has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judgement {
    pub(crate) verdict: String,
    pub(crate) because: String,
}

/// What became of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Played {
    pub(crate) server: String,
    /// `ours`, or the name of a scheme.
    pub(crate) subject: String,
    pub(crate) case: String,
    pub(crate) outcome: Ended,
    /// Why it failed, or was not run.
    pub(crate) why: Option<String>,
    /// The figures of a scene.
    pub(crate) figures: BTreeMap<String, f64>,
}

/// How a trial has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    Passed,
    Failed,
    NotRun,
    /// A scene was played, and has figures.
    Measured,
}
