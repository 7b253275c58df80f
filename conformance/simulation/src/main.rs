//! `sim` plays histories of the real core on simulated clocks and a simulated network, and checks them. `stories` plays
//! the histories of the argument about Redlock, and counts how often each does harm.

use std::process::ExitCode;
use std::time::Instant;

use lock_simulation::{FamilyName, Report, STORIES, family_of, play, play_many, play_story};

const USAGE: &str = "usage: sim --histories N [--seed S] [--family lease|queue|redlock|register] [--trace]
       stories --histories N [--seed S]

Exit codes: 0 every promise was kept; 1 one was broken, which ends the run, or excused too often; 2 usage;
            3 none was broken, but something did not happen that has to be tested.";

const BROKEN: u8 = 1;
const MISUSED: u8 = 2;
const UNTESTED: u8 = 3;

struct Command {
    what: Task,
    histories: u64,
    seed: u64,
    family: Option<FamilyName>,
    output: Output,
}

enum Task {
    /// Histories in which anything may happen.
    Simulate,
    /// The histories of each story.
    TellStories,
}

enum Output {
    Summary,
    /// Also everything that happened.
    Trace,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(command) => match command.what {
            Task::Simulate => run(&command),
            Task::TellStories => tell_stories(&command),
        },
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(MISUSED)
        }
    }
}

fn run(command: &Command) -> ExitCode {
    let began = Instant::now();
    let report = match command.output {
        Output::Summary => play_many(command.histories, command.seed, command.family),
        Output::Trace => traced(command),
    };
    print!("{}", report.within(began.elapsed()));
    if !report.holds() {
        return ExitCode::from(BROKEN);
    }
    let excessive = report.excessive();
    if !excessive.is_empty() {
        println!("excused too often: {}", excessive.join(", "));
        return ExitCode::from(BROKEN);
    }
    let untested = report.untested();
    if !untested.is_empty() {
        println!("not tested: {}", untested.join(", "));
        return ExitCode::from(UNTESTED);
    }
    ExitCode::SUCCESS
}

/// Prints a table with a line for each story. No promise of the library may break in any of them.
fn tell_stories(command: &Command) -> ExitCode {
    println!(
        "| what goes wrong | on | histories | acquisitions | with two holders | with stale writes | stale writes | of these taken with tokens |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut taken = 0;
    for story in &STORIES {
        let told = play_story(story, command.histories, command.seed);
        taken += told.stale_writes_taken;
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            story.name,
            story.on,
            told.histories,
            told.grants,
            told.with_two_holders,
            told.with_stale_writes,
            told.stale_writes,
            told.stale_writes_taken
        );
    }
    if taken == 0 { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
}

fn traced(command: &Command) -> Report {
    let mut report = Report::default();
    for seed in (0..command.histories).map(|n| command.seed.wrapping_add(n)) {
        let history = play(command.family.unwrap_or_else(|| family_of(seed)), seed);
        history.log.iter().for_each(|entry| println!("{entry}"));
        report.add(history);
    }
    report
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let what = match words.next().as_deref() {
        Some("sim") => Task::Simulate,
        Some("stories") => Task::TellStories,
        _ => return Err("there are two commands: sim and stories".to_owned()),
    };
    let mut command = Command { what, histories: 0, seed: 0, family: None, output: Output::Summary };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--histories" => command.histories = number(&value()?)?,
            "--seed" => command.seed = number(&value()?)?,
            "--family" => command.family = Some(family(&value()?)?),
            "--trace" => command.output = Output::Trace,
            other => return Err(format!("unknown argument: {other}")),
        }
    }
    match command.histories {
        0 => Err("--histories N is missing".to_owned()),
        _ => Ok(command),
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is not a number"))
}

fn family(word: &str) -> Result<FamilyName, String> {
    let known = FamilyName::ALL.into_iter().find(|family| family.to_string() == word);
    known
        .ok_or_else(|| format!("{word} is not a family; the families are lease, queue, redlock and register"))
}
