use crate::key::hex;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Some providers take 255 characters, and some put a prefix of their own before them.
const LONGEST: usize = 200;
/// Of a text that is too long: what stays readable.
const READABLE: usize = 130;

/// One text for scope and key, for a header: visible ASCII, and never the same for different actions. It never changes
/// between versions, since providers remember it.
pub(super) fn provider_key(scope: &str, key: &str) -> String {
    let mut text = String::new();
    // What separates the two stands in neither of them.
    escape(&mut text, scope);
    text.push('/');
    escape(&mut text, key);
    if text.len() > LONGEST {
        // `~` stands in no text that is short enough.
        let hash = hex(&Sha256::digest(&text));
        text.truncate(READABLE);
        text.push('~');
        text.push_str(&hash);
    }
    text
}

fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'/' | b'~' | b'"' | b'\\' | b'$') {
            out.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(out, "${byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::provider_key;
    use std::collections::HashSet;

    /// Remembered by providers: it never changes.
    #[test]
    fn the_text_is_frozen() {
        assert_eq!(provider_key("sms.send", "A1001:PAID"), "sms.send/A1001:PAID");
        assert_eq!(provider_key("a/b", "c%3Ad"), "a$2Fb/c%3Ad");
        assert_eq!(provider_key("短信", "x y"), "$E7$9F$AD$E4$BF$A1/x$20y");
        let long = provider_key("s", &"k".repeat(255));
        assert_eq!(long.len(), 195);
        assert!(long.starts_with("s/kkkk"), "{long}");
        assert!(long.ends_with("~af10fcf75b3bf989bb05cbf33f3ce42b2a7137f2d0c6e05d43580f2685393f65"), "{long}");
    }

    #[test]
    fn different_actions_have_different_texts() {
        let long = "k".repeat(254);
        let actions = [
            ("a", "b/c"),
            ("a/b", "c"),
            ("a$2Fb", "c"),
            ("a~", "b"),
            ("a", "~b"),
            ("s", &format!("{long}1")),
            ("s", &format!("{long}2")),
        ];
        let texts: HashSet<_> = actions.iter().map(|(scope, key)| provider_key(scope, key)).collect();
        assert_eq!(texts.len(), actions.len());
        assert!(texts.iter().all(|text| text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_graphic())));
    }
}
