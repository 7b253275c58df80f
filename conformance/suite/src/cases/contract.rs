//! The six calls of a claim, made directly: one case for each clause of `lock_core::driver`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::driver::{Attempt, Claim, Fencing, Grant, Lease, Queueing, Release, Renewal, Wakes};
use lock_core::{Client, ErrorKind, LossReason, Name};

use crate::case::{Case, case};
use crate::claims::{busy, granted};
use crate::harness::{Count, Forget};
use crate::setting::{Contend, Setting, holder_of, ms};
use crate::timing::{Answered, within};

pub(crate) const CASES: &[Case] = &[
    case!(info_is_consistent, "info"),
    case!(a_free_lock_is_granted_a_held_one_busy, "honest-outcomes, try-acquire", [B15]),
    case!(a_lock_granted_again_has_its_token_and_rest, "token-repeated", [B3]),
    case!(a_repeated_attempt_never_shortens, "token-repeated", [B3, B12]),
    case!(a_look_that_finds_it_held_writes_nothing, "try-acquire", [B30]; load Heavy),
    case!(the_rest_of_a_lease_tells_its_age, "margin", [B12]),
    case!(renew_never_shortens, "renew", [B12]),
    case!(renew_never_creates, "holder-alone-releases", [B10]),
    case!(renew_never_takes_over, "holder-alone-releases", [B9, B10]),
    case!(renew_without_a_grant_is_lost, "holder-alone-releases", [B10]),
    case!(release_gives_up_once, "holder-alone-releases", [B3, B9]),
    case!(release_never_touches_anothers, "holder-alone-releases", [B9]),
    case!(one_release_frees_what_two_attempts_took, "holder-alone-releases", [B3]),
    case!(a_release_resolves_changed_of_a_listening_claim, "acquire", [B4]),
    case!(a_release_before_the_waiter_listens_is_seen, "acquire", [B4]),
];

async fn renew(claim: &mut Box<dyn Claim>, ttl: Duration) -> Renewal {
    claim.renew(ttl).answered().await
}

async fn release(claim: &mut Box<dyn Claim>) -> Release {
    claim.release().answered().await
}

/// Renews a lock that is held, and returns what is left of it, and how old that is.
async fn renewed(claim: &mut Box<dyn Claim>, ttl: Duration) -> (Duration, Duration) {
    match renew(claim, ttl).await {
        Renewal::Held { valid_for, age } => (valid_for, age),
        Renewal::Lost(cause) => panic!("it is held: {cause}"),
    }
}

async fn info_is_consistent(s: Setting) {
    assert!(s.info.min_ttl < s.info.max_ttl);
    assert!(s.info.min_ttl >= ms(3), "a lease of less than its own margin could never be held");
    assert!(!s.info.backend.is_empty() && !s.info.clock.is_empty() && !s.info.data_loss.is_empty());
    let promised = &s.facts.promised;
    let keeps = promised.is_empty() || promised.iter().any(|promise| promise.is_kept_by(&s.info));
    assert!(keeps, "the documents promise {promised:?}, and the server says {:?}", s.info);
    let assumed = match &s.info.fencing {
        // Then tokens have to rise even after a loss of the data.
        Fencing::Always => return,
        Fencing::WhileDataIsKept { kept, .. } => kept,
        Fencing::WhileAMajorityKeepsItsData { and, .. } => and,
        Fencing::UntilAMajorityLosesItsData { and } => and,
        other => panic!("it is not known what {other:?} assumes"),
    };
    assert!(!assumed.is_empty() && s.info.fencing.to_string().contains(assumed.as_str()));
}

async fn a_free_lock_is_granted_a_held_one_busy(s: Setting) {
    let (name, ttl) = (s.name(), s.ttl() * 20);
    let (a, b) = (s.client().await, s.client().await);
    let mut holder = s.claim(&a, &name, ttl, Queueing::No);
    let valid_for = granted(&mut holder).await.valid_for;
    assert!(valid_for <= s.info.max_ttl && valid_for > ttl / 2, "{valid_for:?} of {ttl:?}");
    let mut other = s.claim(&b, &name, ttl, Queueing::No);
    let seen = busy(&mut other).await;
    assert!(!seen.queued, "a claim that only looks takes no place in a queue");
    assert!(seen.free_in.is_none_or(|free_in| free_in <= valid_for), "{seen:?}");
    if let Some(shown) = seen.holder {
        let holder = holder_of(&s.lock(&b, &name).built()).await.expect("it is held");
        assert_eq!((shown.owner, shown.label, shown.token), (holder.owner, holder.label, holder.token));
    }
    release(&mut holder).await;
    granted(&mut other).await;
    release(&mut other).await;
}

