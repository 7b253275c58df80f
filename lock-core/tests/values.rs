//! The values that users get, one by one: what the suite and the tests of a claim's life do not cover.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/scripted.rs"]
#[allow(dead_code, unreachable_pub, reason = "this test needs little of it")]
mod scripted;

use std::error::Error as _;
use std::future::ready;
use std::io;
use std::time::Duration;

use lock_core::driver::Context;
use lock_core::toolkit::{Location, Prefix, RandomSource};
use lock_core::{
    Client, Clock, DEFAULT_TTL, Effect, Entry, Error, ErrorKind, Fair, Fence, Fencing, FencingToken, Finding,
    Instant, Label, Lease, Level, MAX_LABEL, MAX_NAME, MAX_PREFIX, Name, Options, Owner, OwnerBytes, Random,
    Result, Stale, Wakes,
};
use scripted::{Script, client, granted, held, ms, pass, released};

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

#[test]
fn a_token_is_any_number_but_zero() {
    assert!(FencingToken::new(0).is_none());
    for value in [1, 7, u64::MAX] {
        assert_eq!((token(value).get(), token(value).to_string()), (value, value.to_string()));
    }
    assert!(token(7) < token(8));
}

#[test]
fn a_fence_refuses_tokens_below_the_highest_seen() {
    let fence = Fence::new();
    for accepted in [33, 33, 34, 34] {
        fence.accept(token(accepted)).unwrap();
    }
    let stale = fence.accept(token(33)).unwrap_err();
    assert_eq!(stale, Stale::new(token(33), token(34)));
    assert!(stale.to_string().starts_with("token 33 is stale: the resource has seen 34"), "{stale}");
    fence.accept(token(34)).expect("the refused token has changed nothing");
}

#[test]
fn an_error_has_its_kind_and_message() {
    for (error, kind) in [
        (Error::timeout("so it is"), ErrorKind::Timeout),
        (Error::lost("so it is"), ErrorKind::Lost),
        (
            Error::unavailable(Effect::NotApplied, "so it is"),
            ErrorKind::Unavailable { effect: Effect::NotApplied },
        ),
        (Error::unavailable(Effect::Unknown, "so it is"), ErrorKind::Unavailable { effect: Effect::Unknown }),
        (Error::rejected("so it is"), ErrorKind::Rejected),
        (Error::invalid("so it is"), ErrorKind::Invalid),
        (Error::unsupported("so it is"), ErrorKind::Unsupported),
    ] {
        assert_eq!(
            (error.kind(), error.message(), error.to_string().as_str()),
            (kind, "so it is", "so it is")
        );
        assert_eq!(error.is_transient(), matches!(kind, ErrorKind::Unavailable { .. }), "{kind:?}");
        assert_eq!(error.may_have_taken_effect(), kind == ErrorKind::Unavailable { effect: Effect::Unknown });
        assert_eq!((error.retry_in(), error.backend(), error.name()), (None, None, None));
        assert_eq!((error.operation(), error.server()), (None, None));
        assert!(error.holder().is_none());
        assert!(error.source().is_none());
    }
    let read = Error::unavailable(Effect::Unknown, "so it is").with_retry_in(ms(300)).not_applied();
    assert_eq!(read.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
    assert_eq!((read.message(), read.retry_in()), ("so it is", Some(ms(300))));
    assert_eq!(Error::lost("so it is").not_applied().kind(), ErrorKind::Lost);
    let refused = Error::unavailable(Effect::NotApplied, "it is full").as_refusal();
    assert!(refused.is_refusal() && refused.is_transient() && !read.is_refusal());
    assert!(Error::rejected("so it is").is_refusal() && !Error::lost("so it is").is_refusal());
    assert_eq!(refused.and_says("; 3 were read").message(), "it is full; 3 were read");
    let cause = io::Error::other("the cause");
    let error = Error::rejected("it refuses").with_source(cause).with_retry_in(ms(300));
    assert_eq!(error.retry_in(), Some(ms(300)));
    assert_eq!(error.source().unwrap().to_string(), "the cause");
    assert_eq!(format!("{error:?}"), "Rejected: it refuses (the cause)");
}

#[tokio::test(start_paused = true)]
async fn an_error_says_where_it_happened() {
    let script = Script::new([(ms(1), Err(Error::rejected("it refuses")))], [held(ms(900))], [released()]);
    let lock = client(&script).await.lock("a").build().unwrap();
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!((lock.name().as_str(), lock.ttl(), DEFAULT_TTL), ("a", DEFAULT_TTL, Duration::from_secs(30)));
    assert_eq!((error.backend(), error.name()), (Some("scripted"), Some(lock.name())));
    assert_eq!((error.operation(), error.server()), (Some("acquire"), None), "this server has no address");
    assert_eq!(error.to_string(), "acquire \"a\" on scripted: it refuses");
}

/// Bytes that count up.
struct Counting;

impl RandomSource for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        (1..).zip(bytes).for_each(|(n, byte)| *byte = n);
    }
}

