//! Crates as users have them, each checked by cargo itself: idem-runtime renamed, re-exported and without a database
//! (case C46); lint settings that allow nothing, in two editions, and without a prelude (case C47); and the reverse, that
//! the user's own lints still fire under the attribute.

use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// A diagnostic of one crate: its lint or error code, if it has one, its place, and its text.
#[derive(Debug)]
struct Diagnostic {
    level: String,
    code: Option<String>,
    place: String,
    rendered: String,
}

/// Copies the crates beside the target directory of the tests, with the lock file of the workspace: so they build
/// without a network, and leave nothing in the source tree.
fn crates() -> &'static Path {
    static CRATES: OnceLock<PathBuf> = OnceLock::new();
    CRATES.get_or_init(|| {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = tests.parent().unwrap();
        let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures/crates");
        copy(&tests.join("fixtures"), &copies, root);
        fs::copy(root.join("Cargo.lock"), copies.join("Cargo.lock")).unwrap();
        copies
    })
}

/// Copies a folder. Paths out of it, to idem-runtime, become absolute.
fn copy(from: &Path, to: &Path, root: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target, root);
        } else {
            let runtime = format!("path = '{}'", root.join("idem-runtime").display());
            let text = fs::read_to_string(entry.path()).unwrap();
            let text = text.replace("path = \"../../idem-runtime\"", &runtime);
            fs::write(target, text.replace("path = \"../../../idem-runtime\"", &runtime)).unwrap();
        }
    }
}