async fn a_lock_granted_again_has_its_token_and_rest(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.ttl() * 20);
    let mut claim = s.claim(&client, &name, ttl, Queueing::No);
    let first = granted(&mut claim).await;
    for _ in 0..3 {
        let again = granted(&mut claim).await;
        assert_eq!(again.token, first.token);
        assert!(again.valid_for <= ttl + ms(1), "{again:?}");
    }
    release(&mut claim).await;
}

async fn a_repeated_attempt_never_shortens(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let mut claim = s.holding_claim(&client, &name, s.ttl()).await;
    let asked = Instant::now();
    let (valid_for, _) = renewed(&mut claim, s.ttl() * 20).await;
    assert!(valid_for > s.ttl() * 10 || s.info.lease == Lease::Session);
    let again = granted(&mut claim).await;
    lasts(valid_for, asked, again.valid_for);
    stays_held(&s, &name, s.ttl()).await;
    release(&mut claim).await;
}

/// Checks an answer that must not shorten a lease. At the moment `then` the lease had `left` to go.
fn lasts(left: Duration, then: Instant, answered: Duration) {
    // Subtracts the time that passed between the two, on clocks that count in milliseconds.
    let least = left.saturating_sub(then.elapsed() + ms(2));
    assert!(answered >= least, "{answered:?} are left, of {left:?} before");
}

/// Whatever was answered: a lease that was cut short, to no more than `short`, would have ended meanwhile.
async fn stays_held(s: &Setting, name: &Name, short: Duration) {
    tokio::time::sleep(short * 2).await;
    let other = s.client().await;
    busy(&mut s.claim(&other, name, s.ttl(), Queueing::No)).await;
}

async fn a_look_that_finds_it_held_writes_nothing(s: Setting, admin: Arc<dyn Count>) {
    let (a, b) = (s.client().await, s.client().await);
    let name = s.name();
    let mut holder = s.holding_claim(&a, &name, s.ttl() * 50).await;
    let mut other = s.claim(&b, &name, s.ttl(), Queueing::No);
    busy(&mut other).await;
    // A server may write for reasons of its own, for example when it forgets what has expired, but not at every other
    // look.
    let mut written = Vec::new();
    for _ in 0..21 {
        let before = admin.counters().await.writes;
        busy(&mut other).await;
        written.push(admin.counters().await.writes - before);
    }
    written.sort_unstable();
    assert_eq!(written[written.len() / 2], 0, "half of the looks wrote: {written:?}");
    release(&mut holder).await;
}

/// The margin for the rates of two clocks covers all the time since a lease was proven, and not only what is left of
/// it.
async fn the_rest_of_a_lease_tells_its_age(s: Setting) {
    // Nothing renews it meanwhile.
    let ttl = s.ttl() * 5;
    let (name, client) = (s.name(), s.client().await);
    let mut claim = s.claim(&client, &name, ttl, Queueing::No);
    // What is left of a lock's own lease may be measured when the server answered. A session's proof is counted from
    // the request, and so is its age, so nothing is missing.
    let missing = |asked: Instant| match s.info.lease {
        Lease::Lock => asked.elapsed() + ms(2),
        _ => ms(2),
    };
    let asked = Instant::now();
    let Grant { valid_for, age, .. } = granted(&mut claim).await;
    assert!(valid_for + age + missing(asked) >= ttl, "granted: {valid_for:?} of a lease that is {age:?} old");
    for _ in 0..2 {
        // Not every renewal proves the whole session again.
        tokio::time::sleep(s.ttl() / 8).await;
        let asked = Instant::now();
        let (left, age) = renewed(&mut claim, ttl).await;
        assert!(left + age + missing(asked) >= ttl, "renewed: {left:?} of a lease that is {age:?} old");
    }
    release(&mut claim).await;
}

async fn renew_never_shortens(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let mut claim = s.claim(&client, &name, s.ttl() * 20, Queueing::No);
    let asked = Instant::now();
    let first = granted(&mut claim).await;
    let (valid_for, _) = renewed(&mut claim, s.info.min_ttl).await;
    lasts(first.valid_for, asked, valid_for);
    stays_held(&s, &name, s.info.min_ttl).await;
    release(&mut claim).await;
}

async fn renew_never_creates(s: Setting, admin: Arc<dyn Forget>) {
    let (name, client) = (s.name(), s.client().await);
    let mut claim = s.holding_claim(&client, &name, s.ttl() * 5).await;
    admin.forget(&name).await;
    let outcome = within("the loss is seen", s.ttl() * 10, async {
        loop {
            match renew(&mut claim, s.ttl() * 5).await {
                Renewal::Lost(cause) => return cause,
                // A session's last proof may still be valid.
                Renewal::Held { .. } => tokio::time::sleep(ms(10)).await,
            }
        }
    });
    assert!(matches!(outcome.await, LossReason::Gone | LossReason::Session));
    assert!(matches!(renew(&mut claim, s.ttl()).await, Renewal::Lost(_)), "it never comes back");
    release(&mut claim).await;
    assert!(s.is_free(&name).await);
}

