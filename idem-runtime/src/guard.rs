//! Guards: a statement of the business's own tables as the claim.

use crate::{
    error::GuardError,
    key::IntoKey,
    outcome::{Ignored, Why},
    store::{Connection, Held, Store, Trouble},
};
use sqlx::{Arguments as _, Database, Encode, Type, encode::IsNull};
use std::{borrow::Cow, fmt};

/// A statement that changes exactly one row the first time a business action arrives, and none ever after.
///
/// `#[idempotent(guard = "..")]` writes it, and refuses at compile time what would match again on a repeat; a guard made
/// by hand has no such reviewer. Values stand as `{}` in the SQL and are bound in their order.
///
/// * An UPDATE from one state into another is a state machine; one that pins a version and raises it is an optimistic
///   lock. When no row matches, the outcome is [`Outcome::Ignored`](crate::Outcome::Ignored).
/// * An INSERT claims through the business table's own unique index. Its conflict, on the index named by
///   [`unique`](Self::unique) or by `ON CONFLICT (..) DO NOTHING`, is [`Outcome::Duplicate`](crate::Outcome::Duplicate);
///   every other error is an error. NULL never conflicts: a guard that inserts it into that index is refused,
///   [`GuardError::NeverRepeats`].
/// * A DELETE takes a row that is there once.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_runtime::{Guard, Guarded, Key, SqliteStore};
///
/// let store = SqliteStore::connect("sqlite::memory:").await?;
/// store.migrate().await?;
/// # sqlx::raw_sql("CREATE TABLE orders (order_no TEXT PRIMARY KEY, status TEXT); INSERT INTO orders VALUES ('A1', 'NEW')")
/// #     .execute(store.pool()).await?;
/// let pay = |order_no: &str| {
///     Guard::change("UPDATE orders SET status = 'PAID' WHERE order_no = {} AND status = 'NEW'").bind(order_no.to_owned())
/// };
/// let key = Key::unrecorded("order.pay").finish()?;
/// let Guarded::First(unit) = store.claim_guarded(key.clone(), pay("A1")).await? else { panic!("it is new") };
/// unit.commit::<_, sqlx::Error>(()).await?;
/// assert!(matches!(store.claim_guarded(key, pay("A1")).await?, Guarded::Ignored(_)));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
#[must_use = "a guard does nothing until a unit is claimed with it"]
pub struct Guard<C: Connection> {
    statement: Statement<C>,
    kind: Kind,
    exists: Option<Statement<C>>,
    has_null: bool,
    failed: Option<(usize, Box<dyn std::error::Error + Send + Sync>)>,
}

/// What it means when no row changes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// UPDATE, DELETE: not called for.
    Change,
    /// INSERT: done before. The index is given by name or by its columns; `None`: the statement says it itself.
    Insert { unique: Option<Cow<'static, str>> },
}

struct Statement<C: Connection> {
    sql: Cow<'static, str>,
    arguments: <C::Database as Database>::Arguments,
}

impl<C: Connection> Statement<C> {
    fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self { sql: sql.into(), arguments: Default::default() }
    }
}

impl<C: Connection> fmt::Debug for Guard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("sql", &self.statement.sql).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A value that a guard can bind on this database: whatever sqlx can encode for it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be bound in a guard on `{DB}`",
    label = "sqlx cannot encode it for this database",
    note = "bind text, integers, booleans, or a type with `sqlx::Encode` and `sqlx::Type` for the database"
)]
pub trait Bind<DB: Database> {
    #[doc(hidden)]
    fn is_null(&self) -> bool;

    #[doc(hidden)]
    fn add_to(self, arguments: &mut DB::Arguments) -> Result<(), sqlx::error::BoxDynError>;
}

#[diagnostic::do_not_recommend]
impl<'t, DB: Database<ArgumentBuffer: Default>, T: Encode<'t, DB> + Type<DB>> Bind<DB> for T {
    fn is_null(&self) -> bool {
        matches!(self.encode_by_ref(&mut DB::ArgumentBuffer::default()), Ok(IsNull::Yes))
    }

    fn add_to(self, arguments: &mut DB::Arguments) -> Result<(), sqlx::error::BoxDynError> {
        arguments.add(self)
    }
}

