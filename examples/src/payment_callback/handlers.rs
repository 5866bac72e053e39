//! The route that takes a callback, and the consumer's handler.

use crate::{
    broker::Publisher,
    money::Cents,
    payment::{
        alipay::{self, TradeStatus},
        notification::Notification,
    },
};
use axum::{Router, extract::State, http::StatusCode, routing::post};
use idem_runtime::idempotent;
use serde::{Deserialize, Serialize};
use sqlx::{SqliteConnection, SqlitePool};

/// The business table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE credits (
        out_trade_no TEXT NOT NULL,
        cents        INTEGER NOT NULL
    ) STRICT;
";

/// What the platform wants to read. Anything else, and it sends again.
const TAKEN: (StatusCode, &str) = (StatusCode::OK, "success");
const NOT_TAKEN: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "failure");
const UNREADABLE: (StatusCode, &str) = (StatusCode::BAD_REQUEST, "failure");

/// An order was paid: the message in the queue.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Paid {
    pub(crate) out_trade_no: String,
    pub(crate) cents: i64,
    /// The platform's id of this arrival, for logs.
    pub(crate) notify_id: String,
}

/// What a callback says, when it says that an order was paid.
pub(crate) fn read(body: &str) -> Option<Paid> {
    match alipay::parse(body.trim_end()) {
        Ok(Notification::AlipayTrade(trade)) if trade.trade_status == TradeStatus::Success => Some(Paid {
            out_trade_no: trade.out_trade_no.to_string(),
            cents: Cents::get(trade.total_amount),
            notify_id: trade.notify_id,
        }),
        _ => None,
    }
}

/// The shop's endpoint. A patient one says "success" when the message is in the queue, the other one in any case.
pub(crate) fn router(publisher: Publisher, patient: bool) -> Router {
    let callback = if patient { post(take) } else { post(take_hastily) };
    Router::new().route("/notify/alipay", callback).with_state(publisher)
}

async fn take(State(publisher): State<Publisher>, body: String) -> (StatusCode, &'static str) {
    let Some(paid) = read(&body) else { return UNREADABLE };
    if publisher.publish(&paid).await.is_ok() { TAKEN } else { NOT_TAKEN }
}

/// As it is written first: the platform wants a quick answer.
async fn take_hastily(State(publisher): State<Publisher>, body: String) -> (StatusCode, &'static str) {
    let Some(paid) = read(&body) else { return UNREADABLE };
    // Nobody looks at what became of it.
    let _ = publisher.publish(&paid).await;
    TAKEN
}

/// The consumer's handler with idem. The key is the order: each arrival has another `notify_id`.
#[idempotent(key = msg.out_trade_no, store = db, scope = "payment.credit", delivery = msg.notify_id)]
pub(crate) async fn on_paid(db: &mut SqliteConnection, msg: &Paid) -> Result<(), sqlx::Error> {
    credit(db, msg).await
}

/// The same body in a plain transaction.
pub(crate) async fn on_paid_unprotected(books: &SqlitePool, msg: &Paid) -> Result<(), sqlx::Error> {
    let mut tx = books.begin_with("BEGIN IMMEDIATE").await?;
    credit(&mut tx, msg).await?;
    tx.commit().await
}

async fn credit(db: &mut SqliteConnection, msg: &Paid) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO credits (out_trade_no, cents) VALUES (?, ?)");
    insert.bind(&msg.out_trade_no).bind(msg.cents).execute(&mut *db).await?;
    Ok(())
}
