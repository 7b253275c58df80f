//! Tests of the server clock and its time zone.

use std::time::Duration;

use lock_conformance::Step;
use lock_core::driver::Renewal;
use lock_test_servers::{self as servers, Clock, Owned, Persistence, Settings};

use crate::Outcome;
use crate::server::{Site, TTL, busy, claim, granted, run};

/// Starts a server with a clock of its own. `Err` says why that is not possible.
pub(crate) fn with_clock(settings: &[&str]) -> Result<Owned, String> {
    servers::clock::can_be_set()?;
    let args = settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]).collect();
    let settings =
        Settings { persistence: Persistence::None, clock: Clock::Own, args, ..Settings::default() };
    Ok(Owned::start(&servers::Postgres::Installed, &settings).expect("the server can be started"))
}

pub(crate) fn an_attempt_with_a_stale_estimate_is_resent() -> Outcome {
    let server = with_clock(&[])?;
    run(async {
        let site = Site::on(server.url());
        let client = site.client().await;
        let mut first = claim(&client, "a");
        granted(&mut first).await;
        first.release().await.unwrap();
        server.step_clock(Step::Forward(Duration::from_secs(3600))).unwrap();
        // Its deadline is an hour in the past, but the refusal tells the server's time.
        granted(&mut first).await;
        server.step_clock(Step::Back(Duration::from_secs(3600))).unwrap();
        assert!(matches!(first.renew(TTL).await.unwrap(), Renewal::Held { .. }));
    })
}

// Proves: B7, holder-in-time-zone
pub(crate) fn leases_survive_time_zones_and_clock_changes() -> Outcome {
    let server = with_clock(&["timezone=Europe/Berlin", "log_timezone=Europe/Berlin"])?;
    run(async {
        let site = Site::on(server.url());
        // The clock is set to the last second before an hour that occurred twice in the zone, and runs into that hour.
        let to_the_change =
            "SELECT (extract(epoch FROM now() - timestamptz '2025-10-26 02:59:58+02'))::bigint";
        let back = u64::try_from(site.number(to_the_change).await).expect("it was in 2025");
        server.step_clock(Step::Back(Duration::from_secs(back))).unwrap();
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        let token = granted(&mut holder).await.token;
        let mut other = claim(&client, "a");
        for _ in 0..8 {
            assert!(busy(&mut other).await.free_in.unwrap() <= TTL);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let zone: String = sqlx::Row::get(
            &site.row("SELECT to_char(now() AT TIME ZONE 'Europe/Berlin', 'HH24:MI')").await,
            0,
        );
        assert_eq!(zone, "02:00", "the hour begins a second time");
        assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
        holder.release().await.unwrap();
        assert!(granted(&mut other).await.token > token);
    })
}
