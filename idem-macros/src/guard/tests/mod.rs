//! Every rule in both directions. A case is a guard and a piece of its refusal; `PASSES` where there is none.

use proc_macro2::Span;
use syn::LitStr;

use super::{Beside, Dialect, Guard, Refusal, read};

#[cfg(feature = "guard")]
mod exists;
#[cfg(feature = "guard")]
mod inserts;
#[cfg(feature = "guard")]
mod repeats;
mod robust;
#[cfg(feature = "guard")]
mod shapes;
mod texts;
#[cfg(feature = "guard")]
mod tricks;

const PASSES: &str = "";
#[cfg(feature = "guard")]
const NOT_CERTAIN: &str = "not certain";

const ALL: [Dialect; 4] = [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite, Dialect::Unknown];

const ALONE: Beside<'static> = Beside { dialect: Dialect::Unknown, allowed: false, keyed: false, unique: None };
const KEYED: Beside<'static> = Beside { keyed: true, ..ALONE };
const ALLOWED: Beside<'static> = Beside { allowed: true, ..ALONE };

fn literal(text: &str) -> LitStr {
    LitStr::new(text, Span::call_site())
}

fn on(dialect: Dialect, beside: Beside<'_>) -> Beside<'_> {
    Beside { dialect, ..beside }
}

fn try_read(text: &str, beside: Beside<'_>) -> Result<Guard, Refusal> {
    read(&literal(text), beside)
}

/// Checks a table on these databases, and says all that is wrong at once.
#[track_caller]
fn check(dialects: &[Dialect], beside: Beside<'_>, cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        for dialect in dialects {
            let got = match try_read(text, on(*dialect, beside)) {
                Ok(_) => String::new(),
                Err(refusal) => {
                    assert!(refusal.at.end <= text.len() && text.get(refusal.at.clone()).is_some(), "{text}");
                    assert!(refusal.help.is_some(), "no way out: {text}");
                    refusal.reason
                }
            };
            let right = if expected.is_empty() { got.is_empty() } else { got.contains(expected) };
            if !right {
                wrong.push(format!("{dialect:?}: {text}\n    expected: {expected:?}\n    got:      {got:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The piece of the text that a refusal points at.
fn pointed(text: &str, beside: Beside<'_>) -> String {
    match try_read(text, beside) {
        Ok(_) => panic!("not refused: {text}"),
        Err(refusal) => text[refusal.at].to_owned(),
    }
}

#[cfg(feature = "guard")]
/// `SET .. | condition` on one row.
#[track_caller]
fn repeat(dialects: &[Dialect], cases: &[(&str, &str, &str)]) {
    let texts: Vec<(String, &str)> = cases
        .iter()
        .map(|(set, condition, expected)| (format!("UPDATE t SET {set} WHERE no = {{no}} AND {condition}"), *expected))
        .collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(text, expected)| (text.as_str(), *expected)).collect();
    check(dialects, ALONE, &texts);
}
