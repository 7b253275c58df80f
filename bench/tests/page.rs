//! The page: that Chromium opens it from the disk, at the width of a phone, of a tablet and of a screen. It leaves
//! screenshots in the target folder, `tmp/page/shown/page-*.png`. The figures of its report are made up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::Arguments;
use lock_conformance::rules;

/// Why a case could not be run.
type NotRun = String;

type Case = fn() -> Result<(), NotRun>;

fn main() {
    let cases: [(&str, Case); 5] = [
        ("a_page_is_made_from_a_report", made),
        ("without_a_report_there_is_an_error", without_report),
        ("a_browser_shows_it_at_three_widths_without_an_error", shown),
        ("its_tables_are_sorted_and_its_questions_answered", used),
        ("an_error_in_the_page_would_be_seen", seen),
    ];
    libtest_mimic::run(&Arguments::from_args(), rules::judged("the page", cases)).exit();
}

fn made() -> Result<(), NotRun> {
    let page = fs::read_to_string(page("made")).unwrap();
    for expected in ["<!DOCTYPE html>", "<main", "</html>", "zookeeper"] {
        assert!(page.contains(expected), "{expected}");
    }
    Ok(())
}

fn without_report() -> Result<(), NotRun> {
    let folder = tempfile::tempdir().unwrap();
    let output = make(folder.path());
    assert!(!output.status.success() && text(&output).contains("report.json"), "{}", text(&output));
    Ok(())
}

const WIDTHS: [u32; 3] = [360, 800, 1280];

fn shown() -> Result<(), NotRun> {
    let chromium = chromium()?;
    let page = page("shown");
    for width in WIDTHS {
        let frame = framed(&page, &format!("{width}"), width, TELL);
        let dom = opened(&chromium, &frame, width);
        assert!(dom.contains(r#"data-script="done""#), "the page's script did not end at {width}: {dom}");
        assert!(dom.contains(r#"data-overflow="0""#), "the page scrolls sideways at {width}: {dom}");
        screenshot(&chromium, &frame, width, &page.with_file_name(format!("page-{width}.png")));
        let frame = framed(&dark(&page), &format!("{width}-dark"), width, TELL);
        screenshot(&chromium, &frame, width, &page.with_file_name(format!("page-{width}-dark.png")));
    }
    Ok(())
}

fn used() -> Result<(), NotRun> {
    let frame = framed(&page("used"), "used", 1280, USE);
    let dom = opened(&chromium()?, &frame, 1280);
    // Of what was measured, etcd alone serves processes in order. What was not measured comes last.
    assert!(dom.contains(r#"data-answer="etcd: 1.25 ms""#), "{dom}");
    assert!(dom.contains(r#"data-first="memory" data-last="zookeeper" data-sorted="ascending""#), "{dom}");
    Ok(())
}

fn seen() -> Result<(), NotRun> {
    let chromium = chromium()?;
    let frame = framed(&page("seen"), "seen", 800, "throw new Error('planted');");
    let output = run(&chromium, &frame, 800, &["--dump-dom"]);
    assert!(has_console_message(&output), "{}", text(&output));
    Ok(())
}

/// Tells the outer page whether the script of the page has ended, and by how much the page is too wide.
const TELL: &str = "
  const root = document.documentElement;
  tell({ script: root.dataset.script, overflow: Math.max(0, root.scrollWidth - root.clientWidth) });";

/// Uses the page, and tells what comes of it.
const USE: &str = r##"
  document.querySelector("input[value=order]").click();
  const answer = document.querySelector("#answer li").textContent;
  const head = Array.from(document.querySelectorAll("#servers th")).find((th) => th.textContent === "cycle, p50");
  head.querySelector("button").click();
  const names = Array.from(document.querySelectorAll("#servers tbody th strong")).map((name) => name.textContent);
  tell({ answer, first: names[0], last: names[names.length - 1], sorted: head.getAttribute("aria-sort") });"##;

/// Makes the page of the sample in a folder of this name below the target folder, and returns its path.
fn page(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("report.json"), include_str!("page/report.json")).unwrap();
    let output = make(&folder);
    assert!(output.status.success(), "{}", text(&output));
    folder.join("report.html")
}

fn make(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lock-bench")).arg("page").arg(folder).output().unwrap()
}

/// Writes the page as it looks to a reader who prefers dark colours, and returns its path.
fn dark(page: &Path) -> PathBuf {
    let text = fs::read_to_string(page).unwrap();
    let always = text.replacen("@media (prefers-color-scheme: dark)", "@media all", 1);
    assert_ne!(always, text, "there are no dark colours");
    let dark = page.with_file_name("dark.html");
    fs::write(&dark, always.replace("color-scheme: light dark", "color-scheme: dark")).unwrap();
    dark
}

/// Writes a page that shows the other one in a frame of this width, and returns its path. A window can't be as narrow
/// as a phone. Once the page in the frame is there, this script runs in it. What the script tells becomes attributes of
/// the outer page.
fn framed(page: &Path, name: &str, width: u32, script: &str) -> PathBuf {
    let tell = "const tell = (what) => parent.postMessage(what, '*');";
    let told = format!("<script>addEventListener('load', () => {{ {tell} {script} }});</script></body>");
    let inner = page.with_file_name(format!("inner-{name}.html"));
    fs::write(&inner, fs::read_to_string(page).unwrap().replace("</body>", &told)).unwrap();
    let listen = "addEventListener('message', (event) => Object.assign(document.documentElement.dataset, event.data));";
    let frame = format!(r#"<iframe src="inner-{name}.html" width="{width}" height="{HEIGHT}"></iframe>"#);
    let style = "<style>body { margin: 0 } iframe { border: 0; display: block }</style>";
    let head =
        format!(r#"<meta charset="utf-8"><link rel="icon" href="data:,">{style}<script>{listen}</script>"#);
    let outer = page.with_file_name(format!("outer-{name}.html"));
    fs::write(&outer, format!("<!DOCTYPE html><html><head>{head}</head><body>{frame}</body></html>"))
        .unwrap();
    outer
}

/// How much of the page a screenshot shows.
const HEIGHT: u32 = 6000;

/// Returns the elements of the page after its scripts have run. No script may have complained.
fn opened(chromium: &Path, page: &Path, width: u32) -> String {
    let output = run(chromium, page, width, &["--dump-dom"]);
    assert!(!has_console_message(&output), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn screenshot(chromium: &Path, page: &Path, width: u32, picture: &Path) {
    // One of an earlier run proves nothing.
    let _: Result<(), _> = fs::remove_file(picture);
    let output = run(chromium, page, width, &[&format!("--screenshot={}", picture.display())]);
    assert!(!has_console_message(&output), "{}", text(&output));
    assert!(fs::metadata(picture).is_ok_and(|file| file.len() > 10_000), "{}", picture.display());
}

fn run(chromium: &Path, page: &Path, width: u32, options: &[&str]) -> Output {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
        // What the console of the page shows goes to stderr.
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},{HEIGHT}"))
        .args(options)
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
    let places = programs.iter().flat_map(|program| folders.iter().map(move |folder| folder.join(program)));
    places
        .into_iter()
        .find(|place| place.is_file())
        .ok_or_else(|| "there is no Chromium on the PATH".to_owned())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