impl<C: Connection> Guard<C> {
    fn new(sql: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        Self { statement: Statement::new(sql), kind, exists: None, has_null: false, failed: None }
    }

    /// An UPDATE or DELETE. No row: [`Outcome::Ignored`](crate::Outcome::Ignored).
    pub fn change(sql: impl Into<Cow<'static, str>>) -> Self {
        Self::new(sql, Kind::Change)
    }

    /// An INSERT whose conflict means that the action is done. Say on which index with [`unique`](Self::unique), or in
    /// the statement with `ON CONFLICT (..) DO NOTHING` (not on MySQL).
    pub fn insert(sql: impl Into<Cow<'static, str>>) -> Self {
        Self::new(sql, Kind::Insert { unique: None })
    }

    /// Says for which store it is, and by that for which database, where nothing else says it yet.
    pub fn on(self, _: &Store<C>) -> Self {
        self
    }

    /// The unique index whose conflict means that the action is done: its name, or its columns with commas between. A
    /// conflict on any other index stays an error.
    pub fn unique(mut self, index: impl Into<Cow<'static, str>>) -> Self {
        self.kind = Kind::Insert { unique: Some(index.into()) };
        self
    }

    /// A query that finds the row which the guard would change, whatever state it is in. With it, a guard that matched
    /// nothing can say whether the row was in another state or was not there: [`Why`]. Its values are bound by
    /// [`bind_exists`](Self::bind_exists).
    pub fn exists(mut self, sql: impl Into<Cow<'static, str>>) -> Self {
        self.exists = Some(Statement::new(sql));
        self
    }

    /// Binds the next value of the guard.
    pub fn bind(mut self, value: impl Bind<C::Database>) -> Self {
        let number = self.statement.arguments.len() + 1;
        self.has_null |= matches!(self.kind, Kind::Insert { .. }) && value.is_null();
        let bound = value.add_to(&mut self.statement.arguments);
        self.note(number, bound);
        self
    }

    /// Binds the next value of the [`exists`](Self::exists) query.
    pub fn bind_exists(mut self, value: impl Bind<C::Database>) -> Self {
        if let Some(exists) = &mut self.exists {
            let number = exists.arguments.len() + 1;
            let bound = value.add_to(&mut exists.arguments);
            self.note(number, bound);
        }
        self
    }

    fn note(&mut self, number: usize, bound: Result<(), sqlx::error::BoxDynError>) {
        if let Err(error) = bound
            && self.failed.is_none()
        {
            self.failed = Some((number, error));
        }
    }

    /// What could not be bound.
    pub(crate) fn check(&mut self) -> Result<(), GuardError> {
        match self.failed.take() {
            Some((number, source)) => Err(GuardError::Bind { number, source }),
            None => Ok(()),
        }
    }

    /// Runs it in the unit's transaction.
    pub(crate) async fn run(&self, held: &mut Held<C>) -> Result<Ran, sqlx::Error> {
        let sql = render::<C>(&self.statement.sql);
        match held.connection().run_guard(&sql, self.statement.arguments.clone()).await {
            Ok(1) if self.has_null && self.passes_again(held, &sql).await? => Ok(Ran::NeverRepeats),
            Ok(1) => Ok(Ran::Passed),
            Ok(0) => match (&self.kind, &self.exists) {
                // `ON CONFLICT (..) DO NOTHING` did nothing.
                (Kind::Insert { unique: None }, _) => Ok(Ran::Duplicate),
                // A conflict would have been an error: there was nothing to insert, and to call that a repeat would lose
                // the message without a word.
                (Kind::Insert { unique: Some(_) }, _) | (Kind::Change, None) => {
                    Ok(Ran::Ignored(Ignored::by_guard(Why::NoMatch)))
                }
                (Kind::Change, Some(exists)) => {
                    let found = held.connection().finds(&render::<C>(&exists.sql), exists.arguments.clone()).await?;
                    Ok(Ran::Ignored(Ignored::by_guard(if found { Why::NotAllowed } else { Why::NoRow })))
                }
            },
            Ok(rows) => Ok(Ran::Many(rows)),
            Err(error) => Err(error),
        }
    }

