use crate::{error::ConfigurationError, gate::Front, retention::Retention};
use std::{fmt, sync::Arc, time::Duration};

/// The isolation level of a unit's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// READ COMMITTED, on every database: after waiting for another delivery the body sees what that one wrote.
    #[default]
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE. The commit may fail with a retryable error.
    Serializable,
    /// What the database, role or session is configured for.
    DatabaseDefault,
}

impl Isolation {
    /// The level's name in SQL, unless the database's default is wanted. (SQLite has one level, serializable.)
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) const fn sql(self) -> Option<&'static str> {
        match self {
            Self::ReadCommitted => Some("READ COMMITTED"),
            Self::RepeatableRead => Some("REPEATABLE READ"),
            Self::Serializable => Some("SERIALIZABLE"),
            Self::DatabaseDefault => None,
        }
    }
}

/// The record table's name: one or two plain identifiers, so that it can stand in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    schema: Option<String>,
    name: String,
}

impl TableName {
    pub(crate) const DEFAULT: &'static str = "idem_records";
    /// How the name of an index ends.
    const INDEX: &'static str = "_keep_until";

    pub(crate) fn parse(text: &str) -> Result<Self, ConfigurationError> {
        let plain = |part: &str| {
            (1..=48).contains(&part.len())
                && !part.starts_with(|first: char| first.is_ascii_digit())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, text),
        };
        if plain(name) && schema.is_none_or(plain) {
            Ok(Self { schema: schema.map(str::to_owned), name: name.to_owned() })
        } else {
            Err(ConfigurationError::TableName(text.to_owned()))
        }
    }

    #[cfg(any(feature = "_sqlite", feature = "mysql"))]
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    #[cfg(any(feature = "_sqlite", feature = "mysql"))]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name between the database's quotes.
    pub(crate) fn quoted(&self, quote: char) -> String {
        match &self.schema {
            Some(schema) => format!("{quote}{schema}{quote}.{quote}{}{quote}", self.name),
            None => format!("{quote}{}{quote}", self.name),
        }
    }

    /// This name with something behind it.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        Self { schema: self.schema.clone(), name: format!("{}{suffix}", self.name) }
    }

    /// A migration written for the default name, with this name in its place. Tables are quoted; the indexes are named
    /// after them, and stand in their schema by themselves.
    pub(crate) fn place_in(&self, migration: &str, quote: char) -> String {
        if self.schema.is_none() && self.name == Self::DEFAULT {
            return migration.to_owned();
        }
        let mut sql = String::new();
        let mut pieces = migration.split(Self::DEFAULT);
        sql.extend(pieces.next());
        for piece in pieces {
            let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
            let (suffix, rest) = piece.split_at(end);
            let named = self.with_suffix(suffix);
            sql.push_str(&if suffix.ends_with(Self::INDEX) { named.name } else { named.quoted(quote) });
            sql.push_str(rest);
        }
        sql
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) table: TableName,
    pub(crate) lock_wait: Duration,
    pub(crate) isolation: Isolation,
    pub(crate) retention: Retention,
    pub(crate) max_connections: Option<u32>,
    pub(crate) acquire_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) gate: Option<Arc<Front>>,
    /// Ask the store about what the gate remembers.
    pub(crate) confirm: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            table: TableName { schema: None, name: TableName::DEFAULT.to_owned() },
            lock_wait: Duration::from_secs(5),
            isolation: Isolation::default(),
            retention: Retention::DEFAULT,
            max_connections: None,
            acquire_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(30),
            gate: None,
            confirm: false,
        }
    }
}
