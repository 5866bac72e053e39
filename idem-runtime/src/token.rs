//! One-time tokens: the server issues one with the form, and the claim burns it.

use crate::{
    error::{ConfigurationError, TokenError},
    key::{Key, hex},
    store::{Connection, Held, Issue, IssuedToken, Part, Store, Table},
    unit::{no_answer, within},
};
use sha2::{Digest, Sha256};
use std::{borrow::Cow, fmt, time::Duration};

const BYTES: usize = 32;
/// A claim is no older than this when its token is looked at.
const CLAIMED_WITHIN: Duration = Duration::from_mins(1);

/// A one-time token, for the form or the client that will submit it: 64 hexadecimal digits, 256 random bits.
///
/// Its `Display` is the secret itself; `Debug` does not show it. The database holds a digest only.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The text to send to the client.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.0
    }
}

/// Issues one-time tokens of one scope; see [`Store::tokens`].
#[derive(Debug)]
pub struct Tokens<'a, C: Connection> {
    store: &'a Store<C>,
    scope: Cow<'static, str>,
}

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The token would be valid for no time, or for longer than records are kept: a token that outlives the record of
    /// its burning could be used again.
    #[error(
        "a token cannot be valid for {ttl:?}: it must be more than nothing, and at most as long as records are kept \
         ({retention:?})"
    )]
    Validity {
        /// What was asked for.
        ttl: Duration,
        /// How long the store keeps records.
        retention: Duration,
    },
    /// The scope is no scope; see [`KeyError::Scope`](crate::KeyError::Scope).
    #[error("{0}")]
    Scope(#[from] crate::KeyError),
    /// The system gave no randomness.
    #[error("the system gave no randomness: {0}")]
    Randomness(String),
    /// The store is set up wrong, or has no table for tokens yet.
    #[error("{0}")]
    Configuration(#[from] ConfigurationError),
    /// The database failed.
    #[error("the token could not be written down: {0}")]
    Database(#[source] Box<sqlx::Error>),
}

impl<C: Connection> Store<C> {
    /// One-time tokens for the handler of this scope: issue one with the form, and let the handler take it with
    /// `token = ..`.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # mod example {
    /// use idem_runtime::{Outcome, SqliteStore, idempotent};
    /// use sqlx::SqliteConnection;
    /// use std::time::Duration;
    ///
    /// struct Submit {
    ///     token: String,
    /// }
    ///
    /// #[idempotent(token = form.token, store = db, scope = "order.submit")]
    /// async fn submit(db: &mut SqliteConnection, form: &Submit) -> Result<(), sqlx::Error> {
    ///     sqlx::query("INSERT INTO orders DEFAULT VALUES").execute(&mut *db).await.map(|_| ())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = SqliteStore::connect("sqlite::memory:").await?;
    /// store.migrate().await?;
    /// # sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(store.pool()).await?;
    /// let token = store.tokens("order.submit").issue(Duration::from_secs(1800)).await?;
    ///
    /// let form = Submit { token: token.to_string() };
    /// assert!(submit(&store, &form).await?.is_first());
    /// assert!(submit(&store, &form).await?.is_duplicate());
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "sqlite")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> { example::main() }
    /// # #[cfg(not(feature = "sqlite"))]
    /// # fn main() {}
    /// ```
    pub fn tokens(&self, scope: impl Into<Cow<'static, str>>) -> Tokens<'_, C> {
        Tokens { store: self, scope: scope.into() }
    }

    /// What stands in the way of burning this token: asked after its claim, in the claim's transaction.
    ///
    /// The store that issued it may keep its records for longer than this one. A token that outlives the record of its
    /// burning is then no longer known.
    pub(crate) async fn check_token(&self, held: &mut Held<C>, key: &Key) -> Result<Option<TokenError>, sqlx::Error> {
        let issued = held.connection().issued_tokens(self.statements(), key.text()).await?;
        let of_scope = |issued: &&IssuedToken| issued.scope == key.scope_name();
        Ok(match issued.iter().find(of_scope) {
            Some(token) if token.now < token.expires_at => {
                let left = u64::try_from(token.expires_at.0.saturating_sub(token.now.0)).unwrap_or(u64::MAX);
                // The record counts from its claim, a little before now.
                if Duration::from_millis(left) + CLAIMED_WITHIN > self.settings().retention.as_duration() {
                    let tokens = Table::new(&self.settings().table, Part::Tokens).name.quoted(C::QUOTE);
                    let (scope, key) = (C::text(key.scope_name()), C::text(key.text()));
                    let forget = format!("DELETE FROM {tokens} WHERE scope = {scope} AND action_key = {key}");
                    held.connection().run_guard(&forget, Default::default()).await?;
                }
                None
            }
            Some(token) => Some(TokenError::Expired { at: token.expires_at.into() }),
            None if issued.is_empty() => Some(TokenError::Unknown),
            None => Some(TokenError::Foreign { scope: key.scope_name().to_owned() }),
        })
    }
}

impl<C: Connection> Tokens<'_, C> {
    /// Issues a token that can be used once, within `ttl` by the database's clock.
    ///
    /// # Errors
    /// [`IssueError`].
    ///
    /// # Cancel safety
    /// The future may be dropped at any await. A token may then have been written down that nobody knows.
    pub async fn issue(&self, ttl: Duration) -> Result<Token, IssueError> {
        let retention = self.store.settings().retention.as_duration();
        if ttl.as_millis() == 0 || ttl > retention {
            return Err(IssueError::Validity { ttl, retention });
        }
        self.store.ready(Part::Tokens).await?;
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| IssueError::Randomness(error.to_string()))?;
        let token = Token(hex(&bytes));
        let key = Key::token(self.scope.clone(), token.as_str()).finish()?;
        let issue = Issue { scope: key.scope_name(), key: key.text(), valid_for: ttl, keep_for: retention };
        let failed = |error| match C::trouble(&error) {
            crate::store::Trouble::NoTable => IssueError::Configuration(self.store.no_table(Part::Tokens)),
            _ => IssueError::Database(Box::new(error)),
        };
        let mut held = self.store.acquire_for_statement().await.map_err(failed)?;
        let issuing = held.connection().issue_token(self.store.statements(), &issue);
        let limit = self.store.settings().answer_timeout;
        within(limit, issuing).await.unwrap_or_else(|| Err(no_answer())).map_err(failed)?;
        held.set_clean();
        Ok(token)
    }
}

/// What stands in the record instead of the token.
///
/// # Errors
/// [`TokenError::Malformed`] for text that cannot be a token.
pub(crate) fn digest(token: &str) -> Result<String, TokenError> {
    let well_formed = token.len() == 2 * BYTES && token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if well_formed { Ok(hex(&Sha256::digest(token))) } else { Err(TokenError::Malformed) }
}