    /// Whether a repeat would be inserted too. NULL never conflicts, and which values are in the index only the database
    /// knows: so it is asked, in a savepoint, where a value is NULL.
    async fn passes_again(&self, held: &mut Held<C>, sql: &str) -> Result<bool, sqlx::Error> {
        let mut again = held.connection().begin().await?;
        let passed = again.run_guard(sql, self.statement.arguments.clone()).await;
        match passed {
            Err(error) if !matches!(C::trouble(&error), Trouble::Other) => Err(error),
            passed => {
                again.rollback().await?;
                Ok(matches!(passed, Ok(1..)))
            }
        }
    }

    /// Whether an error of [`run`](Self::run) is the conflict that means "done before". Asked on a clean connection.
    pub(crate) async fn is_repeat(&self, held: &mut Held<C>, error: &sqlx::Error) -> Result<bool, sqlx::Error> {
        let Kind::Insert { unique: Some(index) } = &self.kind else { return Ok(false) };
        held.connection().is_conflict_on(error, &InsertInto::of(&self.statement.sql), index).await
    }
}

/// What a guard came to.
pub(crate) enum Ran {
    Passed,
    Duplicate,
    Ignored(Ignored),
    Many(u64),
    /// A repeat of it would pass as well.
    NeverRepeats,
}

/// What a claim with a guard decided.
#[derive(Debug)]
#[must_use = "a unit that is dropped is rolled back"]
pub enum Guarded<C: Connection> {
    /// The first time, and the guard lets it pass: run the body, then commit or roll back.
    First(crate::Unit<C>),
    /// A repeat: do not run the body.
    Duplicate(crate::Seen),
    /// Not called for: nothing is written, and the key is given back.
    Ignored(Ignored),
}

impl<C: Connection> Store<C> {
    /// Claims an action by its key, and then by a guard: the key says whether it was seen before, the guard whether it is
    /// called for now. A guard that refuses gives the key back.
    ///
    /// With [`Key::unrecorded`](crate::Key::unrecorded) the guard alone is the claim: no record is written, and the
    /// business table itself remembers.
    ///
    /// # Errors
    /// As [`claim`](Self::claim), and [`ClaimError::Guard`](crate::ClaimError::Guard).
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: nothing is claimed or changed.
    pub async fn claim_guarded(&self, key: impl IntoKey, guard: Guard<C>) -> Result<Guarded<C>, crate::ClaimError> {
        self.claim_with_guard(key.into_key()?, guard, 0).await
    }
}

/// Puts the database's placeholders where `{}` stands outside quotes and comments.
fn render<C: Connection>(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 8);
    let mut number = 0;
    let mut rest = sql;
    while let Some(start) = rest.find(['{', '\'', '"', '`', '-', '/']) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let length = if rest.starts_with("{}") {
            number += 1;
            out.push_str(&C::placeholder(number));
            rest = &rest[2..];
            continue;
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(quote) = rest.chars().next().filter(|first| matches!(first, '\'' | '"' | '`')) {
            // A doubled quote ends one piece and begins the next.
            rest[1..].find(quote).map_or(rest.len(), |end| end + 2)
        } else {
            1
        };
        let (kept, left) = rest.split_at(length);
        out.push_str(kept);
        rest = left;
    }
    out.push_str(rest);
    out
}

/// The table that an INSERT names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct InsertInto<'a> {
    /// As it is written, quotes and all.
    pub(crate) written: &'a str,
    /// The name in front of the dot, without its quotes.
    pub(crate) schema: Option<String>,
    /// The name without its quotes.
    pub(crate) table: String,
}

impl<'a> InsertInto<'a> {
    fn of(sql: &'a str) -> Self {
        let is_edge =
            |at: usize| sql.as_bytes().get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
        let into = sql
            .char_indices()
            .map(|(at, _)| at)
            .find(|at| {
                sql.get(*at..at + 4).is_some_and(|word| word.eq_ignore_ascii_case("INTO"))
                    && at.checked_sub(1).is_none_or(is_edge)
                    && is_edge(at + 4)
            })
            .map(|at| sql[at + 4..].trim_start());
        let Some(rest) = into else { return Self::default() };
        let (first, after) = identifier(rest);
        let Some(second) = after.strip_prefix('.') else {
            return Self { written: &rest[..rest.len() - after.len()], schema: None, table: first };
        };
        let (second, after) = identifier(second);
        Self { written: &rest[..rest.len() - after.len()], schema: Some(first), table: second }
    }
}

