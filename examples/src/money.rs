//! Money as whole cents.

use std::fmt;

/// An amount in cents. Never a float: 19.90 has no exact binary fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cents(i64);

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAmount {
    /// Signs, spaces, exponents, other digits, too many decimals.
    #[error("an amount is digits with at most two decimals, such as 88.88")]
    Form,
    /// More than the ledger can hold.
    #[error("the amount is too large")]
    TooLarge,
}

impl Cents {
    /// Nothing.
    pub(crate) const ZERO: Self = Self(0);

    /// An amount that is given in cents already.
    pub(crate) const fn new(cents: i64) -> Self {
        Self(cents)
    }

    /// The number of cents, as the ledger stores it.
    pub(crate) const fn get(self) -> i64 {
        self.0
    }

    /// Reads a decimal text in yuan, such as `88.88`, `88.8` or `88`.
    pub(crate) fn from_yuan(text: &str) -> Result<Self, BadAmount> {
        let (yuan, fraction) = match text.split_once('.') {
            Some((_, "")) => return Err(BadAmount::Form),
            Some((yuan, fraction)) => (yuan, fraction),
            None => (text, ""),
        };
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if yuan.is_empty() || fraction.len() > 2 || !digits(yuan) || !digits(fraction) {
            return Err(BadAmount::Form);
        }
        format!("{yuan}{fraction:0<2}").parse().map(Self).map_err(|_| BadAmount::TooLarge)
    }

    /// The sum, if the ledger can hold it.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, if the ledger can hold it.
    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The same amount with a sign in front, for movements: `+88.88`, `-20.00`, `0.00`.
    pub(crate) fn signed(self) -> String {
        if self.0 > 0 { format!("+{self}") } else { self.to_string() }
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        f.pad(&format!("{sign}{}.{:02}", cents / 100, cents % 100))
    }
}

#[cfg(test)]
mod tests {
    use super::{BadAmount, Cents};

    #[test]
    fn yuan_are_read_exactly() {
        for (text, cents) in [
            ("88.88", 8888),
            ("0.01", 1),
            ("0.1", 10),
            ("19.90", 1990),
            ("1.15", 115),
            ("100000000.00", 10_000_000_000),
            ("7", 700),
            ("007.5", 750),
        ] {
            assert_eq!(Cents::from_yuan(text), Ok(Cents::new(cents)), "{text}");
        }
        assert_eq!(Cents::from_yuan("92233720368547758.07"), Ok(Cents::new(i64::MAX)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", ".", ".5", "5.", "1.234", "-1.00", "+1.00", " 1.00", "1.00 ", "1,000.00", "1e3", "1.0.0", "NaN",
            "１.00", "1.０0",
        ] {
            assert_eq!(Cents::from_yuan(text), Err(BadAmount::Form), "{text:?}");
        }
        for text in ["92233720368547758.08", "99999999999999999999"] {
            assert_eq!(Cents::from_yuan(text), Err(BadAmount::TooLarge), "{text:?}");
        }
    }

    #[test]
    fn cents_are_written_with_two_decimals() {
        for (cents, text, signed) in [
            (0, "0.00", "0.00"),
            (5, "0.05", "+0.05"),
            (-5, "-0.05", "-0.05"),
            (8888, "88.88", "+88.88"),
            (-123_456, "-1234.56", "-1234.56"),
        ] {
            assert_eq!(Cents::new(cents).to_string(), text);
            assert_eq!(Cents::new(cents).signed(), signed);
        }
        assert_eq!(format!("{:>8}", Cents::new(5)), "    0.05");
        assert_eq!(Cents::new(i64::MIN).to_string(), "-92233720368547758.08");
    }

    #[test]
    fn sums_never_wrap() {
        assert_eq!(Cents::new(i64::MAX).plus(Cents::new(1)), None);
        assert_eq!(Cents::new(i64::MIN).minus(Cents::new(1)), None);
        assert_eq!(Cents::new(3).plus(Cents::new(4)), Some(Cents::new(7)));
        assert_eq!(Cents::new(3).minus(Cents::new(4)), Some(Cents::new(-1)));
    }
}
