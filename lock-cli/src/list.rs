//! `lock list`: the locks that are held or waited for.

use onelock::{Inspection, Name, Options};

use crate::args::List;
use crate::exit::{Exit, Failure};
use crate::look::status_json;
use crate::print;

impl List {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let client = self.server.open(Options::default()).await?;
        for (name, inspection) in client.list(&self.prefix).await? {
            match self.json {
                true => print::page(status_json(name.as_str(), &inspection))?,
                false => print::page(text(&name, &inspection))?,
            }
        }
        Ok(Exit::Status(0))
    }
}

fn text(name: &Name, inspection: &Inspection) -> String {
    let holder = inspection.holder.as_ref().map_or_else(|| "free".to_owned(), ToString::to_string);
    match inspection.waiters.as_ref().map_or(0, Vec::len) {
        0 => format!("{name:?} is {holder}"),
        waiters => format!("{name:?} is {holder}; waiters {waiters}"),
    }
}
