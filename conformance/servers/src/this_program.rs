//! This test program, started once more: clients of the library in other processes.

use std::env;
use std::io;
use std::process::Command;
use std::sync::Arc;

use lock_conformance::environment::RECORD;
use lock_conformance::harness::{ChildProcess, Processes};
use lock_conformance::{Ability, Missing};

use super::holder::Holder;

/// Starts this test program once more, with the environment variables by which it tests the same server.
#[derive(Clone, Debug)]
pub struct ThisProgram {
    environment: Vec<(&'static str, String)>,
}

impl ThisProgram {
    /// Returns the ability to start it once more. `environment` leads it to the same server.
    ///
    /// # Errors
    ///
    /// The reason, if it can't be started here.
    pub fn again(environment: Vec<(&'static str, String)>) -> Ability<dyn Processes> {
        match cfg!(unix) {
            true => Ok(Arc::new(ThisProgram { environment })),
            false => Err(Missing::because("another process is started on Unix only")),
        }
    }
}

impl Processes for ThisProgram {
    fn start(&self, (variable, value): (&'static str, String)) -> io::Result<Box<dyn ChildProcess>> {
        let mut program = Command::new(env::current_exe()?);
        program.envs(self.environment.iter().map(|(variable, value)| (variable, value)));
        // This process has recorded the server already.
        program.env_remove(RECORD).env(variable, value);
        Ok(Holder::spawn(program)?)
    }
}
