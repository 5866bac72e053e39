//! `#[idempotent]` on handlers as people write them: their names, errors, control flow, arguments, methods and crates.
#![allow(missing_docs, unreachable_pub, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod arguments;
mod control_flow;
mod errors;
mod fixtures;
mod methods;
mod names;
mod send;

use idem_runtime::{Error, Outcome};

/// The value of a delivery that must have been the first. Asks nothing of the error, which may have no text.
#[track_caller]
fn first<T, E>(delivered: Result<Outcome<T>, Error<E>>) -> T {
    match delivered {
        Ok(Outcome::First(value)) => value,
        Ok(outcome) => panic!("not the first: {}", outcome.label()),
        Err(error) => panic!("not the first: {}", unlike_body(&error)),
    }
}

/// A delivery that must have been a repeat.
#[track_caller]
fn repeat<T, E>(delivered: Result<Outcome<T>, Error<E>>) {
    match delivered {
        Ok(Outcome::Duplicate(_)) => {}
        Ok(outcome) => panic!("not a repeat: {}", outcome.label()),
        Err(error) => panic!("not a repeat: {}", unlike_body(&error)),
    }
}

/// The body's own error of a delivery whose body must have failed.
#[track_caller]
fn failed<T, E>(delivered: Result<Outcome<T>, Error<E>>) -> E {
    match delivered {
        Err(Error::Body(error)) => error,
        Ok(outcome) => panic!("the body did not fail: {}", outcome.label()),
        Err(error) => panic!("the body did not fail: {}", unlike_body(&error)),
    }
}

fn unlike_body<E>(error: &Error<E>) -> String {
    match error {
        Error::Key(error) => error.to_string(),
        Error::Busy(error) => error.to_string(),
        Error::Database(error) => error.to_string(),
        Error::TransactionEnded(error) => error.to_string(),
        Error::CommitUnknown(error) => error.to_string(),
        Error::Configuration(error) => error.to_string(),
        _ => "the body failed".to_owned(),
    }
}