async fn renew_never_takes_over(s: Setting, admin: Arc<dyn Forget>) {
    let (name, a, b) = (s.name(), s.client().await, s.client().await);
    let mut first = s.holding_claim(&a, &name, s.ttl() * 5).await;
    admin.forget(&name).await;
    let mut second = s.holding_claim(&b, &name, s.ttl() * 20).await;
    within("the loss is seen", s.ttl() * 10, async {
        while !matches!(renew(&mut first, s.ttl()).await, Renewal::Lost(_)) {
            tokio::time::sleep(ms(10)).await;
        }
    })
    .await;
    assert!(matches!(renew(&mut second, s.ttl()).await, Renewal::Held { .. }));
    release(&mut second).await;
}

async fn renew_without_a_grant_is_lost(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let mut claim = s.claim(&client, &name, s.ttl(), Queueing::No);
    assert!(matches!(renew(&mut claim, s.ttl()).await, Renewal::Lost(_)));
    assert!(s.is_free(&name).await);
}

async fn release_gives_up_once(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let mut claim = s.claim(&client, &name, s.ttl() * 20, Queueing::No);
    assert_eq!(release(&mut claim).await, Release::NotHeld, "before any attempt");
    granted(&mut claim).await;
    assert!(matches!(release(&mut claim).await, Release::Released { .. }));
    assert_eq!(release(&mut claim).await, Release::NotHeld);
}

async fn release_never_touches_anothers(s: Setting, admin: Arc<dyn Forget>) {
    let (name, a, b) = (s.name(), s.client().await, s.client().await);
    let mut first = s.holding_claim(&a, &name, s.ttl() * 5).await;
    admin.forget(&name).await;
    let mut second = s.holding_claim(&b, &name, s.ttl() * 20).await;
    for _ in 0..3 {
        assert_eq!(release(&mut first).await, Release::NotHeld);
    }
    assert!(matches!(renew(&mut second, s.ttl()).await, Renewal::Held { .. }));
    let mut third = s.claim(&a, &name, s.ttl(), Queueing::No);
    busy(&mut third).await;
    release(&mut second).await;
}

async fn one_release_frees_what_two_attempts_took(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let mut claim = s.holding_claim(&client, &name, s.ttl() * 20).await;
    granted(&mut claim).await;
    release(&mut claim).await;
    assert!(s.is_free(&name).await, "a hold is not counted on the server");
}

/// Listens, or is refused that by a server that can't push. Returns which of the two the client says of its server.
async fn listen(waiter: &mut Box<dyn Claim>, client: &Client) -> Wakes {
    let listens = async {
        match waiter.listen().await {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(false),
            listens => listens.map(|()| true),
        }
    };
    let listens = listens.answered().await;
    // What a client learns about its server later, it says only then.
    let wakes = client.info().wakes;
    let is_refused = "the client says that its server pushes, but it refuses to listen";
    assert!(listens || wakes == Wakes::Polled, "{is_refused}");
    wakes
}

async fn a_release_resolves_changed_of_a_listening_claim(s: Setting) {
    for _ in 0..20 {
        let (name, a, b) = (s.name(), s.client().await, s.client().await);
        let mut holder = s.holding_claim(&a, &name, s.ttl() * 20).await;
        let mut waiter = s.claim(&b, &name, s.ttl(), Queueing::Queued);
        busy(&mut waiter).await;
        if listen(&mut waiter, &b).await == Wakes::Polled {
            release(&mut waiter).await;
            return;
        }
        busy(&mut waiter).await;
        release(&mut holder).await;
        within("the wake-up", ms(1000), async {
            waiter.changed().await;
            while !matches!(waiter.attempt().answered().await, Attempt::Granted(_)) {
                waiter.changed().await;
            }
        })
        .await;
        release(&mut waiter).await;
    }
}

async fn a_release_before_the_waiter_listens_is_seen(s: Setting) {
    let (name, a, b) = (s.name(), s.client().await, s.client().await);
    let mut holder = s.holding_claim(&a, &name, s.ttl() * 20).await;
    let mut waiter = s.claim(&b, &name, s.ttl(), Queueing::Queued);
    busy(&mut waiter).await;
    release(&mut holder).await;
    listen(&mut waiter, &b).await;
    within("the next look", ms(1000), async {
        while !matches!(waiter.attempt().answered().await, Attempt::Granted(_)) {}
    })
    .await;
    release(&mut waiter).await;
}
