//! What an administrator of a backend's server can do and see.

use std::sync::Arc;

use lock_conformance::harness::{Age, Count, Forget, Interrupt, KeepBusy, Residue};
use lock_conformance::{Ability, Missing};

/// What an administrator can do on one server, or why not.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use lock_conformance::harness::Counters;
    use lock_core::Name;

    use super::*;

    #[derive(Debug)]
    struct Idle;

    #[async_trait]
    impl Forget for Idle {
        async fn forget(&self, _: &Name) {}
    }

    #[async_trait]
    impl Count for Idle {
        async fn counters(&self) -> Counters {
            Counters::default()
        }
    }

    #[async_trait]
    impl Residue for Idle {
        async fn residue(&self) -> u64 {
            0
        }
    }

    #[async_trait]
    impl Age for Idle {
        async fn kept(&self) -> u64 {
            0
        }

        async fn age(&self, _: Duration) {}
    }

    #[async_trait]
    impl Interrupt for Idle {
        async fn interrupt(&self) {}
    }

    #[test]
    fn an_ability_can_be_taken_away_from_an_administrator_that_has_all() {
        let all = AdminAbilities::all(Idle);
        let shared = || Missing::because("other programs use the server");
        let some = AdminAbilities { age: Err::<(), _>(shared()).and(all.age), ..all };
        assert_eq!(some.age.map(drop), Err(shared()));
        assert!(some.forget.is_ok() && some.count.is_ok() && some.residue.is_ok() && some.interrupt.is_ok());
    }

    #[test]
    fn an_administrator_that_has_none_says_why() {
        let none = AdminAbilities::none("a first version");
        let why = Missing::because("a first version");
        assert_eq!(none.forget.map(drop), Err(why.clone()));
        assert_eq!(none.count.map(drop), Err(why.clone()));
        assert_eq!(none.residue.map(drop), Err(why.clone()));
        assert_eq!(none.age.map(drop), Err(why.clone()));
        assert_eq!(none.interrupt.map(drop), Err(why.clone()));
        assert_eq!(none.keep_busy.map(drop), Err(why));
    }
}
