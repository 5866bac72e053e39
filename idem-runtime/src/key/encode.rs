//! The frozen text form of a key.
//!
//! What the rules below must give, for ever: two different lists of part values never have the same text, whatever
//! the values hold and whatever literal text stands between them; and the text can be read in a log.
//!
//! | piece | is written as |
//! | --- | --- |
//! | a part's value | itself, with every byte outside the *plain* set as `%XX` |
//! | a missing value (allowed by a written reason) | `%none` |
//! | literal text made of marks such as `:` `/` `#` | itself |
//! | literal text with letters, digits or other characters | in single quotes, a quote inside doubled, what cannot be seen as `%XX` |
//! | two parts with no text between | a `:` between them |
//! | a part of the library's own that is made of several values | the values, with marks in fixed places between them |
//!
//! A value never holds a mark or a quote, and literal text outside quotes holds only marks, so the values are the
//! runs between literals and can be read back. A text over [`MAX_BYTES`] keeps a readable beginning and ends in `~`
//! and the SHA-256 of the whole text; an unquoted `~` occurs nowhere else.

use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

/// Longest key text, in bytes, on every database.
pub(crate) const MAX_BYTES: usize = 255;
const HASH_BYTES: usize = 1 + 64;

/// Receives the text of one key part.
///
/// A [`KeyPart`](crate::KeyPart) writes its value here; the writer escapes it.
#[derive(Debug)]
pub struct KeyWriter<'a> {
    out: &'a mut String,
    blank: bool,
    failed: bool,
}

impl<'a> KeyWriter<'a> {
    pub(super) fn new(out: &'a mut String) -> Self {
        Self { out, blank: true, failed: false }
    }

    /// Whether nothing but white space has been written.
    pub(super) fn is_blank(&self) -> bool {
        self.blank
    }

    /// Whether a value's own `Display` reported an error.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes text of the value.
    pub fn text(&mut self, text: &str) {
        for character in text.chars() {
            self.blank &= is_blank(character) || is_invisible(character);
            if is_plain(character) {
                self.out.push(character);
            } else {
                push_escaped(self.out, character);
            }
        }
    }

    /// Writes a value through its `Display` form. For types whose `Display` is one text for one value.
    pub fn display(&mut self, value: impl fmt::Display) {
        // Writing into a String cannot fail, so it is the value's own Display that did, and half a value is no value.
        self.failed |= write!(self, "{value}").is_err();
    }

    /// Writes a mark between two values of one part. Which mark stands where is the same for every value of the type.
    #[cfg(feature = "http")]
    pub(crate) fn mark(&mut self, mark: char) {
        debug_assert!(is_mark(mark), "a value could hold it");
        self.out.push(mark);
    }

    /// Writes that the value is missing.
    pub(crate) fn none(&mut self) {
        self.blank = false;
        self.out.push_str("%none");
    }

    /// Writes a value that may itself be missing, keeping "present, but missing inside" apart from "missing".
    pub(super) fn some(&mut self, write: impl FnOnce(&mut KeyWriter<'_>)) {
        let start = self.out.len();
        let mut inner = KeyWriter::new(self.out);
        write(&mut inner);
        self.blank &= inner.blank;
        self.failed |= inner.failed;
        let written = &self.out[start..];
        if written == "%none" || written.starts_with("%some") {
            self.out.insert_str(start, "%some");
        }
    }
}

impl fmt::Write for KeyWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn push_escaped(out: &mut String, character: char) {
    let mut bytes = [0; 4];
    for byte in character.encode_utf8(&mut bytes).bytes() {
        push_hex(out, byte);
    }
}

fn push_hex(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

// The lists below are fixed by hand and not taken from `char::is_alphanumeric` and its like: those follow the
// Unicode version of the compiler, and a key must not change with the compiler.

/// Characters of a value that stand as they are.
fn is_plain(character: char) -> bool {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => true,
        '\0'..='\u{9f}' => false,
        other => !is_blank(other) && !is_invisible(other),
    }
}

fn is_blank(character: char) -> bool {
    matches!(
        character,
        '\t'..='\r'
            | ' '
            | '\u{85}'
            | '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200b}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{2060}'
            | '\u{3000}'
            | '\u{feff}'
    )
}

/// Characters that change how a log line looks without being seen, or are not seen at all.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200c}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2061}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Characters of literal text that need no quotes: never part of an encoded value.
fn is_mark(character: char) -> bool {
    matches!(character, ':' | '/' | '|' | '#' | ',' | ';' | '@' | '+' | '=' | '&' | '!' | '>' | '<' | '*' | '$')
}

/// Appends literal text.
pub(super) fn push_literal(out: &mut String, text: &str) {
    let mut quoted = false;
    for character in text.chars() {
        if is_mark(character) == quoted {
            out.push('\'');
            quoted = !quoted;
        }
        match character {
            '\'' => out.push_str("''"),
            // A space in a word is read as it is; what cannot be seen or stored is escaped.
            ' ' => out.push(' '),
            '\0'..='\u{9f}' if character.is_control() => push_escaped(out, character),
            other if is_blank(other) || is_invisible(other) => push_escaped(out, other),
            other => out.push(other),
        }
    }
    if quoted {
        out.push('\'');
    }
}

/// Shortens a text over [`MAX_BYTES`] to a readable beginning and a hash of the whole.
pub(super) fn fit(text: String) -> String {
    if text.len() <= MAX_BYTES {
        return text;
    }
    let hash = Sha256::digest(text.as_bytes());
    let mut end = MAX_BYTES - HASH_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = text;
    out.truncate(end);
    out.push('~');
    for byte in hash {
        // Writing into a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
