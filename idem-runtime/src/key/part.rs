//! What may stand in a key, and at what risk.
//!
//! Every type that can be written as a key part names its *risk*. A part accepts risks: by itself only [`Stable`];
//! `allow(random(msg.request_id), reason = "..")` makes that one part accept [`Random`]. The traits are arranged so
//! that the compiler's message names the part and the reason: the refusing trait is implemented by the part's marker
//! and has the value's type as its parameter.

use super::encode::KeyWriter;
use std::{borrow::Cow, fmt, marker::PhantomData, num, rc::Rc, sync::Arc, time};

/// A value that can be a part of a key.
///
/// Implemented for strings, integers, `bool`, `char` and pointers to them. Derive it for newtypes and for enums of
/// unit variants:
///
/// ```
/// use idem_runtime::{Key, KeyPart};
///
/// #[derive(KeyPart)]
/// struct OrderNo(String);
///
/// #[derive(KeyPart)]
/// enum TradeStatus {
///     Success,
///     #[key_part(text = "CLOSED")]
///     Closed,
/// }
///
/// let key = Key::scope("payment")
///     .part(&OrderNo("A-1".into()))
///     .text(":")
///     .part(&TradeStatus::Closed)
///     .finish()?;
/// assert_eq!(key.text(), "A-1:CLOSED");
/// # Ok::<(), idem_runtime::KeyError>(())
/// ```
///
/// # Writing it by hand
/// One value must always give the same text, and different values different texts; the text becomes part of stored
/// keys, so it must never change. `Risk` says honestly what the value is; most hand-written types are [`Stable`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stable business identifier, so it cannot be part of an idempotency key",
    label = "not a key part",
    note = "key parts are strings, integers, bools, enums of unit variants and newtypes over them, with `#[derive(KeyPart)]`",
    note = "use the number the business already has, such as the order or payment number"
)]
pub trait KeyPart {
    /// What may be wrong with the value as an identity: [`Stable`], or one of the other risks, or a pair of risks.
    type Risk;

    /// Writes the value's text.
    fn write_key(&self, out: &mut KeyWriter<'_>);
}

/// The risk of a value that identifies a business fact: none.
#[derive(Debug)]
pub struct Stable;

macro_rules! risks {
    ($($(#[$doc:meta])* $risk:ident)*) => {$(
        $(#[$doc])*
        pub struct $risk<T: ?Sized>(PhantomData<T>);

        impl<T: ?Sized> fmt::Debug for $risk<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($risk))
            }
        }
    )*};
}

risks! {
    /// The risk of a value that may be missing: different actions without it would be one.
    MayBeNull
    /// The risk of a random identifier: a new one for every send.
    Random
    /// The risk of a point in time: it moves between sends.
    Moment
    /// The risk of a floating-point number: one value has many texts.
    Float
    /// The risk of an id that the broker assigned: it names a delivery, not an action.
    BrokerAssigned
}

// What the compiler says about a refused part. The reasons and ways out are those of the rule table in idem-macros, and
// a test there compares them.

/// Implemented by the marker of a part that accepts a value that may be missing.
#[diagnostic::on_unimplemented(
    message = "key part `{Self}` may be null: its type is `{T}`",
    label = "can be missing: two different actions without it would get the same key",
    note = "to require it at run time write `?` behind it: a message without it then fails, and nothing runs",
    note = "if a missing value is a business value of its own, add `allow(null(..), reason = \"..\")`"
)]
pub trait AllowsNull<T: ?Sized> {}

/// Implemented by the marker of a part that accepts a random identifier.
#[diagnostic::on_unimplemented(
    message = "key part `{Self}` is a random identifier (`{T}`): it differs on every send, so a repeat would not be recognised",
    label = "random identifier in an idempotency key",
    note = "use the number the business already has, such as the order or payment number",
    note = "if it is made once per action and sent again unchanged, add `allow(random(..), reason = \"..\")`"
)]
pub trait AllowsRandom<T: ?Sized> {}

/// Implemented by the marker of a part that accepts a point in time.
#[diagnostic::on_unimplemented(
    message = "key part `{Self}` is a point in time (`{T}`): it differs on every send, so a repeat would not be recognised",
    label = "point in time in an idempotency key",
    note = "use the number the business already has; a plain date (one action a day) is fine",
    note = "if it is fixed with the action and sent again unchanged, add `allow(time(..), reason = \"..\")`"
)]
pub trait AllowsTime<T: ?Sized> {}

/// Implemented by the marker of a part that accepts a floating-point number.
#[diagnostic::on_unimplemented(
    message = "key part `{Self}` is a floating-point number (`{T}`): one value can be written in many ways",
    label = "floating-point number in an idempotency key",
    note = "use an integer in the smallest unit, such as cents, or the number the business already has",
    note = "if its bits are always the same for the same action, add `allow(float(..), reason = \"..\")`"
)]
pub trait AllowsFloat<T: ?Sized> {}