/// Runs `cargo check` or `cargo clippy` on one of the crates. Gives whether it succeeded, and what was said about the
/// crate `about`.
fn cargo(command: &str, package: &str, features: &str, about: &str) -> (bool, Vec<Diagnostic>) {
    let crates = crates();
    let mut cargo = Command::new(env!("CARGO"));
    // The compiler beside it, also where this binary runs without `cargo test`: rustup would choose by folder.
    let rustc = Path::new(env!("CARGO")).with_file_name(format!("rustc{}", std::env::consts::EXE_SUFFIX));
    if rustc.exists() && std::env::var_os("RUSTC").is_none() {
        cargo.env("RUSTC", rustc);
    }
    let output = cargo
        .args([command, "--offline", "--message-format=json", "--package", package, "--features", features])
        .arg("--target-dir")
        .arg(crates.with_file_name("target"))
        .current_dir(crates)
        // These would turn the warnings that are compared into errors.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let messages: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = messages.iter().filter(|message| message["reason"] == "compiler-message");
    let diagnostics: Vec<Diagnostic> = said
        .filter(|message| message["target"]["name"] == about)
        .map(|message| diagnostic(&message["message"]))
        .collect();
    let checked = messages.iter().any(|message| message["target"]["name"] == about);
    assert!(checked, "{about} was not even looked at: {}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), diagnostics)
}

fn diagnostic(message: &Value) -> Diagnostic {
    let spans = message["spans"].as_array().unwrap();
    let place = spans.iter().find(|span| span["is_primary"] == true).map_or_else(String::new, |span| {
        format!("{}:{}:{}", span["file_name"].as_str().unwrap(), span["line_start"], span["column_start"])
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Diagnostic {
        level: text(&message["level"]),
        code: message["code"]["code"].as_str().map(str::to_owned),
        place,
        rendered: text(&message["rendered"]),
    }
}

/// Nothing at all is said about the crate.
#[track_caller]
fn is_clean(command: &str, package: &str) {
    let (succeeded, diagnostics) = cargo(command, package, "", &package.replace('-', "_"));
    let said: String = diagnostics.iter().map(|diagnostic| diagnostic.rendered.as_str()).collect();
    assert!(succeeded && said.is_empty(), "{package}:\n{said}");
}

#[test]
fn the_runtime_may_be_renamed() {
    is_clean("check", "renamed");
}

#[test]
fn the_runtime_may_be_reached_through_a_facade_alone() {
    is_clean("check", "facade-user");
}

#[test]
fn the_expansion_needs_no_prelude() {
    is_clean("check", "bare");
}

#[test]
fn without_a_database_the_one_error_says_which_to_choose() {
    let (succeeded, diagnostics) = cargo("check", "no-database", "", "idem_runtime");
    assert!(!succeeded);
    let errors: Vec<&str> = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.level == "error" && !diagnostic.place.is_empty())
        .map(|diagnostic| diagnostic.rendered.as_str())
        .collect();
    assert_eq!(errors.len(), 1, "{}", errors.concat());
    for feature in ["`postgres`", "`mysql`", "`sqlite`", "`sqlite-unbundled`", "features = [\"postgres\"]"] {
        assert!(errors[0].contains(feature), "{feature} is not named: {}", errors[0]);
    }
}

#[test]
fn strict_compiler_lints_find_nothing() {
    is_clean("check", "strict");
    is_clean("check", "strict-2021");
}

#[test]
#[ignore = "needs clippy: ./scripts/test runs it"]
fn strict_clippy_lints_find_nothing() {
    is_clean("clippy", "strict");
    is_clean("clippy", "strict-2021");
    is_clean("clippy", "renamed");
    is_clean("clippy", "facade-user");
}

/// Lints and where they fired, of the same functions with the attribute and without.
///
/// What is said about a function as a whole is shown at the attribute, which in this crate stands on the line before.
fn lints(command: &str) -> [BTreeSet<(String, String)>; 2] {
    let source = fs::read_to_string(crates().join("own-lints/src/lib.rs")).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let place = |place: &str| {
        let [_, line, column] = place.split(':').collect::<Vec<_>>()[..] else { return place.to_owned() };
        let line: usize = line.parse().unwrap();
        if lines[line - 1].trim_start().starts_with("#[cfg_attr(feature = \"annotated\"") {
            return format!("{}:{}", line + 1, 1 + lines[line].len() - lines[line].trim_start().len());
        }
        format!("{line}:{column}")
    };
    ["", "annotated"].map(|features| {
        let (succeeded, diagnostics) = cargo(command, "own-lints", features, "own_lints");
        assert!(succeeded, "{diagnostics:#?}");
        diagnostics.into_iter().filter_map(|diagnostic| Some((place(&diagnostic.place), diagnostic.code?))).collect()
    })
}

/// The lints that fire only without the attribute, and those that fire only with it; but for some.
fn differences([plain, annotated]: [BTreeSet<(String, String)>; 2], but: &[&str]) -> Vec<String> {
    let lost = plain.difference(&annotated).map(|lint| ("lost", lint));
    let new = annotated.difference(&plain).map(|lint| ("new", lint));
    let unexpected = lost.chain(new).filter(|(_, (_, code))| !but.contains(&code.as_str()));
    unexpected.map(|(what, (place, code))| format!("{what} at {place}: {code}")).collect()
}

/// The crate is of use only while it provokes what it is about.
#[track_caller]
fn provokes(lints: &BTreeSet<(String, String)>, codes: &[&str]) {
    for code in codes {
        assert!(lints.iter().any(|(_, fired)| fired == code), "the crate does not provoke {code}");
    }
}

#[test]
fn the_compilers_lints_fire_as_in_the_plain_function() {
    let lints = lints("check");
    provokes(
        &lints[0],
        &[
            "dead_code",
            "deprecated",
            "missing_docs",
            "non_snake_case",
            "single_use_lifetimes",
            "unreachable_code",
            "unused_assignments",
            "unused_imports",
            "unused_labels",
            "unused_must_use",
            "unused_mut",
            "unused_parens",
            "unused_variables",
        ],
    );
    assert_eq!(differences(lints, &[]), [""; 0]);
}

#[test]
#[ignore = "needs clippy: ./scripts/test runs it"]
fn clippys_lints_fire_as_in_the_plain_function() {
    let lints = lints("clippy");
    provokes(
        &lints[0],
        &[
            "clippy::arithmetic_side_effects",
            "clippy::as_conversions",
            "clippy::await_holding_lock",
            "clippy::clone_on_copy",
            "clippy::expect_used",
            "clippy::future_not_send",
            "clippy::indexing_slicing",
            "clippy::items_after_statements",
            "clippy::let_and_return",
            "clippy::missing_errors_doc",
            "clippy::missing_panics_doc",
            "clippy::needless_question_mark",
            "clippy::panic",
            "clippy::print_stdout",
            "clippy::question_mark_used",
            "clippy::todo",
            "clippy::too_many_arguments",
            "clippy::unwrap_used",
        ],
    );
    // Known: the first does not fire, and the second takes the body's connection for a shadow of the store.
    let known = ["clippy::needless_lifetimes", "clippy::shadow_unrelated"];
    assert_eq!(differences(lints, &known), [""; 0]);
}
