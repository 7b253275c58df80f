//! The commands that only look at a server or a lock: `status`, `info`, `check`.

use std::time::Duration;

use lock_core::toolkit::HumanDuration;
use onelock::{Entry, Inspection, Level, Lists, Options};
use serde_json::{Value, json};

use crate::args::{Check, Info, Status};
use crate::exit::{Exit, Failure};
use crate::print;

impl Status {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let client = self.server.open(Options::default()).await?;
        let inspection = client.lock(self.name.as_str()).build()?.inspect().await?;
        match self.json {
            true => print::line(status_json(self.name.as_str(), &inspection))?,
            false => print::line(status_text(self.name.as_str(), &inspection))?,
        }
        Ok(Exit::Status(if inspection.holder.is_some() { 0 } else { 1 }))
    }
}

fn status_text(name: &str, inspection: &Inspection) -> String {
    let mut lines = match &inspection.holder {
        Some(holder) => vec![format!("{name:?} is {holder}"), format!("owner {}", holder.owner)],
        None => vec![format!("{name:?} is free")],
    };
    if let Some(token) = inspection.holder.as_ref().and_then(|holder| holder.token) {
        lines.push(format!("token {token}"));
    }
    match &inspection.waiters {
        Some(waiters) => {
            lines.push(format!("waiters {}", waiters.len()));
            let names = waiters.iter().map(|waiter| {
                waiter.label.as_ref().map_or_else(|| format!("\"{}\"", waiter.owner), ToString::to_string)
            });
            lines.extend(names.map(|waiter| format!("  {waiter}")));
        }
        None => lines.push("waiters unknown".to_owned()),
    }
    lines.join("\n")
}

pub(crate) fn status_json(name: &str, inspection: &Inspection) -> Value {
    let waiters = inspection.waiters.as_ref().map(|all| all.iter().map(entry_json).collect::<Vec<_>>());
    json!({
        "name": name,
        "held": inspection.holder.is_some(),
        "holder": inspection.holder.as_ref().map(entry_json),
        "waiters": waiters,
    })
}

pub(crate) fn entry_json(entry: &Entry) -> Value {
    json!({
        "owner": entry.owner.to_string(),
        "label": entry.label.as_deref(),
        "done": entry.is_done(),
        "token": entry.token.map(onelock::FencingToken::get),
        "since_ms": entry.since.map(millis),
        "expires_in_ms": entry.expires_in.map(millis),
    })
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Info {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let info = self.server.open(Options::default()).await?.info();
        let (lease, fair, wakes) = (info.lease.as_str(), info.fair.as_str(), info.wakes.as_str());
        if self.json {
            print::line(json!({
                "backend": info.backend,
                "server": info.server,
                "identity": info.identity,
                "fencing": info.fencing.to_string(),
                "lease": lease,
                "fair": fair,
                "wakes": wakes,
                "lists": info.lists == Lists::Held,
                "min_ttl_ms": millis(info.min_ttl),
                "max_ttl_ms": millis(info.max_ttl),
                "clock": info.clock,
                "data_loss": info.data_loss,
                "requests_per_hand_over": info.requests_per_hand_over,
            }))?;
            return Ok(Exit::Status(0));
        }
        print::line(format!("backend      {} {}", info.backend, info.server).trim_end())?;
        print::line(format!("token        {}", info.fencing))?;
        print::line(format!(
            "lease        of a {lease}; ttl {} to {}",
            HumanDuration(info.min_ttl),
            HumanDuration(info.max_ttl)
        ))?;
        print::line(format!("waiting      fair: {fair}; wake-ups: {wakes}"))?;
        print::line(format!("clock        {}", info.clock))?;
        print::line(format!("data loss    {}", info.data_loss))?;
        print::line(format!("hand-over    {} requests", info.requests_per_hand_over))?;
        Ok(Exit::Status(0))
    }
}

/// A fact that only a longer connection knows, and no call that looks once: how fast the server's clock runs.
const SHOWN_BY_TIME: &str = "clock";

impl Check {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let findings = self.server.open(Options::default()).await?.check().await?;
        for finding in &findings {
            let (subject, level, message) = (finding.subject, word(finding.level), &finding.message);
            match self.json {
                true => print::line(json!({ "subject": subject, "level": level, "message": message }))?,
                false => print::line(format!("{level:<8} {subject}: {message}"))?,
            }
        }
        let failed = findings.iter().any(|finding| match finding.level {
            Level::Good => false,
            Level::Warning => self.strict,
            Level::Unknown => self.strict && finding.subject != SHOWN_BY_TIME,
            Level::Bad => true,
        });
        Ok(if failed { Exit::Unavailable } else { Exit::Status(0) })
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Warning => "warning",
        Level::Bad => "bad",
        Level::Unknown => "unknown",
    }
}
