//! One text for all JSON documents of one meaning.
//!
//! Numbers are compared as the decimals that they are written as, never as floating point: two amounts that differ in the
//! twentieth digit are two amounts.

/// How many arrays and objects may stand in one another: as many as serde_json reads into a value.
const DEPTH: u32 = 128;

/// The canonical text, or `None` for what is no JSON, or is nested deeper than any handler reads.
pub(super) fn json(bytes: &[u8]) -> Option<String> {
    // After this the text is known to be JSON, of any depth.
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).ok()?;
    let mut reader = Reader { text: std::str::from_utf8(bytes).ok()?, at: 0, left: DEPTH };
    reader.value()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// How many more levels it goes into.
    left: u32,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self) {
        self.at += 1;
    }

    fn value(&mut self) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let value = match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string(),
            _ => self.word(),
        };
        self.left += 1;
        value
    }

    fn object(&mut self) -> Option<String> {
        let mut members = Vec::new();
        self.skip();
        while self.peek()? != b'}' {
            let name = self.string()?;
            self.peek()?;
            // The colon.
            self.skip();
            members.push((name, self.value()?));
            if self.peek()? == b',' {
                self.skip();
            }
        }
        self.skip();
        // Stable: members of one name stay in their order, which has a meaning to some readers.
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let members: Vec<String> = members.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
        Some(format!("{{{}}}", members.join(",")))
    }

    fn array(&mut self) -> Option<String> {
        let mut values = Vec::new();
        self.skip();
        while self.peek()? != b']' {
            values.push(self.value()?);
            if self.peek()? == b',' {
                self.skip();
            }
        }
        self.skip();
        Some(format!("[{}]", values.join(",")))
    }

    /// A string with its escapes read and written in one way.
    fn string(&mut self) -> Option<String> {
        self.peek()?;
        let rest = self.text.get(self.at..)?;
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let token = rest.get(..end + 2)?;
        self.at += token.len();
        let text: String = serde_json::from_str(token).ok()?;
        serde_json::to_string(&text).ok()
    }

    /// A number, or `true`, `false`, `null`.
    fn word(&mut self) -> Option<String> {
        let rest = self.text.get(self.at..)?;
        let end =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.')).unwrap_or(rest.len());
        let word = rest.get(..end)?;
        self.at += end;
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') { number(word) } else { Some(word.to_owned()) }
    }
}

/// A number as its digits without zeros at either end, and a power of ten.
fn number(text: &str) -> Option<String> {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(zeros)?;
    Some(format!("{sign}{significant}e{exponent}"))
}

#[cfg(test)]
mod tests {
    use super::json;

    fn same(one: &str, other: &str) -> bool {
        let read = |text: &str| json(text.as_bytes());
        assert!(read(one).is_some() && read(other).is_some(), "{one} {other}");
        read(one) == read(other)
    }

    #[test]
    fn documents_of_one_meaning_are_the_same() {
        for (one, other) in [
            (r#"{"a":1,"b":[true,null]}"#, " {\n\t\"b\" : [ true , null ] , \"a\" : 1 } "),
            ("1", "1.0"),
            ("1", "10e-1"),
            ("100", "1E2"),
            ("-0", "0.00"),
            ("0.50", "5e-1"),
            (r#""é\n""#, r#""\u00e9\u000a""#),
            (r#""😀""#, r#""\ud83d\ude00""#),
            (r#"{"\u0061":{"y":2,"x":1}}"#, r#"{"a":{"x":1,"y":2}}"#),
            ("{}", "{ }"),
            ("[]", "[ ]"),
        ] {
            assert!(same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn documents_of_two_meanings_differ() {
        for (one, other) in [
            ("1", "-1"),
            ("1", "\"1\""),
            ("1", "11"),
            ("10", "1"),
            ("true", "false"),
            ("null", "\"null\""),
            // As floating point these are equal.
            ("9007199254740993", "9007199254740992"),
            ("0.1", "0.1000000000000000055"),
            ("18446744073709551617", "18446744073709551616"),
            ("[1,2]", "[2,1]"),
            ("[[1],2]", "[[1,2]]"),
            (r#"{"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            (r#"{"a":"1,\"b\":2"}"#, r#"{"a":"1","b":2}"#),
            (r#""a\\""#, r#""a\"""#),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn what_is_no_json_has_no_canonical_text() {
        for text in ["", "{", "{\"a\":}", "01", "1 2", "nul", "'a'", "{\"a\":1,}", "\"\\x\"", "1e99999999999999999999"]
        {
            assert_eq!(json(text.as_bytes()), None, "{text}");
        }
        assert_eq!(json(b"\"\xff\""), None);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(json(deep.as_bytes()), None);
    }
}