/// Implemented by the marker of a part that accepts an id that the broker assigned.
#[diagnostic::on_unimplemented(
    message = "key part `{Self}` is assigned by the broker (`{T}`): it names a delivery, and the same action sent again gets another one",
    label = "broker-assigned id in an idempotency key",
    note = "use the number the business already has, such as the order or payment number",
    note = "if the sender sets it once per action and sends it again unchanged, add `allow(broker_id(..), reason = \"..\")`"
)]
pub trait AllowsBrokerId<T: ?Sized> {}

/// A risk that a part takes. Implemented for every risk; not for implementing.
#[diagnostic::on_unimplemented(
    message = "the risk of this key part is not known to be accepted by `{Part}`",
    label = "a generic key part must say that it is stable",
    note = "bound the type parameter by `KeyPart<Risk = Stable>`"
)]
pub trait AcceptedBy<Part> {}

// The compiler quotes these lines in its messages, so each is one line.
impl<P> AcceptedBy<P> for Stable {}
impl<P: AllowsNull<T>, T: ?Sized> AcceptedBy<P> for MayBeNull<T> {}
impl<P: AllowsRandom<T>, T: ?Sized> AcceptedBy<P> for Random<T> {}
impl<P: AllowsTime<T>, T: ?Sized> AcceptedBy<P> for Moment<T> {}
impl<P: AllowsFloat<T>, T: ?Sized> AcceptedBy<P> for Float<T> {}
impl<P: AllowsBrokerId<T>, T: ?Sized> AcceptedBy<P> for BrokerAssigned<T> {}
impl<P, A: AcceptedBy<P>, B: AcceptedBy<P>> AcceptedBy<P> for (A, B) {}

/// The marker of a part in a key built by hand: it accepts no risk.
#[derive(Debug)]
pub struct Unnamed;

/// A value that can be missing, for parts written with `?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be missing, so `?` behind it in the key has no meaning",
    label = "always present",
    note = "leave the `?` out; for a newtype over `Option` write it behind the value inside: `msg.refund_no.0?`"
)]
pub trait Optional {
    /// The value when it is present.
    type Value: ?Sized;

    /// The value, if it is present.
    fn present(&self) -> Option<&Self::Value>;
}

impl<T> Optional for Option<T> {
    type Value = T;

    fn present(&self) -> Option<&T> {
        self.as_ref()
    }
}

// `do_not_recommend`: the compiler lists the first few types that can be parts. It is to name the plain ones, and none
// that it would refuse next.

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            type Risk = T::Risk;

            fn write_key(&self, out: &mut KeyWriter<'_>) {
                T::write_key(self, out);
            }
        }

        #[diagnostic::do_not_recommend]
        impl<T: Optional + ?Sized> Optional for $pointer {
            type Value = T::Value;

            fn present(&self) -> Option<&T::Value> {
                T::present(self)
            }
        }
    )*};
}

pointers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

#[diagnostic::do_not_recommend]
impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    type Risk = T::Risk;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        T::write_key(self, out);
    }
}

impl<T: KeyPart> KeyPart for Option<T> {
    type Risk = (MayBeNull<Self>, T::Risk);

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        match self {
            Some(value) => out.some(|out| value.write_key(out)),
            None => out.none(),
        }
    }
}

impl KeyPart for str {
    type Risk = Stable;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        out.text(self);
    }
}

impl KeyPart for String {
    type Risk = Stable;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        out.text(self);
    }
}

macro_rules! displayed {
    ($($type:ty),*) => {$(
        impl KeyPart for $type {
            type Risk = Stable;

            fn write_key(&self, out: &mut KeyWriter<'_>) {
                out.display(self);
            }
        }
    )*};
}

macro_rules! non_zero {
    ($($number:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl KeyPart for num::NonZero<$number> {
            type Risk = Stable;

            fn write_key(&self, out: &mut KeyWriter<'_>) {
                out.display(self);
            }
        }
    )*};
}

displayed!(bool, char, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
non_zero!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

// A value whose part is allowed by a written reason is written by its bits or its count of nanoseconds: one value,
// one text, without a formatting library's opinion.

macro_rules! floats {
    ($($float:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl KeyPart for $float {
            type Risk = Float<Self>;

            fn write_key(&self, out: &mut KeyWriter<'_>) {
                out.display(format_args!("{:x}", self.to_bits()));
            }
        }
    )*};
}

floats!(f32, f64);

#[diagnostic::do_not_recommend]
impl KeyPart for time::SystemTime {
    type Risk = Moment<Self>;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        match self.duration_since(Self::UNIX_EPOCH) {
            Ok(since) => out.display(since.as_nanos()),
            Err(before) => out.display(format_args!("-{}", before.duration().as_nanos())),
        }
    }
}
