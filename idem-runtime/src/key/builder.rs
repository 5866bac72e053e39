use super::{
    encode::{KeyWriter, fit, push_literal},
    part::{AcceptedBy, KeyPart, Optional, Unnamed},
    payload::{Fingerprint, Payload},
    scope,
};
use crate::{error::TokenError, log, token};
use std::{borrow::Cow, fmt, panic::Location};

/// Longest scope, in bytes.
const MAX_SCOPE_BYTES: usize = 255;
/// Longest delivery id kept, in bytes: it is for people to read, and some brokers put whole paths there.
const MAX_DELIVERY_BYTES: usize = 255;
/// Longest message text kept in a record, in bytes.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// The identity of one business action: a scope and the key text inside it.
///
/// `#[idempotent]` builds it from `key = ..`. By hand:
///
/// ```
/// use idem_runtime::Key;
///
/// let key = Key::scope("points.credit").part(&"user-7").text(":").part(&20_260_131_u64).finish()?;
/// assert_eq!(key.scope_name(), "points.credit");
/// assert_eq!(key.text(), "user-7:20260131");
/// # Ok::<(), idem_runtime::KeyError>(())
/// ```
///
/// Different values never give the same text, wherever the separators fall:
///
/// ```
/// # use idem_runtime::Key;
/// let key = |a: &str, b: &str| Key::scope("s").part(a).text(":").part(b).finish().map(|key| key.text().to_owned());
/// assert_eq!(key("a:b", "c")?, "a%3Ab:c");
/// assert_eq!(key("a", "b:c")?, "a:b%3Ac");
/// # Ok::<(), idem_runtime::KeyError>(())
/// ```
///
/// Keys are equal when scope and text are: the same action, whatever the delivery.
#[derive(Clone, Debug)]
pub struct Key {
    scope: Cow<'static, str>,
    text: String,
    delivery: Option<String>,
    message: Option<String>,
    fingerprint: Option<Fingerprint>,
    /// It is burnt by its claim, which must find it issued.
    token: bool,
}

impl Key {
    /// Starts a key in a scope of your choice, for example `"payment.callback"`. The scope is part of the identity:
    /// keep it when the code moves.
    pub fn scope(scope: impl Into<Cow<'static, str>>) -> KeyBuilder {
        KeyBuilder::new(scope.into())
    }

    /// Starts a key in the default scope of a handler, its module path and name.
    ///
    /// Two places in the source that start a key with the same default scope are two handlers that would share a key
    /// space by accident; the second one's [`finish`](KeyBuilder::finish) answers [`KeyError::ScopeShared`].
    #[track_caller]
    pub fn handler(scope: &'static str) -> KeyBuilder {
        let mut builder = KeyBuilder::new(Cow::Borrowed(scope));
        let here = Location::caller();
        if let Err(other) = scope::note(scope, here) {
            builder.fail(|| KeyError::ScopeShared {
                scope: scope.to_owned(),
                here: here.to_string(),
                other: other.to_string(),
            });
        }
        builder
    }

    /// Starts the key of a one-time token: `token = ..` in `#[idempotent]`. Not the token itself but a digest of it stands
    /// in the key, in the record and in logs. `scope` is the one that [`Store::tokens`](crate::Store::tokens) issued it for.
    pub fn token(scope: impl Into<Cow<'static, str>>, token: &(impl AsRef<str> + ?Sized)) -> KeyBuilder {
        let mut builder = KeyBuilder::new(scope.into());
        builder.token = true;
        match token::digest(token.as_ref()) {
            Ok(digest) => {
                builder.text = format!("token:{digest}");
                builder.parts = 1;
            }
            Err(error) => builder.fail(|| KeyError::Token(error)),
        }
        builder
    }

    /// Starts what stands in a key's place where a guard alone is the claim: a scope for logs, and the delivery. It names
    /// no action, and no record is written for it; see [`Store::claim_guarded`](crate::Store::claim_guarded).
    pub fn unrecorded(scope: impl Into<Cow<'static, str>>) -> KeyBuilder {
        let mut builder = KeyBuilder::new(scope.into());
        builder.unrecorded = true;
        builder
    }

