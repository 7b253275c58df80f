//! In a browser the page is not tall, its answer is seen without scrolling, and its script answers. The figures of its
//! report are made up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::Arguments;
use lock_conformance::rules;

/// The reason why a case could not be run.
type NotRun = String;

type Case = fn() -> Result<(), NotRun>;

fn main() {
    let cases: [(&str, Case); 3] = [
        ("without_a_report_there_is_an_error", without_report),
        ("the_page_is_short_with_its_answer_on_top", shown),
        ("an_error_in_the_page_would_be_seen", seen),
    ];
    libtest_mimic::run(&Arguments::from_args(), rules::judged("the page", cases)).exit();
}

fn without_report() -> Result<(), NotRun> {
    let folder = tempfile::tempdir().unwrap();
    let output = make(folder.path());
    assert!(!output.status.success() && text(&output).contains("report.json"), "{}", text(&output));
    Ok(())
}

/// The page tells its size, and its answer when an order is asked for, too.
const TELL: &str = r##"
  const root = document.documentElement;
  const bottom = document.querySelector("#answer").getBoundingClientRect().bottom;
  document.querySelector("input[value=order]").click();
  Object.assign(root.dataset, {
    height: root.scrollHeight <= 8000, wide: root.scrollWidth > root.clientWidth, top: bottom < 400,
    answer: document.querySelector("#answer").textContent });"##;

fn shown() -> Result<(), NotRun> {
    let chromium = chromium()?;
    let folder = tempfile::tempdir().unwrap();
    let page = page(folder.path(), TELL);
    for width in [800, 1280] {
        let output = opened(&chromium, &page, width);
        assert!(!has_console_message(&output), "{}", text(&output));
        let dom = String::from_utf8(output.stdout).unwrap();
        for expected in [r#"data-height="true""#, r#"data-wide="false""#, r#"data-top="true""#] {
            assert!(dom.contains(expected), "{expected} at {width}: {}", &dom[..400.min(dom.len())]);
        }
        // Of what was measured, etcd and the fair form of Redis serve processes in order.
        let answer = dom.split_once("data-answer=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
        assert!(answer.contains("redis fair=true") && !answer.contains("mariadb"), "{answer}");
    }
    Ok(())
}

fn seen() -> Result<(), NotRun> {
    let (chromium, folder) = (chromium()?, tempfile::tempdir().unwrap());
    let output = opened(&chromium, &page(folder.path(), "throw new Error('planted');"), 800);
    assert!(has_console_message(&output), "{}", text(&output));
    Ok(())
}

/// Makes the page of the sample in this folder, with a script that runs at its end.
fn page(folder: &Path, script: &str) -> PathBuf {
    fs::write(folder.join("report.json"), include_str!("sample/report.json")).unwrap();
    let output = make(folder);
    assert!(output.status.success(), "{}", text(&output));
    let page = folder.join("report.html");
    let text = fs::read_to_string(&page).unwrap();
    fs::write(&page, text.replace("</body>", &format!("<script>{{ {script} }}</script></body>"))).unwrap();
    page
}

fn make(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lock-bench")).arg("page").arg(folder).output().unwrap()
}

/// Opens the page in a window that is so wide, and prints its elements after its scripts have run.
fn opened(chromium: &Path, page: &Path, width: u32) -> Output {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
        // What the console of the page shows goes to stderr.
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", output.status, text(&output));
    output
}

fn has_console_message(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("CONSOLE")
}

/// Returns the browser: the program that `LOCK_TEST_CHROMIUM` names, or the first one on the PATH.
fn chromium() -> Result<PathBuf, NotRun> {
    if let Some(named) = env::var_os("LOCK_TEST_CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let programs = ["chromium", "chromium-browser", "google-chrome"];
    let mut places =
        programs.iter().flat_map(|program| folders.iter().map(move |folder| folder.join(program)));
    places.find(|place| place.is_file()).ok_or_else(|| "there is no Chromium on the PATH".to_owned())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
