//! The command line.

use crate::payment::{DATA, Options, worker};
use std::{ffi::OsString, path::PathBuf};

/// What `--help` says.
pub(crate) const HELP: &str = "\
Business stories that run idem on real input.

Usage: cargo run -p idem-examples [-- [STORY] [OPTIONS]]

Stories:
  payment         payment callbacks of Alipay and WeChat Pay on embedded SQLite (the default)

Options:
  --keep          keep the temporary databases and print where they are
  --unprotected   put the handlers without idem in the place of those with it:
                  the closing check must then fail
  --data FOLDER   other notification files, in the same folders as examples/data/payment
  -h, --help      print this

Exit status: 0 the money is right, 1 it is wrong, 2 the story could not be told.
Colour is off when the output is no terminal, or NO_COLOR is set.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The help text.
    Help,
    /// The payment story.
    Payment(Options),
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
    let mut options = Options { data: PathBuf::from(DATA), keep: false, unprotected: false };
    let mut story = None;
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("-h" | "--help") => return Ok(Command::Help),
            Some("--keep") => options.keep = true,
            Some("--unprotected") => options.unprotected = true,
            Some("--data") => options.data = args.next().ok_or("--data needs a folder")?.into(),
            Some("payment") if story.is_none() => story = Some("payment"),
            Some(option) if option.starts_with('-') => return Err(format!("unknown option {option}")),
            _ if story.is_none() => return Err(format!("no story is called {}; there is: payment", arg.display())),
            _ => return Err(format!("unexpected argument {}", arg.display())),
        }
    }
    Ok(Command::Payment(options))
}

#[cfg(test)]
mod tests {
    use super::{Command, DATA, Options, parse};
    use std::ffi::OsString;

    fn parsed(args: &[&str]) -> Result<Command, String> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn payment_is_the_default_story() {
        let plain = || Options { data: DATA.into(), keep: false, unprotected: false };
        assert_eq!(parsed(&[]), Ok(Command::Payment(plain())));
        assert_eq!(parsed(&["payment"]), Ok(Command::Payment(plain())));
        assert_eq!(parsed(&["--keep", "payment"]), Ok(Command::Payment(Options { keep: true, ..plain() })));
        assert_eq!(parsed(&["--unprotected"]), Ok(Command::Payment(Options { unprotected: true, ..plain() })));
        assert_eq!(parsed(&["--data", "x"]), Ok(Command::Payment(Options { data: "x".into(), ..plain() })));
        assert_eq!(parsed(&["--keep", "-h"]), Ok(Command::Help));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (args, says) in [
            (&["--kep"][..], "unknown option --kep"),
            (&["stock"], "no story is called stock; there is: payment"),
            (&["payment", "stock"], "unexpected argument stock"),
            (&["payment", "payment"], "unexpected argument payment"),
            (&["--data"], "--data needs a folder"),
            (&["payment-worker", "x"], "a worker is started by the story only"),
        ] {
            assert_eq!(parsed(args), Err(says.into()), "{args:?}");
        }
    }
}
