//! The command line.

use crate::{payment::worker, stories::Story, story::Options};
use std::{ffi::OsString, path::PathBuf};

/// What `--help` says.
pub(crate) fn help() -> String {
    format!(
        "\
Business stories that run idem on real input, on embedded SQLite.

Usage: cargo run -p idem-examples [-- [STORY] [OPTIONS]]

Stories:
{}  list            names the stories
The stories on RabbitMQ are built with --features brokers.

Options:
  --keep          keep the temporary databases and print where they are
  --unprotected   put the handlers without idem in the place of those with it:
                  the closing check must then fail
  --data FOLDER   other data, in the same files as the story's folder under examples/data
  -h, --help      print this

Exit status: 0 what came out is right, 1 it is wrong, 2 the story could not be told.
Colour is off when the output is no terminal, or NO_COLOR is set.
",
        list()
    )
}

/// What `list` says.
pub(crate) fn list() -> String {
    let lines: Vec<_> = Story::ALL.iter().map(|story| format!("  {:15} {}", story.name(), story.about())).collect();
    lines.join("\n") + "\n"
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The help text.
    Help,
    /// The names of the stories.
    List,
    /// A story.
    Tell(Story, Options),
    /// One delivery, in a process that an act starts.
    Worker(worker::Job),
}

/// Reads the arguments behind the program's name. The error is a sentence for the user.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut args = args.into_iter().peekable();
    if args.next_if(|arg| arg == worker::COMMAND).is_some() {
        let job = worker::Job::from_args(&args.collect::<Vec<_>>());
        return job.map(Command::Worker).ok_or_else(|| "a worker is started by the story only".into());
    }
    let (mut keep, mut unprotected, mut list) = (false, false, false);
    let mut data: Option<PathBuf> = None;
    let mut story = None;
    while let Some(arg) = args.next() {
        let named = arg.to_str().and_then(|name| Story::ALL.iter().find(|story| story.name() == name));
        match (arg.to_str(), named) {
            (Some("-h" | "--help"), _) => return Ok(Command::Help),
            (Some("--keep"), _) => keep = true,
            (Some("--unprotected"), _) => unprotected = true,
            (Some("--data"), _) => data = Some(args.next().ok_or("--data needs a folder")?.into()),
            (Some(option), _) if option.starts_with('-') => return Err(format!("unknown option {option}")),
            _ if story.is_some() || list => return Err(format!("unexpected argument {}", arg.display())),
            (Some("list"), _) => list = true,
            (_, Some(named)) => story = Some(*named),
            (Some(name @ ("double-deduction" | "payment-callback")), _) => {
                return Err(format!(
                    "{name} needs a client of RabbitMQ: cargo run -p idem-examples --features brokers -- {name}"
                ));
            }
            _ => {
                let all: Vec<_> = Story::ALL.iter().map(|story| story.name()).collect();
                return Err(format!("no story is called {}; there are: {}", arg.display(), all.join(", ")));
            }
        }
    }
    if list {
        return Ok(Command::List);
    }
    let story = story.unwrap_or(Story::Payment);
    Ok(Command::Tell(story, Options { data: data.unwrap_or_else(|| story.data()), keep, unprotected }))
}

#[cfg(test)]
mod tests {
    use super::{Command, Options, Story, list, parse};
    use std::ffi::OsString;

    fn parsed(args: &[&str]) -> Result<Command, String> {
        parse(args.iter().map(OsString::from))
    }

    fn plain(story: Story) -> Options {
        Options { data: story.data(), keep: false, unprotected: false }
    }

    #[test]
    fn payment_is_the_default_story() {
        let told = |options| Ok(Command::Tell(Story::Payment, options));
        let plain = || plain(Story::Payment);
        assert_eq!(parsed(&[]), told(plain()));
        assert_eq!(parsed(&["payment"]), told(plain()));
        assert_eq!(parsed(&["--keep", "payment"]), told(Options { keep: true, ..plain() }));
        assert_eq!(parsed(&["--unprotected"]), told(Options { unprotected: true, ..plain() }));
        assert_eq!(parsed(&["--data", "x"]), told(Options { data: "x".into(), ..plain() }));
        assert_eq!(parsed(&["--keep", "-h"]), Ok(Command::Help));
    }

    #[test]
    fn every_story_is_told_by_its_name_and_listed() {
        for story in Story::ALL {
            assert_eq!(parsed(&[story.name()]), Ok(Command::Tell(*story, plain(*story))));
            assert!(list().contains(&format!("  {} ", story.name())));
            assert!(story.data().is_dir());
        }
        assert_eq!(list().lines().count(), Story::ALL.len());
        assert_eq!(parsed(&["list"]), Ok(Command::List));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let names: Vec<_> = Story::ALL.iter().map(|story| story.name()).collect();
        let unknown = format!("no story is called cups; there are: {}", names.join(", "));
        for (args, says) in [
            (&["--kep"][..], "unknown option --kep"),
            (&["cups"], &unknown),
            (&["payment", "stock"], "unexpected argument stock"),
            (&["payment", "payment"], "unexpected argument payment"),
            (&["list", "payment"], "unexpected argument payment"),
            (&["--data"], "--data needs a folder"),
            (&["payment-worker", "x"], "a worker is started by the story only"),
        ] {
            assert_eq!(parsed(args), Err(says.into()), "{args:?}");
        }
    }
}
