//! The business tables: a balance for each merchant, the orders, and every movement of money.
//!
//! Nothing in here recognises a repeat. Whoever pays an order twice has its money twice in the balance.

use super::{
    error::PayError,
    notification::{Merchant, MerchantNo},
    trouble::Trouble,
};
use crate::money::Cents;
use sqlx::{
    Row, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{collections::BTreeMap, path::Path};

// STRICT, so that a sum beyond 64 bits is an error and not a float.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS balances (
        channel  TEXT NOT NULL,
        merchant TEXT NOT NULL,
        cents    INTEGER NOT NULL,
        PRIMARY KEY (channel, merchant)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS orders (
        order_no TEXT NOT NULL PRIMARY KEY,
        status   TEXT NOT NULL,
        paid     INTEGER NOT NULL DEFAULT 0,
        refunded INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE IF NOT EXISTS flow (
        id       INTEGER PRIMARY KEY,
        channel  TEXT NOT NULL,
        merchant TEXT NOT NULL,
        order_no TEXT NOT NULL,
        cause    TEXT NOT NULL,
        cents    INTEGER NOT NULL
    ) STRICT;
";

/// One movement of money.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement<'a> {
    /// Whose balance.
    pub(crate) merchant: &'a Merchant,
    /// For which order.
    pub(crate) order: &'a MerchantNo,
    /// Why: `payment`, or the number of a refund.
    pub(crate) cause: &'a str,
}

/// Opens the database file, with one writer like a store does, and creates what is missing.
pub(crate) async fn open(path: &Path) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
    create(&pool).await?;
    Ok(pool)
}

/// Creates the tables that are missing.
pub(crate) async fn create(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(SCHEMA).execute(pool).await.map(drop)
}

/// Books what an order paid: into the balance, the order and the flow.
pub(crate) async fn pay(
    db: &mut SqliteConnection,
    movement: Movement<'_>,
    amount: Cents,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    add_to_balance(db, movement.merchant, amount).await?;
    trouble.strikes().await?;
    sqlx::query(
        "INSERT INTO orders (order_no, status, paid) VALUES (?, 'PAID', ?)
         ON CONFLICT (order_no) DO UPDATE SET status = 'PAID', paid = paid + excluded.paid",
    )
    .bind(movement.order.as_str())
    .bind(amount.get())
    .execute(&mut *db)
    .await?;
    write_flow(db, movement, amount).await
}

/// Books what an order gave back: out of the balance, into the order and the flow.
pub(crate) async fn give_back(
    db: &mut SqliteConnection,
    movement: Movement<'_>,
    amount: Cents,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    let out = Cents::ZERO.minus(amount).ok_or_else(|| PayError::OutOfRange(movement.order.clone()))?;
    add_to_balance(db, movement.merchant, out).await?;
    trouble.strikes().await?;
    sqlx::query(
        "INSERT INTO orders (order_no, status, refunded) VALUES (?, 'REFUNDED', ?)
         ON CONFLICT (order_no) DO UPDATE SET status = 'REFUNDED', refunded = refunded + excluded.refunded",
    )
    .bind(movement.order.as_str())
    .bind(amount.get())
    .execute(&mut *db)
    .await?;
    write_flow(db, movement, out).await
}

/// Notes a state of an order that moves no money.
pub(crate) async fn note(
    db: &mut SqliteConnection,
    order: &MerchantNo,
    status: &str,
    trouble: &Trouble,
) -> Result<Cents, PayError> {
    trouble.strikes().await?;
    sqlx::query("INSERT INTO orders (order_no, status) VALUES (?, ?) ON CONFLICT (order_no) DO UPDATE SET status = excluded.status")
        .bind(order.as_str())
        .bind(status)
        .execute(&mut *db)
        .await?;
    Ok(Cents::ZERO)
}

/// What an order gave back so far.
pub(crate) async fn refunded(db: &mut SqliteConnection, order: &MerchantNo) -> Result<Cents, PayError> {
    let row: Option<i64> = sqlx::query_scalar("SELECT refunded FROM orders WHERE order_no = ?")
        .bind(order.as_str())
        .fetch_optional(&mut *db)
        .await?;
    Ok(row.map_or(Cents::ZERO, Cents::new))
}

async fn add_to_balance(db: &mut SqliteConnection, merchant: &Merchant, amount: Cents) -> Result<(), PayError> {
    sqlx::query(
        "INSERT INTO balances (channel, merchant, cents) VALUES (?, ?, ?)
         ON CONFLICT (channel, merchant) DO UPDATE SET cents = cents + excluded.cents",
    )
    .bind(merchant.channel)
    .bind(&merchant.id)
    .bind(amount.get())
    .execute(&mut *db)
    .await?;
    Ok(())
}

async fn write_flow(db: &mut SqliteConnection, movement: Movement<'_>, amount: Cents) -> Result<Cents, PayError> {
    sqlx::query("INSERT INTO flow (channel, merchant, order_no, cause, cents) VALUES (?, ?, ?, ?, ?)")
        .bind(movement.merchant.channel)
        .bind(&movement.merchant.id)
        .bind(movement.order.as_str())
        .bind(movement.cause)
        .bind(amount.get())
        .execute(&mut *db)
        .await?;
    Ok(amount)
}

