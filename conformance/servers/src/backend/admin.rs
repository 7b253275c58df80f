//! Things that an administrator of a backend's server can do and see.

use std::sync::Arc;

use lock_conformance::harness::{Age, Count, Forget, Interrupt, KeepBusy, Residue};
use lock_conformance::{Ability, Missing};

/// The abilities of an administrator on one server, or the reasons why they are missing.
#[derive(Clone, Debug)]
pub struct AdminAbilities {
    /// See [`Harness::can_forget`](lock_conformance::Harness::can_forget).
    pub forget: Ability<dyn Forget>,
    /// See [`Harness::can_count`](lock_conformance::Harness::can_count).
    pub count: Ability<dyn Count>,
    /// See [`Harness::can_count_residue`](lock_conformance::Harness::can_count_residue).
    pub residue: Ability<dyn Residue>,
    /// See [`Harness::can_age`](lock_conformance::Harness::can_age).
    pub age: Ability<dyn Age>,
    /// See [`Harness::can_interrupt`](lock_conformance::Harness::can_interrupt). Cases use it only on a server that was
    /// started here.
    pub interrupt: Ability<dyn Interrupt>,
    /// See [`Harness::can_keep_busy`](lock_conformance::Harness::can_keep_busy).
    pub keep_busy: Ability<dyn KeepBusy>,
}

impl AdminAbilities {
    /// Returns none of them, for this reason.
    pub fn none(why: &str) -> AdminAbilities {
        let missing = || Missing::because(why);
        AdminAbilities {
            forget: Err(missing()),
            count: Err(missing()),
            residue: Err(missing()),
            age: Err(missing()),
            interrupt: Err(missing()),
            keep_busy: Err(missing()),
        }
    }

    /// Returns all of them but `keep_busy`, for an administrator that can do all that every server knows.
    pub fn all<Admin>(admin: Admin) -> AdminAbilities
    where
        Admin: Forget + Count + Residue + Age + Interrupt + 'static,
    {
        let admin = Arc::new(admin);
        AdminAbilities {
            forget: Ok(admin.clone()),
            count: Ok(admin.clone()),
            residue: Ok(admin.clone()),
            age: Ok(admin.clone()),
            interrupt: Ok(admin),
            keep_busy: Err(Missing::because("nothing keeps a single name busy at this server")),
        }
    }
}