    /// Whether a record is written under this key.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.text.is_empty()
    }

    /// The scope: which handler.
    #[must_use]
    pub fn scope_name(&self) -> &str {
        &self.scope
    }

    /// The encoded key text: which fact. At most 255 bytes.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The delivery id given for logs, if any.
    #[must_use]
    pub fn delivery_id(&self) -> Option<&str> {
        self.delivery.as_deref()
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    pub(crate) fn fingerprint(&self) -> Option<&Fingerprint> {
        self.fingerprint.as_ref()
    }

    pub(crate) const fn is_token(&self) -> bool {
        self.token
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (&self.scope, &self.text) == (&other.scope, &other.text)
    }
}

impl Eq for Key {}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope, self.text)
    }
}

/// Builds a [`Key`]. The first thing that is wrong is reported by [`finish`](Self::finish).
#[derive(Clone, Debug)]
#[must_use = "a key is built by `finish()`"]
pub struct KeyBuilder {
    scope: Cow<'static, str>,
    text: String,
    parts: usize,
    after_part: bool,
    delivery: Option<String>,
    message: Option<String>,
    payload: Option<Payload>,
    token: bool,
    unrecorded: bool,
    error: Option<Box<KeyError>>,
}

impl KeyBuilder {
    fn new(scope: Cow<'static, str>) -> Self {
        let mut builder = Self {
            scope,
            text: String::new(),
            parts: 0,
            after_part: false,
            delivery: None,
            message: None,
            payload: None,
            token: false,
            unrecorded: false,
            error: None,
        };
        let length = builder.scope.len();
        if builder.scope.trim().is_empty() || length > MAX_SCOPE_BYTES || builder.scope.chars().any(char::is_control) {
            let scope = builder.scope.to_string();
            builder.fail(|| KeyError::Scope { scope });
        }
        builder
    }

    fn fail(&mut self, error: impl FnOnce() -> KeyError) {
        if self.error.is_none() {
            self.error = Some(Box::new(error()));
        }
    }

    /// Adds a part.
    ///
    /// A type that cannot identify a business action does not compile:
    ///
    /// ```compile_fail
    /// # use idem_runtime::Key;
    /// let refund_no: Option<String> = None;
    /// let key = Key::scope("refund").part(&refund_no).finish();
    /// ```
    pub fn part<T>(self, value: &T) -> Self
    where
        T: KeyPart<Risk: AcceptedBy<Unnamed>> + ?Sized,
    {
        let number = self.parts + 1;
        self.push(value, || number.to_string())
    }

    /// Adds a part under a name: `name` is a unit struct whose type names the part in the compiler's messages, and
    /// which accepts a risk by implementing the `Allows..` trait of it. This is what `#[idempotent]` writes.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "by value, the compiler underlines the part and not a reference to its name"
    )]
    pub fn named_part<P, T>(self, name: P, value: &T) -> Self
    where
        T: KeyPart<Risk: AcceptedBy<P>> + ?Sized,
    {
        self.push(value, || part_name(&name))
    }

    /// Adds a part that is required at run time, written `msg.refund_no?` in `#[idempotent]`. When it is missing the
    /// key is refused with [`KeyError::Missing`], so nothing runs and nothing is stored.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "by value, the compiler underlines the part and not a reference to its name"
    )]
    pub fn required<P, O>(mut self, name: P, value: &O) -> Self
    where
        O: Optional<Value: KeyPart<Risk: AcceptedBy<P>>> + ?Sized,
    {
        if let Some(value) = value.present() {
            self.push(value, || part_name(&name))
        } else {
            self.fail(|| KeyError::Missing { part: part_name(&name) });
            self
        }
    }

    fn push<T: KeyPart + ?Sized>(mut self, value: &T, name: impl FnOnce() -> String) -> Self {
        if self.after_part {
            self.text.push(':');
        }
        let mut writer = KeyWriter::new(&mut self.text);
        value.write_key(&mut writer);
        let (blank, failed) = (writer.is_blank(), writer.has_failed());
        if failed {
            self.fail(|| KeyError::Unwritten { part: name() });
        } else if blank {
            self.fail(|| KeyError::Blank { part: name() });
        }
        self.parts += 1;
        self.after_part = true;
        self
    }

    /// Adds literal text, such as a separator or the name of the event.
    pub fn text(mut self, text: &str) -> Self {
        if !text.is_empty() {
            push_literal(&mut self.text, text);
            self.after_part = false;
        }
        self
    }

    /// Says which delivery this is, as the broker or the sender named it. It is logged and kept with the first
    /// delivery's record; it is never part of the identity. Kept up to 255 bytes.
    pub fn delivery(mut self, id: &(impl fmt::Display + ?Sized)) -> Self {
        self.delivery = Some(cut(id.to_string(), MAX_DELIVERY_BYTES));
        self
    }

    /// Keeps the message in the record, as its `Debug` text, for later investigation. Kept up to 256 KiB.
    pub fn record(mut self, message: &(impl fmt::Debug + ?Sized)) -> Self {
        self.message = Some(cut(format!("{message:?}"), MAX_MESSAGE_BYTES));
        self
    }

    /// Says what the action carries each time: on a repeat it is compared, and a difference is
    /// [`Error::PayloadMismatch`](crate::Error::PayloadMismatch).
    pub fn payload(mut self, payload: Payload) -> Self {
        self.payload = Some(payload);
        self
    }

    /// The key.
    ///
    /// # Errors
    /// The first of: a scope that is blank, too long or shared with another handler; a part that is blank or missing;
    /// no part at all. All are permanent: the same message would fail again.
    pub fn finish(mut self) -> Result<Key, KeyError> {
        // One that is unrecorded has no text, whatever was added to it.
        if self.unrecorded {
            self.text.clear();
        } else if self.parts == 0 {
            self.fail(|| KeyError::NoPart);
        }
        let fingerprint = match self.payload.take().map(Payload::finish).transpose() {
            Ok(fingerprint) => fingerprint,
            Err(error) => {
                self.fail(|| error);
                None
            }
        };
        match self.error {
            Some(error) => {
                // Logged here and not by the claim: only here are the scope and the delivery known.
                log::no_key(&self.scope, self.delivery.as_deref(), &error);
                Err(*error)
            }
            None => Ok(Key {
                scope: self.scope,
                text: fit(self.text),
                delivery: self.delivery,
                message: self.message,
                fingerprint,
                token: self.token,
            }),
        }
    }
}

