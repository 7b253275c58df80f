//! Drives rslock's lock on one server line by line. README.md in the folder above lists the lines.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rslock::{Lock, LockError, LockManager};
use tokio::runtime::{Builder, Runtime};

/// A driver that was killed holds its locks for this long.
const LEASE: Duration = Duration::from_secs(10);

type Answer = Result<String, Box<dyn Error>>;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error {}", one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Connects, and answers lines until the input ends.
fn serve() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, server] = &arguments[..] else { return Err("the one argument is the server: host:port".into()) };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut driver = runtime.block_on(Driver::connect(server))?;
    println!("ready");
    for line in io::stdin().lines() {
        let answer = driver.answer(&runtime, &line?);
        println!("{}", answer.unwrap_or_else(|error| format!("error {}", one_line(&*error))));
    }
    Ok(())
}

struct Driver {
    waiting: LockManager,
    trying: LockManager,
    held: HashMap<String, Lock>,
}

impl Driver {
    async fn connect(server: &str) -> Result<Driver, LockError> {
        let waiting = LockManager::new(vec![format!("redis://{server}")]);
        // A manager shares its connections with its copies. An attempt of this one is tried once.
        let mut trying = waiting.clone();
        trying.set_retry(1, Duration::from_millis(1));
        // The first question opens the connection.
        trying.query_redis_for_key_value(b"connected").await?;
        Ok(Driver { waiting, trying, held: HashMap::new() })
    }

    fn answer(&mut self, runtime: &Runtime, line: &str) -> Answer {
        let words: Vec<&str> = line.split_whitespace().collect();
        runtime.block_on(async {
            match words[..] {
                ["acquire", name] => self.acquire(&decoded(name)?).await,
                ["try", name] => self.attempt(&decoded(name)?).await,
                ["release", name] => self.release(&decoded(name)?).await,
                ["storm", name, file, seconds, pause] => {
                    let (length, pause) = (seconds_of(seconds)?, seconds_of(pause)?);
                    self.storm(&decoded(name)?, file, length, pause).await
                }
                _ => Err(format!("no such line: {words:?}").into()),
            }
        })
    }

    async fn acquire(&mut self, name: &str) -> Answer {
        let lock = self.waiting.acquire_no_guard(name, LEASE).await?;
        self.held.insert(name.to_owned(), lock);
        Ok("held".to_owned())
    }

    async fn attempt(&mut self, name: &str) -> Answer {
        match self.trying.lock(name, LEASE).await {
            Ok(lock) => {
                self.held.insert(name.to_owned(), lock);
                Ok("held".to_owned())
            }
            Err(LockError::Unavailable) => Ok("busy".to_owned()),
            Err(error) => Err(error.into()),
        }
    }

    /// The release of rslock says nothing about the lock. So this asks before, and fails if the lock was lost.
    async fn release(&mut self, name: &str) -> Answer {
        let lock = self.held.remove(name).ok_or_else(|| format!("{name} is not held"))?;
        let held = self.waiting.is_freed(&lock).await;
        lock.release().await;
        held?;
        Ok("released".to_owned())
    }

    /// Counts its turns in the number in the file, which nothing but the lock protects.
    async fn storm(&mut self, name: &str, file: &str, length: Duration, pause: Duration) -> Answer {
        let end = Instant::now() + length;
        let mut turns = 0;
        while Instant::now() < end {
            self.acquire(name).await?;
            let counted = increment(file).await;
            self.release(name).await?;
            counted?;
            turns += 1;
            tokio::time::sleep(pause).await;
        }
        Ok(format!("done {turns}"))
    }
}

/// Reads the number, pauses so that an overlap would be seen, and overwrites the number.
async fn increment(file: &str) -> Result<(), Box<dyn Error>> {
    let number: u64 = fs::read_to_string(file)?.trim().parse()?;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let text = format!("{:10}\n", number + 1);
    Ok(OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())?)
}

fn seconds_of(text: &str) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

/// Decodes a name in which a byte may stand as `%` and two hex digits.
fn decoded(name: &str) -> Result<String, Box<dyn Error>> {
    let mut pieces = name.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or("two digits are missing")?;
        bytes.push(u8::from_str_radix(digits, 16)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Ok(String::from_utf8(bytes)?)
}

fn one_line(error: &dyn Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
