//! Files that an installation needs besides the program: completions and the manual page.

use clap::CommandFactory;

use crate::args::{Args, Completions, Man};
use crate::exit::{About, Exit, Failure};
use crate::print;

impl Completions {
    pub(crate) fn carry_out(self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Args::command(), "lock", &mut script);
        print::page(String::from_utf8_lossy(&script).trim_end())?;
        Ok(Exit::Status(0))
    }
}

impl Man {
    pub(crate) fn carry_out(self) -> Result<Exit, Failure> {
        let mut command = Args::command().disable_help_subcommand(true);
        command.build();
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page).about("the manual page")?;
        // One page for all commands: a reader who looks up `lock` needs `lock run`.
        for verb in command.get_subcommands() {
            let of_verb = clap_mangen::Man::new(verb.clone());
            let title = format!(".SH \"LOCK {}\"\n", verb.get_name().to_uppercase());
            page.extend_from_slice(title.as_bytes());
            of_verb.render_synopsis_section(&mut page).about("the manual page")?;
            of_verb.render_description_section(&mut page).about("the manual page")?;
            of_verb.render_options_section(&mut page).about("the manual page")?;
            of_verb.render_extra_section(&mut page).about("the manual page")?;
        }
        print::page(String::from_utf8_lossy(&page).trim_end())?;
        Ok(Exit::Status(0))
    }
}