/// The identifier at the start of a text without its quotes, and what follows it.
fn identifier(text: &str) -> (String, &str) {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '`')) else {
        let end = text.find(|c: char| c.is_whitespace() || matches!(c, '(' | '.')).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut name = String::new();
    let mut rest = &text[1..];
    loop {
        let Some(end) = rest.find(quote) else { return (name + rest, "") };
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        // A doubled quote is one, and the name goes on.
        let Some(after) = rest.strip_prefix(quote) else { return (name, rest) };
        name.push(quote);
        rest = after;
    }
}

/// What an error of the guard means for the claim.
pub(crate) fn failed<C: Connection>(error: sqlx::Error) -> GuardError {
    let retryable = !matches!(C::trouble(&error), Trouble::Other | Trouble::NoTable);
    let refused = error.as_database_error().is_some_and(|error| {
        // Classes 22 and 23 of SQLSTATE: data exceptions and broken constraints. SQLite has numbers of its own, without the
        // length of a SQLSTATE: too big, constraint, mismatch.
        let of_the_data = |code: &str| match code.parse::<u32>() {
            Ok(number) if code.len() < 5 => matches!(number & 0xff, 18..=20),
            _ => code.starts_with("22") || code.starts_with("23"),
        };
        error.kind() != sqlx::error::ErrorKind::Other || error.code().is_some_and(|code| of_the_data(&code))
    });
    GuardError::Database { retryable, refused, source: Box::new(error) }
}

#[cfg(test)]
mod tests {
    use super::InsertInto;

    #[test]
    fn the_table_of_an_insert_is_found() {
        for (sql, written, schema, table) in [
            ("INSERT INTO flow (a) VALUES ({})", "flow", None, "flow"),
            ("insert into flow(a) values ({})", "flow", None, "flow"),
            ("INSERT\nINTO `flow`\n(a) VALUES ({})", "`flow`", None, "flow"),
            ("INSERT INTO pay.flow(a) VALUES ({})", "pay.flow", Some("pay"), "flow"),
            ("INSERT INTO \"pay\".\"flow\" (a) VALUES ({})", "\"pay\".\"flow\"", Some("pay"), "flow"),
            ("INSERT INTO pay.`flow`(a) VALUES ({})", "pay.`flow`", Some("pay"), "flow"),
            (
                "INSERT INTO \"my \"\"flow\"\" (1.5)\" VALUES ({})",
                "\"my \"\"flow\"\" (1.5)\"",
                None,
                "my \"flow\" (1.5)",
            ),
            ("INSERT INTO über VALUES ({})", "über", None, "über"),
            ("INSERT INTO \"open", "\"open", None, "open"),
            ("INSERT INTO", "", None, ""),
            ("UPDATE flow SET into_account = 1", "", None, ""),
        ] {
            let expected = InsertInto { written, schema: schema.map(str::to_owned), table: table.to_owned() };
            assert_eq!(InsertInto::of(sql), expected, "{sql}");
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn placeholders_stand_outside_quotes_and_comments() {
        use super::render;
        let render = render::<sqlx::PgConnection>;
        assert_eq!(render("a = {} AND b = {}"), "a = $1 AND b = $2");
        assert_eq!(render("a = '{}' AND b = {}"), "a = '{}' AND b = $1");
        assert_eq!(render("a = 'it''s {}' -- {}\n AND b = {} /* {} */"), "a = 'it''s {}' -- {}\n AND b = $1 /* {} */");
        assert_eq!(render("\"{}\" = {} - {}"), "\"{}\" = $1 - $2");
        assert_eq!(render("a = '{\"x\": 1}'"), "a = '{\"x\": 1}'");
        assert_eq!(render("'open {}"), "'open {}");
    }
}
