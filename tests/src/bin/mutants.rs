//! Puts faults into a copy of the runtime, one at a time, and sees that the tests catch each.
//!
//! `cargo run -p idem-tests --bin mutants [word ..]`: all faults of `tests/mutants/list.txt`, or those whose name has all
//! the words. Needs the servers (`scripts/services up`). Exit status 1 when a fault survives.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

struct Mutant<'a> {
    name: &'a str,
    file: &'a str,
    from: &'a str,
    to: &'a str,
    tests: &'a str,
}

enum Verdict {
    Caught(usize),
    Survived,
    Broken(String),
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let words: Vec<String> = env::args().skip(1).collect();
    let list = fs::read_to_string(root.join("tests/mutants/list.txt"))?;
    let copy = root.join("target/mutants/tree");
    copy_tree(&root, &copy)?;

    let mut survivors = 0;
    let mut caught = 0;
    for mutant in
        list.split("\n\n").filter_map(parse).filter(|mutant| words.iter().all(|word| mutant.name.contains(word)))
    {
        match judge(&root, &copy, &mutant)? {
            Verdict::Caught(tests) => {
                caught += 1;
                println!("caught    {} ({tests} tests failed)", mutant.name);
            }
            Verdict::Survived => {
                survivors += 1;
                println!("SURVIVED  {}", mutant.name);
            }
            Verdict::Broken(why) => {
                survivors += 1;
                println!("BROKEN    {}: {why}", mutant.name);
            }
        }
    }
    println!("{caught} faults caught, {survivors} not");
    Ok(survivors == 0)
}

fn parse(block: &str) -> Option<Mutant<'_>> {
    let mut lines = block.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    Some(Mutant {
        name: lines.next()?,
        file: lines.next()?,
        from: lines.next()?,
        to: lines.next()?,
        tests: lines.next()?,
    })
}

fn judge(root: &Path, copy: &Path, mutant: &Mutant<'_>) -> io::Result<Verdict> {
    let file = PathBuf::from("idem-runtime/src").join(mutant.file);
    let sound = fs::read_to_string(root.join(&file))?;
    if sound.matches(mutant.from).count() != 1 {
        return Ok(Verdict::Broken(format!("its text does not stand once in {}", file.display())));
    }
    fs::write(copy.join(&file), sound.replace(mutant.from, mutant.to))?;
    let mut words = mutant.tests.split_whitespace().filter(|word| *word != "*");
    let target = words.next().unwrap_or("promises");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(copy).env("CARGO_TARGET_DIR", root.join("target/mutants/build")).env("RUST_BACKTRACE", "0");
    command.args(["test", "-q", "-p", "idem-tests", "--test", target, "--no-fail-fast", "--", "--include-ignored"]);
    let listed = Command::new(command.get_program())
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", root.join("target/mutants/build"))
        .args(["test", "-q", "-p", "idem-tests", "--test", target, "--", "--list", "--include-ignored"])
        .stderr(Stdio::piped())
        .output()?;
    if !listed.status.success() {
        fs::write(copy.join(&file), sound)?;
        return Ok(Verdict::Broken(last_lines(&listed.stderr)));
    }
    let words: Vec<&str> = words.collect();
    let names: Vec<String> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| words.iter().all(|word| name.contains(word)))
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        fs::write(copy.join(&file), sound)?;
        return Ok(Verdict::Broken("no test has these words".to_owned()));
    }
    let output = command.arg("--exact").args(&names).output()?;
    fs::write(copy.join(&file), sound)?;
    if output.status.success() {
        return Ok(Verdict::Survived);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = text.split("; ").find_map(|part| part.strip_suffix(" failed")).and_then(|n| n.parse().ok());
    Ok(failed.map_or_else(|| Verdict::Broken(last_lines(&output.stderr)), Verdict::Caught))
}

fn last_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("error")).collect();
    lines.first().map_or_else(|| "it does not build".to_owned(), |line| (*line).to_owned())
}

/// Copies what the build needs. Files that are the same keep their time, so that little is built again.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        let (source, target) = (entry.path(), to.join(&name));
        if entry.file_type()?.is_dir() {
            copy_tree(&source, &target)?;
        } else if fs::read(&source)? != fs::read(&target).unwrap_or_default() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
