//! A backend's own tests on servers that are started here, under the [rules](lock_conformance::rules) of the suite.

use libtest_mimic::Trial;
use lock_conformance::rules::{self, Outcome};

use super::owned::Owned;
use super::product::Product;
use super::requirement::Absence;
use super::settings::Settings;

/// Returns the tests for `libtest_mimic`, as [`judged`](rules::judged) does.
///
/// All are *not run* if this product is missing. If it is required, that is a failure.
pub fn judged_on<N, T, O: Outcome>(
    product: &'static dyn Product,
    tests: impl IntoIterator<Item = (N, T)>,
) -> Vec<Trial>
where
    N: Into<String>,
    T: Fn() -> O + Clone + Send + 'static,
{
    let name = product.listing().name;
    match Owned::start(product, &Settings::default()) {
        Ok(_) => rules::judged(name, tests),
        Err(Absence::NotRun(why)) => rules::not_run(name, &why, tests),
        Err(Absence::Failure(why)) => rules::failed(name, why),
    }
}
