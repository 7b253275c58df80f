//! The definition of a case of the suite.

use std::pin::Pin;

use crate::harness::{Missing, Needed};
use crate::lateness::Load;
use crate::setting::Setting;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) topic: &'static str,
    pub(crate) name: &'static str,
    /// The promises that it proves (docs/semantics.md) and the faults that it causes (docs/faults.md), by their anchors.
    pub(crate) promise: &'static str,
    /// The classes of real bugs (docs/bug-classes.md) that it guards against.
    pub(crate) classes: &'static [&'static str],
    /// Returns whether the backend promises what the case is about.
    pub(crate) applies: fn(&Setting) -> bool,
    pub(crate) load: Load,
    /// Returns the case's body, or why it can't be run. Nothing of the body happens before it is polled.
    pub(crate) begin: fn(Setting) -> Result<Running, Missing>,
}

/// The body of a case that runs.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The function of a case. Its parameters after the setting are what it needs from the harness.
pub(crate) trait Body<Needs> {
    /// Returns the running case, or what the harness is missing.
    fn begin(self, setting: Setting) -> Result<Running, Missing>;
}

macro_rules! body {
    ($($need:ident),*) => {
        impl<Function, Run, $($need: Needed),*> Body<($($need,)*)> for Function
        where
            Function: FnOnce(Setting, $($need),*) -> Run,
            Run: Future<Output = ()> + Send + 'static,
        {
            fn begin(self, setting: Setting) -> Result<Running, Missing> {
                Ok(Box::pin(self(setting.clone(), $($need::of(&setting)?),*)))
            }
        }
    };
}

body!();
body!(First);
body!(First, Second);
body!(First, Second, Third);

/// `case!(function, "promises", [classes]; load Heavy; if |setting| …)`; all but the first two may be left out.
/// `cargo xtask docs` reads it.
macro_rules! case {
    (
        $function:ident, $promise:literal $(, [$($class:ident),*])? $(; load $load:ident)? $(; if $applies:expr)?
    ) => {
        $crate::case::Case {
            topic: {
                const PATH: &str = module_path!();
                PATH.split_at("lock_conformance::cases::".len()).1
            },
            name: stringify!($function),
            promise: $promise,
            classes: &[$($(stringify!($class)),*)?],
            applies: {
                #[allow(unused, reason = "replaced where a case applies to some backends only")]
                let applies: fn(&$crate::setting::Setting) -> bool = |_| true;
                $(let applies: fn(&$crate::setting::Setting) -> bool = $applies;)?
                applies
            },
            load: {
                #[allow(unused, reason = "replaced where a case is not light")]
                let load = $crate::lateness::Load::Light;
                $(let load = $crate::lateness::Load::$load;)?
                load
            },
            begin: |setting| $crate::case::Body::begin($function, setting),
        }
    };
}
pub(crate) use case;