#[test]
fn an_owner_is_sixteen_random_bytes() {
    let owner = Owner::mint(&Random::new(Counting));
    assert_eq!(owner.as_bytes(), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(owner.to_string(), "0102030405060708090a0b0c0d0e0f10");
    assert_eq!(owner.to_name().as_str(), owner.to_string());
    let random = Random::system();
    assert_ne!(Owner::mint(&random), Owner::mint(&random));
}

#[test]
fn an_owners_bytes_are_kept_and_shown_escaped() {
    let bytes = b"a\x1b[2J\xff".to_vec();
    let owner = OwnerBytes::new(bytes.clone());
    assert_eq!(owner.as_bytes(), bytes);
    assert_eq!(owner.to_string(), "a\\x1b[2J\\xff");
}

#[test]
fn a_label_names_the_program_without_its_path() {
    let label = Label::of_program("/usr/bin/night job".as_ref());
    let rest = format!(" pid {} night job", std::process::id());
    assert!(label.as_str().contains('@') && label.as_str().ends_with(&rest), "{label}");
    assert!(Label::of_this_process().as_str().starts_with(label.as_str().strip_suffix("night job").unwrap()));
    assert_eq!(Label::new("x".repeat(MAX_LABEL + 1)).as_str().len(), MAX_LABEL);
    assert_eq!(MAX_LABEL, 255);
}

// Proves: prefix
#[test]
fn names_and_prefixes_have_their_longest() {
    assert_eq!((MAX_NAME, MAX_PREFIX), (512, 128));
    assert_eq!(Name::new("x".repeat(MAX_NAME)).unwrap().as_str(), "x".repeat(MAX_NAME));
    assert_eq!(Name::new("x".repeat(MAX_NAME + 1)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Prefix::new("x".repeat(MAX_PREFIX)).unwrap().as_str(), "x".repeat(MAX_PREFIX));
    assert_eq!(Prefix::new("x".repeat(MAX_PREFIX + 1)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn moments_are_counted_from_an_origin() {
    let [early, late] = [ms(300), ms(1000)].map(Instant::from_origin);
    assert_eq!(late.since_origin(), ms(1000));
    assert_eq!((late.since(early), early.since(late)), (ms(700), Duration::ZERO));
    assert_eq!(early + ms(700), late);
}

#[tokio::test(start_paused = true)]
async fn a_clock_sleeps_and_gives_up_at_its_time() {
    let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
    let client = client(&script).await;
    let clock: &Clock = client.clock();
    let at = || clock.now().since_origin();
    pass(ms(10)).await;
    clock.sleep(ms(20)).await;
    assert_eq!(at(), ms(30));
    clock.sleep_until(Instant::from_origin(ms(50))).await;
    clock.sleep_until(Instant::from_origin(ms(40))).await;
    assert_eq!(at(), ms(50), "a moment in the past is not waited for");
    assert_eq!(clock.timeout(ms(20), async { 7 }).await, Some(7));
    assert_eq!(clock.timeout(ms(20), std::future::pending::<()>()).await, None);
    assert_eq!(at(), ms(70));
    let system = Clock::system();
    let before = system.now();
    assert!(system.now() >= before);
}

#[test]
fn a_url_is_read_part_by_part() {
    let whole = Location::parse("redis://u:p@h/1?prefix=a%3A&patience=2s&lazy=true").unwrap();
    assert_eq!((whole.base(), whole.scheme(), whole.has_a_secret()), ("redis://u:p@h/1", "redis", false));
    let mut url = whole.clone();
    assert_eq!(url.take_prefix().unwrap(), Prefix::new("a:").unwrap());
    assert_eq!(url.take_duration("patience").unwrap(), Some(Duration::from_secs(2)));
    assert_eq!(url.take("patience"), None, "it can be taken once");
    assert_eq!(url.clone().finish("lazy").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(url.take("lazy").as_deref(), Some("true"));
    url.finish("").unwrap();
    let secret = Location::parse("unix:///s?pass=x&db=hunter2").unwrap();
    assert!(secret.has_a_secret());
    let part = whole.part_of(&secret);
    assert!(part.has_a_secret() && !part.shown("db", "hunter2").contains("hunter2"));
}

#[test]
fn an_entry_shows_its_owner_and_duration() {
    let mut entry = Entry::new(OwnerBytes::new(*b"theirs"));
    assert_eq!(entry.to_string(), "held by \"theirs\"");
    entry.label = Some(Label::new("deploy@web-3"));
    entry.token = FencingToken::new(7);
    entry.since = Some(Duration::from_secs(180));
    entry.expires_in = Some(Duration::from_secs(12));
    assert_eq!(entry.to_string(), "held by deploy@web-3 for 3 min, lease ends in 12 s");
}

#[test]
fn the_tokens_assumption_is_told_in_words() {
    let and = || "no snapshot is restored".to_owned();
    for (fencing, said) in [
        (Fencing::Always, vec!["rises always"]),
        (
            Fencing::WhileDataIsKept {
                clock_step: Duration::from_secs(3600),
                kept: "on its disk".to_owned(),
            },
            vec!["rises while the server keeps its data", "1 h", "on its disk"],
        ),
        (
            Fencing::WhileAMajorityKeepsItsData { clock_step: Duration::from_secs(7200), and: and() },
            vec!["rises while a majority", "2 h", "no snapshot is restored"],
        ),
        (
            Fencing::UntilAMajorityLosesItsData { and: and() },
            vec!["rises until a majority", "no snapshot is restored"],
        ),
    ] {
        let words = fencing.to_string();
        assert!(said.iter().all(|said| words.contains(said)), "{words}");
    }
}

#[test]
fn info_shows_lease_and_wake_ups_in_words() {
    assert_eq!([Lease::Lock, Lease::Session].map(Lease::as_str), ["lock", "session"]);
    assert_eq!([Fair::No, Fair::PerProcess].map(Fair::as_str), ["no", "per process"]);
    assert_eq!([Wakes::Pushed, Wakes::Polled].map(Wakes::as_str), ["pushed", "polled"]);
}

/// A line of a log may show a client or a lock: it has to be short, and to say which one it is.
#[tokio::test(start_paused = true)]
async fn clients_and_locks_are_shown_in_one_line() {
    let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
    let client = client(&script).await;
    let idle = format!("{client:?}");
    assert!(idle.contains("backend: \"scripted\"") && idle.contains("claims: 0, queues: 0"), "{idle}");
    let lock = client.lock("ledger").ttl(ms(900)).wait(ms(50)).build().unwrap();
    let guard = lock.acquire().await.unwrap();
    let busy = format!("{client:?}");
    assert!(busy.contains("claims: 1, queues: 1"), "{busy}");
    let shown = format!("{lock:?}");
    for part in ["\"ledger\"", "\"scripted\"", "ttl: 900ms", "wait: Some(50ms)", "renewed: true"] {
        assert!(shown.contains(part), "{shown}");
    }
    let builder = format!("{:?}", client.lock("ledger").max_hold(ms(7000)));
    assert!(builder.contains("\"ledger\"") && builder.contains("max_hold: Some(7s)"), "{builder}");
    for line in [busy, shown, builder] {
        assert!(line.len() < 300 && !line.contains('\n'), "{line}");
    }
    drop(guard);
}

#[test]
fn a_finding_is_what_it_was_made_of() {
    let finding = Finding::new("clock", Level::Warning, "it was set");
    assert_eq!((finding.subject, finding.level), ("clock", Level::Warning));
    assert_eq!(finding.message, "it was set");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_opened_with_its_options() {
    let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
    let opened = client(&script).await;
    let own = Client::options().patience(ms(700)).clock(opened.clock().clone()).random(Random::new(Counting));
    let mut seen: Option<Context> = None;
    let told = &mut seen;
    let connect = |context: Context| {
        *told = Some(context);
        async { Err::<scripted::Scripted, _>(Error::rejected("not today")) }
    };
    let error = own.open("scripted", "a server", connect).await.unwrap_err();
    assert_eq!(error.to_string(), "connect on scripted at a server: not today");
    assert_eq!((error.operation(), error.server()), (Some("connect"), Some("a server")));
    let context = seen.unwrap();
    assert_eq!((context.patience, context.clock.now()), (ms(700), opened.clock().now()));
    assert_eq!(Owner::mint(&context.random), Owner::mint(&Random::new(Counting)));
    let hasty = Options::default().patience(Duration::from_micros(999));
    let refused = hasty.open("scripted", "", async |_| Err::<scripted::Scripted, _>(Error::lost(""))).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_driver_is_a_client_with_everything_by_default() {
    let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
    let client = Client::new(scripted::driver(&script, Clock::system())).unwrap();
    assert_eq!((client.info().backend, client.driver().info().backend), ("scripted", "scripted"));
    let guard = client.lock("a").build().unwrap().try_acquire().await.unwrap().unwrap();
    guard.check().unwrap();
    let outside =
        std::thread::spawn(move || Client::new(scripted::driver(&script, Clock::system())).map(drop));
    assert_eq!(outside.join().unwrap().unwrap_err().kind(), ErrorKind::Invalid);
}

/// A driver that is there at the `there`-th try, and says how often it was tried.
async fn opening(options: Options, there: u32, refusal: impl Fn() -> Error) -> (Result<Client>, u32) {
    let mut tries = 0;
    let clock = Clock::tokio();
    let connect = |_: Context| {
        tries += 1;
        let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
        let driver = scripted::driver(&script, clock.clone());
        let outcome = if tries < there { Err(refusal()) } else { Ok(driver) };
        ready(outcome)
    };
    let opened = options.clock(Clock::tokio()).open("scripted", "a server", connect).await;
    (opened, tries)
}

fn not_up() -> Error {
    Error::unavailable(Effect::NotApplied, "the server can't be reached")
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_a_server_not_yet_up() {
    let patient = || Options::default().connect_wait(Duration::from_secs(30));
    let (opened, tries) = opening(patient(), 9, not_up).await;
    opened.unwrap();
    assert_eq!(tries, 9);
    let (opened, tries) = opening(Options::default(), 2, not_up).await;
    assert_eq!(opened.unwrap_err().message(), "the server can't be reached", "it was not told to wait");
    assert_eq!(tries, 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_its_server_within_connect_wait() {
    let clock = Clock::tokio();
    let began = clock.now();
    let options = Options::default().connect_wait(Duration::from_secs(30));
    // Many more than that time has room for: an opening without an end would find the server there.
    let (opened, tries) = opening(options, 10_000, not_up).await;
    let took = clock.now().since(began);
    assert!((Duration::from_secs(28)..=Duration::from_secs(30)).contains(&took), "{took:?}");
    let error = opened.unwrap_err();
    assert!(error.is_transient() && error.operation() == Some("connect"), "{error:?}");
    let expected = format!("the server can't be reached; tried {tries} times within ");
    assert!(error.message().starts_with(&expected) && tries > 20, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_wait_out_permanent_errors() {
    let clock = Clock::tokio();
    let began = clock.now();
    let options = Options::default().connect_wait(Duration::from_secs(30));
    let (opened, tries) = opening(options.clone(), 2, || Error::rejected("wrong password")).await;
    assert_eq!((opened.unwrap_err().message(), tries), ("wrong password", 1));
    // The server says that it is not worth the wait.
    let later = || not_up().with_retry_in(Duration::from_secs(31));
    let (opened, tries) = opening(options, 2, later).await;
    assert!(opened.unwrap_err().is_transient());
    assert_eq!((tries, clock.now()), (1, began));
}

fn without_timers() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn a_runtime_without_timers_is_told_at_once() {
    let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
    let driver = || scripted::driver(&script, Clock::system());
    let errors = without_timers().block_on(async {
        let opened = Options::default().open("scripted", "", |_| ready(Ok(driver()))).await;
        [opened.map(drop), Client::new(driver()).map(drop)].map(Result::unwrap_err)
    });
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains("timers") && error.message().contains("enable_all"), "{error}");
    }
    let own = without_timers().block_on(async {
        Options::default().dedicated().open("scripted", "", |_| ready(Ok(driver()))).await
    });
    own.unwrap();
}

#[test]
fn a_call_that_needs_io_reports_its_lack() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let connect = async |_| -> Result<scripted::Scripted> {
        // As tokio says it where a socket is opened.
        panic!(
            "A Tokio 1.x context was found, but IO is disabled. Call `enable_io` on the runtime builder to enable IO."
        )
    };
    let options = Options::default().connect_wait(Duration::from_secs(30));
    let error = runtime.block_on(options.open("scripted", "", connect)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.message().contains("I/O") && error.message().contains("enable_all"), "{error}");
}