/// What the books say about each merchant: the balance, and the sum of its flow.
pub(crate) async fn books(pool: &SqlitePool) -> Result<BTreeMap<(String, String), Books>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT channel, merchant, cents,
                (SELECT COALESCE(SUM(f.cents), 0) FROM flow f WHERE f.channel = b.channel AND f.merchant = b.merchant)
         FROM balances b",
    )
    .fetch_all(pool)
    .await?;
    rows.iter()
        .map(|row| {
            let books = Books { balance: Cents::new(row.try_get(2)?), flow: Cents::new(row.try_get(3)?) };
            Ok(((row.try_get(0)?, row.try_get(1)?), books))
        })
        .collect()
}

/// One merchant's books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    /// The balance row.
    pub(crate) balance: Cents,
    /// The sum of the movements. Another number means that a transaction was torn.
    pub(crate) flow: Cents,
}

#[cfg(test)]
mod tests {
    use super::{Books, Movement, books, give_back, note, open, pay, refunded};
    use crate::{
        money::Cents,
        payment::{
            error::PayError,
            notification::{Merchant, MerchantNo},
            trouble::Trouble,
        },
    };
    use sqlx::SqlitePool;

    async fn ledger() -> (tempfile::TempDir, SqlitePool) {
        let folder = tempfile::tempdir().unwrap();
        let pool = open(&folder.path().join("ledger.db")).await.unwrap();
        (folder, pool)
    }

    fn merchant() -> Merchant {
        Merchant { channel: "Alipay", id: "2088".into() }
    }

    fn key() -> (String, String) {
        ("Alipay".into(), "2088".into())
    }

    fn order(no: &str) -> MerchantNo {
        MerchantNo::new(no.into()).unwrap()
    }

    #[tokio::test]
    async fn payments_and_refunds_add_up() {
        let (_folder, pool) = ledger().await;
        let (merchant, one, two) = (merchant(), order("1"), order("2"));
        let mut db = pool.acquire().await.unwrap();
        let movement = |order| Movement { merchant: &merchant, order, cause: "test" };
        assert_eq!(pay(&mut db, movement(&one), Cents::new(8888), &Trouble::None).await.unwrap(), Cents::new(8888));
        assert_eq!(
            give_back(&mut db, movement(&one), Cents::new(2000), &Trouble::None).await.unwrap(),
            Cents::new(-2000)
        );
        assert_eq!(
            give_back(&mut db, movement(&one), Cents::new(3000), &Trouble::None).await.unwrap(),
            Cents::new(-3000)
        );
        assert_eq!(pay(&mut db, movement(&two), Cents::new(1), &Trouble::None).await.unwrap(), Cents::new(1));
        assert_eq!(refunded(&mut db, &one).await.unwrap(), Cents::new(5000));
        assert_eq!(refunded(&mut db, &two).await.unwrap(), Cents::ZERO);
        assert_eq!(refunded(&mut db, &order("3")).await.unwrap(), Cents::ZERO);
        assert_eq!(note(&mut db, &one, "TRADE_FINISHED", &Trouble::None).await.unwrap(), Cents::ZERO);
        drop(db);
        let books = books(&pool).await.unwrap();
        assert_eq!(books.len(), 1);
        assert_eq!(books[&key()], Books { balance: Cents::new(3889), flow: Cents::new(3889) });
        let orders: Vec<(String, String, i64, i64)> =
            sqlx::query_as("SELECT order_no, status, paid, refunded FROM orders ORDER BY order_no")
                .fetch_all(&pool)
                .await
                .unwrap();
        assert_eq!(orders, [("1".into(), "TRADE_FINISHED".into(), 8888, 5000), ("2".into(), "PAID".into(), 1, 0)]);
    }

    #[tokio::test]
    async fn the_ledger_does_not_recognise_repeats() {
        let (_folder, pool) = ledger().await;
        let (merchant, order) = (merchant(), order("1"));
        let mut db = pool.acquire().await.unwrap();
        for _ in 0..2 {
            let movement = Movement { merchant: &merchant, order: &order, cause: "payment" };
            pay(&mut db, movement, Cents::new(100), &Trouble::None).await.unwrap();
        }
        drop(db);
        assert_eq!(books(&pool).await.unwrap()[&key()].balance, Cents::new(200));
    }

    #[tokio::test]
    async fn trouble_strikes_after_the_balance_and_before_the_flow() {
        let (_folder, pool) = ledger().await;
        let (merchant, order) = (merchant(), order("1"));
        let mut db = pool.acquire().await.unwrap();
        let movement = Movement { merchant: &merchant, order: &order, cause: "payment" };
        let failed = pay(&mut db, movement, Cents::new(100), &Trouble::Fail).await;
        assert!(matches!(failed, Err(PayError::MadeUp)));
        drop(db);
        // No transaction here, so the half of it stays: what the acts prove is that a unit leaves nothing.
        assert_eq!(books(&pool).await.unwrap()[&key()], Books { balance: Cents::new(100), flow: Cents::ZERO });
    }

    #[tokio::test]
    async fn a_balance_beyond_64_bits_is_an_error() {
        let (_folder, pool) = ledger().await;
        let (merchant, order) = (merchant(), order("1"));
        let mut db = pool.acquire().await.unwrap();
        let movement = Movement { merchant: &merchant, order: &order, cause: "payment" };
        pay(&mut db, movement, Cents::new(i64::MAX), &Trouble::None).await.unwrap();
        assert!(matches!(pay(&mut db, movement, Cents::new(1), &Trouble::None).await, Err(PayError::Database(_))));
        assert!(matches!(
            give_back(&mut db, movement, Cents::new(i64::MIN), &Trouble::None).await,
            Err(PayError::OutOfRange(_))
        ));
    }
}
