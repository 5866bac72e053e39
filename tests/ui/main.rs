//! The two compile-time corpora. `refuse/<rule>/` holds handlers that must not compile, each with the compiler's words
//! next to it; `accept/` holds sound ones that look similar. What the folders must cover is tested in
//! `idem-macros/src/corpus.rs`, next to the rule table.
//!
//! `TRYBUILD=overwrite cargo test -p idem-tests --test ui` records the words again, and
//! `IDEM_BLESS=1 cargo test -p idem-macros --features guard` then the documentation that quotes them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy takes helpers of a test binary for library code")]

// Every file is read by itself: its imports and types are its own, and nothing calls its handlers.
#[allow(dead_code, missing_docs, unreachable_pub, reason = "sound handlers are compiled here, never called")]
mod accept;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler whose words are recorded. Another one may say the same in other words.
const RECORDED_WITH: &str = "1.95.0";

/// A refusal is one error at one place, but for these.
const SEVERAL_ERRORS: [(&str, &str); 3] = [
    ("null/two_reasons_for_one_part", "the part has two reasons to be refused, and each is told"),
    ("function/returns_an_alias_of_a_number", "the compiler judges the signature and the match on the result apart"),
    ("store/own_type_that_is_no_connection", "the compiler judges the parameter and the call of `claim` apart"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ui")
}

/// The files of a folder with this extension, sorted.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

fn refusals() -> Vec<PathBuf> {
    let rules = std::fs::read_dir(folder().join("refuse")).unwrap().map(|entry| entry.unwrap().path());
    let mut refusals: Vec<PathBuf> = rules.flat_map(|rule| files(&rule, "rs")).collect();
    refusals.sort();
    refusals
}

/// Past the test harness, which keeps what a passing test prints with `eprintln!`.
fn say(line: &str) {
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{line}").unwrap();
}

/// Why the recorded words cannot be compared here.
fn other_compiler() -> Option<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    let same = version.split_whitespace().nth(1) == Some(RECORDED_WITH);
    (!same).then(|| format!("recorded with rustc {RECORDED_WITH}, and this is {}", version.trim()))
}

#[test]
fn unsafe_handlers_do_not_compile() {
    let refusals = refusals();
    assert!(refusals.len() >= 120);
    if let Some(reason) = other_compiler() {
        say(&format!("ui: {} unsafe handlers not compared: {reason}", refusals.len()));
        return;
    }
    trybuild::TestCases::new().compile_fail("ui/refuse/*/*.rs");
    say(&format!("ui: {} unsafe handlers refused", refusals.len()));
}

/// Compiled with this test. What is left to prove is that all of them are.
#[test]
fn sound_handlers_compile() {
    let mut listed: Vec<String> = std::fs::read_to_string(folder().join("accept.rs"))
        .unwrap()
        .lines()
        .filter_map(|line| Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned()))
        .collect();
    listed.sort();
    let found = files(&folder().join("accept"), "rs");
    let names: Vec<String> =
        found.iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(listed, names, "accept.rs lists the files of accept/");
    assert!(names.len() >= 120);
    say(&format!("ui: {} sound handlers accepted", names.len()));
}

#[test]
fn one_mistake_is_one_error() {
    for refusal in refusals() {
        let words = std::fs::read_to_string(refusal.with_extension("stderr"))
            .unwrap_or_else(|_| panic!("{}: no recorded words", refusal.display()));
        let errors = words.lines().filter(|line| line.starts_with("error")).count();
        let name = refusal.strip_prefix(folder().join("refuse")).unwrap().with_extension("");
        let several = SEVERAL_ERRORS.iter().any(|(known, _)| name == Path::new(known));
        assert!(errors == 1 || several && errors == 2, "{}: {errors} errors", refusal.display());
        // The standard library's source is quoted only where it is installed, and a warning says nothing of the mistake.
        for foreign in ["$RUST", "warning:"] {
            assert!(!words.contains(foreign), "{}: `{foreign}`", refusal.display());
        }
    }
}
