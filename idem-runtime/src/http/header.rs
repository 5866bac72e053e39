//! Reading the value of an `Idempotency-Key` header.

use std::ops::RangeInclusive;

/// What is wrong with a key that a client sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// It is not in quotes, and only keys in quotes are taken.
    #[error("it must stand in double quotes, as a structured-field string does")]
    NotQuoted,
    /// The quote at the end is missing, or something follows it.
    #[error("it must be one string in double quotes, with nothing behind it")]
    NotOneString,
    /// A character that it may not hold.
    #[error(
        "it may hold printable ASCII only, without quotes, and without quotes around it no `,`, `;`, `\\` or space"
    )]
    Character,
    /// White space only.
    #[error("it is blank")]
    Blank,
    /// Too short or too long.
    #[error("it must have {least} to {most} characters, and has {length}")]
    Length {
        /// The least length.
        least: usize,
        /// The greatest length.
        most: usize,
        /// The length of this one.
        length: usize,
    },
}

/// The key that a header's value holds. The same key is the same with quotes and without.
pub(super) fn read(value: &[u8], bare: bool, lengths: &RangeInclusive<usize>) -> Result<String, KeyFault> {
    let value = value.trim_ascii();
    let key = match value.strip_prefix(b"\"") {
        Some(rest) => quoted(rest)?,
        None if bare => unquoted(value)?,
        None => return Err(KeyFault::NotQuoted),
    };
    if !lengths.contains(&key.len()) {
        let (least, most) = (*lengths.start(), *lengths.end());
        return Err(KeyFault::Length { least, most, length: key.len() });
    }
    if key.trim().is_empty() {
        return Err(KeyFault::Blank);
    }
    Ok(key)
}

/// The rest of a structured-field string (RFC 9651, section 4.2.5) behind its first quote.
fn quoted(rest: &[u8]) -> Result<String, KeyFault> {
    let mut key = String::new();
    let mut bytes = rest.iter();
    loop {
        match bytes.next() {
            // Parameters are refused: nobody could say whether they are part of the key.
            Some(b'"') if bytes.as_slice().is_empty() => return Ok(key),
            None | Some(b'"') => return Err(KeyFault::NotOneString),
            Some(b'\\') => match bytes.next() {
                Some(b'\\') => key.push('\\'),
                _ => return Err(KeyFault::Character),
            },
            Some(byte @ 0x20..=0x7e) => key.push(char::from(*byte)),
            Some(_) => return Err(KeyFault::Character),
        }
    }
}

/// A key without quotes, as many clients send it. What could be a list, a parameter or an escape is refused.
fn unquoted(value: &[u8]) -> Result<String, KeyFault> {
    let plain = |byte: &u8| matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b',' | b';' | b'\\');
    if value.iter().all(plain) {
        Ok(value.iter().map(|byte| char::from(*byte)).collect())
    } else {
        Err(KeyFault::Character)
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyFault, read};

    fn key(value: &str) -> Result<String, KeyFault> {
        read(value.as_bytes(), true, &(1..=10))
    }

    #[test]
    fn quotes_are_no_part_of_the_key() {
        assert_eq!(key("\"abc\""), Ok("abc".into()));
        assert_eq!(key("abc"), Ok("abc".into()));
        assert_eq!(key("  \"abc\" "), Ok("abc".into()));
        assert_eq!(key("\"a b,c;d\""), Ok("a b,c;d".into()));
        assert_eq!(key("\"a\\\\b\""), Ok("a\\b".into()));
    }

    #[test]
    fn what_is_no_single_string_is_refused() {
        for value in ["\"abc", "\"abc\"x", "\"a\", \"b\"", "\"abc\";v=1", "\""] {
            assert_eq!(key(value), Err(KeyFault::NotOneString), "{value}");
        }
        for value in
            ["a b", "a,b", "a;v=1", "a\"b", "abc\"", "a\\b", "'é'", "\"é\"", "\"a\tb\"", "\"a\\\"b\"", "\"a\\n\""]
        {
            assert_eq!(key(value), Err(KeyFault::Character), "{value}");
        }
        assert_eq!(read(b"\"a\x00\"", true, &(1..=10)), Err(KeyFault::Character));
        assert_eq!(read(b"a\x7f", true, &(1..=10)), Err(KeyFault::Character));
        assert_eq!(read(b"abc", false, &(1..=10)), Err(KeyFault::NotQuoted));
    }

    #[test]
    fn the_length_is_that_of_the_key() {
        assert_eq!(key("\"0123456789\""), Ok("0123456789".into()));
        assert_eq!(key("\"0123456789a\""), Err(KeyFault::Length { least: 1, most: 10, length: 11 }));
        assert_eq!(key("\"\""), Err(KeyFault::Length { least: 1, most: 10, length: 0 }));
        assert_eq!(key(""), Err(KeyFault::Length { least: 1, most: 10, length: 0 }));
        assert_eq!(key("\"   \""), Err(KeyFault::Blank));
    }
}
