//! The fingerprint of a message's payload: same key, other payload is a mistake of the sender, or fraud.

use super::{
    KeyError,
    encode::KeyWriter,
    part::{AcceptedBy, KeyPart, Unnamed},
};
use sha2::{Digest, Sha256};

/// The first byte of a fingerprint: how the rest was made.
const VERSION: u8 = 1;
const SHAPE_BYTES: usize = 8;

/// What the same action carries each time: its amount, its currency. Compared on a repeat, never part of the identity.
///
/// `#[idempotent(payload = ..)]` builds it, with the syntax of `key`. By hand:
///
/// ```
/// use idem_runtime::{Key, Payload};
///
/// let payload = Payload::new().part(&100_i64).text(":").part("CNY");
/// let key = Key::scope("payment.callback").part("A1001").payload(payload).finish()?;
/// # Ok::<(), idem_runtime::KeyError>(())
/// ```
///
/// Values are compared in the encoding of keys, so it does not matter how a message was written down: order of members,
/// white space and unknown members are not seen. A blank or missing value is a value like others here.
#[derive(Clone, Debug, Default)]
#[must_use = "a payload belongs to a key: `.payload(payload)`"]
pub struct Payload {
    text: String,
    shape: Sha256,
    parts: usize,
    after_part: bool,
    error: Option<KeyError>,
}

impl Payload {
    /// A payload without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part.
    pub fn part<T>(self, value: &T) -> Self
    where
        T: KeyPart<Risk: AcceptedBy<Unnamed>> + ?Sized,
    {
        let name = (self.parts + 1).to_string();
        self.push(value, &name)
    }

    /// Adds a part under a name; see [`KeyBuilder::named_part`](crate::KeyBuilder::named_part).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "by value, the compiler underlines the part and not a reference to its name"
    )]
    pub fn named_part<P, T>(self, name: P, value: &T) -> Self
    where
        T: KeyPart<Risk: AcceptedBy<P>> + ?Sized,
    {
        let name = super::builder::part_name(&name);
        self.push(value, &name)
    }

    /// Adds literal text between parts.
    pub fn text(mut self, text: &str) -> Self {
        self.shape_piece(1, text);
        self.text.push('|');
        self.after_part = false;
        self
    }

    fn push<T: KeyPart + ?Sized>(mut self, value: &T, name: &str) -> Self {
        if self.after_part {
            self.text.push('|');
        }
        let mut writer = KeyWriter::new(&mut self.text);
        value.write_key(&mut writer);
        if writer.has_failed() && self.error.is_none() {
            self.error = Some(KeyError::Unwritten { part: name.to_owned() });
        }
        self.shape_piece(0, name);
        self.parts += 1;
        self.after_part = true;
        self
    }

    /// A piece of the shape, with its length before it: no text then looks like two pieces.
    fn shape_piece(&mut self, kind: u8, piece: &str) {
        self.shape.update([kind]);
        self.shape.update((piece.len() as u64).to_be_bytes());
        self.shape.update(piece);
    }

    pub(super) fn finish(self) -> Result<Fingerprint, KeyError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.shape.finalize()[..SHAPE_BYTES]);
        bytes.extend_from_slice(&Sha256::digest(&self.text));
        Ok(Fingerprint(bytes))
    }
}

/// A digest of a payload, and of which parts it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<u8>);

/// How two fingerprints compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Same,
    Different,
    /// The handler's `payload` was written otherwise then, so nothing can be said.
    OtherShape,
}

impl Fingerprint {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn compare(&self, stored: &[u8]) -> Compared {
        let head = 1 + SHAPE_BYTES;
        if self.0 == stored {
            Compared::Same
        } else if self.0.get(..head) == stored.get(..head) && self.0.len() == stored.len() {
            Compared::Different
        } else {
            Compared::OtherShape
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::{Compared, Fingerprint, Payload};

    fn payload(amount: i64, currency: &str) -> Fingerprint {
        Payload::new().part(&amount).text(":").part(currency).finish().unwrap()
    }

    /// Stored in users' databases: it never changes.
    #[test]
    fn the_fingerprint_is_frozen() {
        let hex = super::super::hex(payload(100, "CNY").as_bytes());
        // By another tool: `printf '100|CNY' | sha256sum` behind 01 and the first 8 bytes of
        // `printf '\\0\\0\\0\\0\\0\\0\\0\\0\\0011\\1\\0\\0\\0\\0\\0\\0\\0\\1:\\0\\0\\0\\0\\0\\0\\0\\0\\0012' | sha256sum`.
        assert_eq!(
            hex,
            "01129084d86c5ac657\
             2090ad4d884bb3f42e95ee6c0a9994819b9f086ef9ce60ec1f0c9c7229ed3067"
        );
    }

    #[test]
    fn values_are_compared_and_shapes_are_not_mixed() {
        let first = payload(100, "CNY");
        assert_eq!(payload(100, "CNY").compare(first.as_bytes()), Compared::Same);
        assert_eq!(payload(200, "CNY").compare(first.as_bytes()), Compared::Different);
        let other = Payload::new().part(&100_i64).finish().unwrap();
        assert_eq!(other.compare(first.as_bytes()), Compared::OtherShape);
        assert_eq!(first.compare(b""), Compared::OtherShape);
        assert_eq!(first.compare(b"\x02later"), Compared::OtherShape);
    }

    #[test]
    fn no_literal_looks_like_two_pieces_of_a_shape() {
        let shape = |payload: Payload| payload.finish().unwrap().as_bytes()[..9].to_vec();
        let two = Payload::new().text("a").part("x").text("b");
        let piece = "a\0\0\0\0\0\0\0\0\u{1}1\u{1}\0\0\0\0\0\0\0\u{1}b";
        for one in [piece, "a\u{0}1\u{1}b"] {
            assert_ne!(shape(two.clone()), shape(Payload::new().text(one)), "{one:?}");
        }
        assert_ne!(shape(Payload::new().text("ab")), shape(Payload::new().text("a").text("b")));
    }

    #[test]
    fn a_separator_in_a_value_is_no_separator() {
        let two = |a: &str, b: &str| Payload::new().part(a).text(":").part(b).finish().unwrap();
        assert_ne!(two("1|2", "3"), two("1", "2|3"));
        assert_ne!(two("", "x"), two("x", ""));
        let missing = |value: Option<&str>| {
            let mut payload = Payload::new();
            payload = payload.push(&value, "1");
            payload.finish().unwrap()
        };
        assert_ne!(missing(None), missing(Some("")));
        assert_ne!(missing(None), missing(Some("%none")));
    }
}
