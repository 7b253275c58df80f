//! `calibrate`: is the raw driver, as it is used here, as fast as it can be? It compares one connection with the
//! server's own benchmark program, in turn.

mod postgres;
mod redis;

use crate::Outcome;
use crate::args::Calibrate;
use crate::backend::Backend;

pub(crate) async fn run(options: Calibrate) -> Outcome<()> {
    match Backend::of(&options.on)? {
        Backend::Redis => redis::run(options).await,
        Backend::Postgres => postgres::run(options).await,
        _ => Err("there is no benchmark program to compare the driver with".into()),
    }
}
