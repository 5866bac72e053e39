//! The tables of a store, and what their columns must hold.

use super::settings::TableName;
use std::fmt;

/// What a column holds. Each database has its types for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Part of the unique key: never null, and compared byte for byte.
    Key,
    Text,
    LongText,
    /// An attempt's token.
    Attempt,
    /// A digest of up to 64 bytes.
    Digest,
    LongBytes,
    Time,
    Number,
}

/// One of the tables. In each, scope and key together are unique.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: TableName,
    part: Part,
}

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What has been done.
    Records,
    /// One-time tokens that were issued.
    Tokens,
    /// Work outside the database: begun, and done.
    Leases,
    /// How often messages were begun that are being tried again.
    Attempts,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Records, Self::Tokens, Self::Leases, Self::Attempts];

    /// What follows the name of the record table.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Records => "",
            Self::Tokens => "_tokens",
            Self::Leases => "_leases",
            Self::Attempts => "_attempts",
        }
    }
}

impl Table {
    pub(crate) fn new(records: &TableName, part: Part) -> Self {
        Self { name: records.with_suffix(part.suffix()), part }
    }

    pub(crate) const fn part(&self) -> Part {
        self.part
    }

    pub(crate) const fn columns(&self) -> &'static [(&'static str, Kind)] {
        match self.part {
            Part::Records => &[
                ("scope", Kind::Key),
                ("action_key", Kind::Key),
                ("delivery_id", Kind::Text),
                ("attempt", Kind::Attempt),
                ("fingerprint", Kind::Digest),
                ("message", Kind::LongText),
                ("result", Kind::LongBytes),
                ("claimed_at", Kind::Time),
                ("keep_until", Kind::Time),
            ],
            Part::Tokens => &[
                ("scope", Kind::Key),
                ("action_key", Kind::Key),
                ("issued_at", Kind::Time),
                ("expires_at", Kind::Time),
                ("keep_until", Kind::Time),
            ],
            Part::Attempts => &[
                ("scope", Kind::Key),
                ("action_key", Kind::Key),
                ("attempts", Kind::Number),
                ("first_at", Kind::Time),
                ("keep_until", Kind::Time),
            ],
            Part::Leases => &[
                ("scope", Kind::Key),
                ("action_key", Kind::Key),
                ("fence", Kind::Number),
                ("attempt", Kind::Attempt),
                ("attempts", Kind::Number),
                ("delivery_id", Kind::Text),
                ("fingerprint", Kind::Digest),
                ("message", Kind::LongText),
                ("result", Kind::LongBytes),
                ("begun_at", Kind::Time),
                ("lease_until", Kind::Time),
                ("done_at", Kind::Time),
                ("keep_until", Kind::Time),
            ],
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}
