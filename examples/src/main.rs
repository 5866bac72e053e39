//! Business stories that run idem on real input. `--help` lists them.

mod args;
#[cfg(feature = "brokers")]
mod broker;
#[cfg(feature = "brokers")]
mod double_deduction;
mod form;
mod money;
mod order_events;
mod order_submit;
mod paper;
mod payment;
#[cfg(feature = "brokers")]
mod payment_callback;
mod points;
mod sms;
mod stock;
mod stories;
mod story;
mod two_layers;

use args::Command;
use std::{
    env,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

const WRONG: u8 = 1;
const NOT_TOLD: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let command = match args::parse(env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => return not_told(&format!("{error} (--help says more)")),
    };
    let told = match &command {
        Command::Help => Ok(print(&args::help())),
        Command::List => Ok(print(&args::list())),
        Command::Tell(story, options) => story.tell(options, io::stdout(), colour()).await,
        Command::Worker(job) => job.work().await.map(|()| true).map_err(Into::into),
    };
    match told {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(WRONG),
        Err(error) => not_told(&error.to_string()),
    }
}

fn print(text: &str) -> bool {
    // Nobody to tell when the text cannot be printed.
    let _ = io::stdout().write_all(text.as_bytes());
    true
}

fn not_told(error: &str) -> ExitCode {
    // Nobody to tell when the error cannot be printed.
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(NOT_TOLD)
}

/// Colour where a person looks, and has not said <https://no-color.org>.
fn colour() -> bool {
    io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
