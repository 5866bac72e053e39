//! The closing comparison: what should be in the balances, and what is.

use super::{error::StoryError, ledger::Books, notification::Merchant};
use crate::money::Cents;
use std::collections::BTreeMap;

/// One merchant's balances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// `Alipay` or `WeChat`.
    pub(crate) channel: String,
    /// The merchant.
    pub(crate) merchant: String,
    /// From the data files.
    pub(crate) expected: Cents,
    /// From the database that idem guarded.
    pub(crate) with: Books,
    /// From the other database.
    pub(crate) without: Books,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The merchants.
    pub(crate) rows: Vec<Row>,
    /// The sums.
    pub(crate) expected: Cents,
    /// The sums.
    pub(crate) with: Cents,
    /// The sums.
    pub(crate) without: Cents,
}

impl Row {
    /// Whether the balance with idem is what it should be, and so is the flow behind it.
    pub(crate) fn is_right(&self) -> bool {
        self.with.balance == self.expected && self.with.flow == self.expected
    }
}

impl Verdict {
    /// Puts the balances side by side. A merchant that is known on one side only is compared with nothing.
    pub(crate) fn new(
        expected: &BTreeMap<Merchant, Cents>,
        with: &BTreeMap<(String, String), Books>,
        without: &BTreeMap<(String, String), Books>,
    ) -> Result<Self, StoryError> {
        let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
        let row = |(channel, merchant): (String, String)| Row {
            channel,
            merchant,
            expected: Cents::ZERO,
            with: Books::default(),
            without: Books::default(),
        };
        for (merchant, amount) in expected {
            let key = (merchant.channel.to_owned(), merchant.id.clone());
            rows.entry(key.clone()).or_insert_with(|| row(key)).expected = *amount;
        }
        for (key, books) in with {
            rows.entry(key.clone()).or_insert_with(|| row(key.clone())).with = *books;
        }
        for (key, books) in without {
            rows.entry(key.clone()).or_insert_with(|| row(key.clone())).without = *books;
        }
        let rows: Vec<Row> = rows.into_values().collect();
        let sum = |amount: fn(&Row) -> Cents| {
            rows.iter().try_fold(Cents::ZERO, |sum, row| sum.plus(amount(row))).ok_or(StoryError::OutOfRange)
        };
        Ok(Self {
            expected: sum(|row| row.expected)?,
            with: sum(|row| row.with.balance)?,
            without: sum(|row| row.without.balance)?,
            rows,
        })
    }

    /// Whether idem's money is right, for every merchant.
    pub(crate) fn is_right(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(Row::is_right)
    }

    /// Whether the unprotected money is wrong, so that the comparison shows anything.
    pub(crate) fn shows_a_difference(&self) -> bool {
        self.rows.iter().any(|row| row.without.balance != row.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::{Books, Cents, Merchant, Verdict};
    use std::collections::BTreeMap;

    fn expected() -> BTreeMap<Merchant, Cents> {
        BTreeMap::from([
            (Merchant { channel: "Alipay", id: "1".into() }, Cents::new(100)),
            (Merchant { channel: "WeChat", id: "1".into() }, Cents::new(-50)),
        ])
    }

    fn books(rows: &[(&str, i64, i64)]) -> BTreeMap<(String, String), Books> {
        rows.iter()
            .map(|(channel, balance, flow)| {
                let books = Books { balance: Cents::new(*balance), flow: Cents::new(*flow) };
                (((*channel).to_owned(), "1".to_owned()), books)
            })
            .collect()
    }

    #[test]
    fn only_exact_books_are_right() {
        let right = books(&[("Alipay", 100, 100), ("WeChat", -50, -50)]);
        let doubled = books(&[("Alipay", 200, 200), ("WeChat", -50, -50)]);
        let verdict = Verdict::new(&expected(), &right, &doubled).unwrap();
        assert!(verdict.is_right());
        assert!(verdict.shows_a_difference());
        assert_eq!(
            (verdict.expected, verdict.with, verdict.without),
            (Cents::new(50), Cents::new(50), Cents::new(150))
        );
        for wrong in [
            doubled,
            books(&[("Alipay", 0, 0), ("WeChat", 50, 50)]),
            books(&[("Alipay", 100, 100)]),
            books(&[("Alipay", 100, 200), ("WeChat", -50, -50)]),
            books(&[("Alipay", 100, 100), ("WeChat", -50, -50), ("Other", 1, 1)]),
            books(&[]),
        ] {
            let verdict = Verdict::new(&expected(), &wrong, &right).unwrap();
            assert!(!verdict.is_right(), "{wrong:?}");
            assert!(!verdict.shows_a_difference());
        }
    }

    #[test]
    fn nothing_is_not_right() {
        assert!(!Verdict::new(&BTreeMap::new(), &BTreeMap::new(), &BTreeMap::new()).unwrap().is_right());
    }

    #[test]
    fn errors_that_cancel_out_in_the_sum_are_still_wrong() {
        let crossed = books(&[("Alipay", -50, -50), ("WeChat", 100, 100)]);
        let verdict = Verdict::new(&expected(), &crossed, &crossed).unwrap();
        assert_eq!(verdict.with, verdict.expected);
        assert!(!verdict.is_right());
    }
}
