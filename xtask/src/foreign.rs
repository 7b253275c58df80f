//! Builds the drivers of other libraries' clients, which tests and the benchmark run beside ours.

use std::env::var_os;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::interop::{Driver, Listing};
use crate::steps::quietly;

/// Says why the client can be neither built nor run here; `None` if it can.
pub(crate) fn lack(client: &Listing) -> Option<String> {
    let program = client.missing(&var_os("PATH").unwrap_or_default())?;
    Some(format!("there is no {program} on the PATH"))
}

/// Builds the driver, first in a folder of another name, so that `folder` has only what was built completely.
pub(crate) fn build(driver: &Driver, folder: &Path) -> Result<(), String> {
    let part = folder.with_extension("part");
    for old in [&part, folder].into_iter().filter(|old| old.exists()) {
        fs::remove_dir_all(old).map_err(|e| format!("{}: {e}", old.display()))?;
    }
    driver.unpack(&part).map_err(|e| format!("{}: {e}", part.display()))?;
    quietly(Command::new("sh").arg("-c").arg(driver.build).current_dir(&part))?;
    fs::rename(&part, folder).map_err(|e| format!("{}: {e}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::build;
    use crate::interop::Driver;

    fn driver(sources: &'static [(&'static str, &'static str)], build: &'static str) -> Driver {
        Driver { sources, build }
    }

    #[test]
    fn only_a_finished_build_of_these_sources_counts() {
        let folder = std::env::temp_dir().join(format!("lock-xtask-{}", std::process::id()));
        let built = |driver: &Driver, folder: &Path| build(driver, folder).is_ok() && driver.is_built(folder);
        let first = driver(&[("in/a", "one")], "cp in/a out");
        assert!(!first.is_built(&folder) && built(&first, &folder));
        let changed = driver(&[("in/a", "two")], "cp in/a out");
        assert!(!changed.is_built(&folder) && built(&changed, &folder));
        assert_eq!(std::fs::read_to_string(folder.join("out")).unwrap(), "two");
        let broken = driver(&[("in/a", "three")], "false");
        assert!(!built(&broken, &folder) && !broken.is_built(&folder));
        std::fs::remove_dir_all(folder.with_extension("part")).unwrap();
    }
}