/// Makes a text for people storable on every database: PostgreSQL takes no NUL. Marks that something was left out.
fn cut(mut text: String, max: usize) -> String {
    const MARK: &str = "…";
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > max {
        let mut end = max - MARK.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

/// The name of a part for an error text, from its marker: `on_refund__msg_refund_no` is `msg_refund_no`.
pub(super) fn part_name<P>(_: &P) -> String {
    let path = std::any::type_name::<P>();
    let name = path.rsplit("::").next().unwrap_or(path);
    name.split_once("__").map_or(name, |(_, part)| part).to_owned()
}

/// Why a key cannot be used. Permanent: the same message fails the same way, so it belongs in a dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A part that is required at run time is missing.
    #[error("key part `{part}` is missing; without it the action has no identity")]
    Missing {
        /// The part.
        part: String,
    },
    /// A part is empty or white space only.
    #[error("key part `{part}` is blank; blank parts would make different actions equal")]
    Blank {
        /// The part, or its number in a key built by hand.
        part: String,
    },
    /// A part's own `Display` reported an error.
    #[error("key part `{part}` could not be written: its `Display` reported an error")]
    Unwritten {
        /// The part, or its number in a key built by hand.
        part: String,
    },
    /// The key has no part, only literal text.
    #[error("the key has no part: a key of literal text alone is the same for every message")]
    NoPart,
    /// The scope is blank, over 255 bytes or holds a control character.
    #[error("the scope {scope:?} cannot be used: it must be 1 to 255 bytes with no control character")]
    Scope {
        /// The scope.
        scope: String,
    },
    /// The text is no one-time token.
    #[error("{0}")]
    Token(TokenError),
    /// Two handlers have the same default scope.
    #[error(
        "two handlers have the default scope `{scope}`, one at {other} and one at {here}: \
         give at least one of them a scope of its own with `scope = \"..\"`"
    )]
    ScopeShared {
        /// The scope.
        scope: String,
        /// The handler that was refused.
        here: String,
        /// The handler that used the scope first.
        other: String,
    },
}

/// What [`Store::claim`](crate::Store::claim) takes: a [`Key`], or the result of building one.
pub trait IntoKey: sealed::Sealed {
    #[doc(hidden)]
    fn into_key(self) -> Result<Key, KeyError>;
}

impl IntoKey for Key {
    fn into_key(self) -> Result<Key, KeyError> {
        Ok(self)
    }
}

impl IntoKey for Result<Key, KeyError> {
    fn into_key(self) -> Result<Key, KeyError> {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Key {}
    impl Sealed for Result<super::Key, super::KeyError> {}
}
