//! The shop: a form, its handler with idem, and the body that places an order.

use idem_runtime::idempotent;
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;
use std::fmt;

/// The business table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE orders (
        id       INTEGER PRIMARY KEY,
        article  TEXT NOT NULL,
        quantity INTEGER NOT NULL,
        email    TEXT NOT NULL
    ) STRICT;
";

/// What the tokens of the order form are for. A token of another form does not pass here.
pub(crate) const SUBMIT: &str = "order.submit";

/// What the browser sends.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Form {
    pub(crate) article: String,
    pub(crate) quantity: i64,
    pub(crate) email: String,
    /// A hidden field that the server filled when it made the page.
    pub(crate) submit_token: String,
}

/// What the customer sees when the order is placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) order_no: String,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.order_no)
    }
}

/// Why no order was placed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormError {
    /// The customer can repair that, on the same page.
    #[error("no e-mail address")]
    NoEmail,
    /// The database refused a statement.
    #[error("the shop refused a statement: {0}")]
    Database(#[from] sqlx::Error),
}

/// The handler with idem. The token is burnt by the claim; `replay` shows the second click what the first one got.
#[idempotent(token = form.submit_token, store = db, scope = "order.submit", replay)]
pub(crate) async fn submit(db: &mut SqliteConnection, form: &Form) -> Result<Receipt, FormError> {
    place(db, form).await
}

/// Places an order. Nothing in here recognises a repeat.
pub(crate) async fn place(db: &mut SqliteConnection, form: &Form) -> Result<Receipt, FormError> {
    let id: i64 = sqlx::query_scalar("INSERT INTO orders (article, quantity, email) VALUES (?, ?, ?) RETURNING id")
        .bind(&form.article)
        .bind(form.quantity)
        .bind(&form.email)
        .fetch_one(&mut *db)
        .await?;
    // Late on purpose: the order is written already, and has to go back.
    if form.email.is_empty() {
        return Err(FormError::NoEmail);
    }
    Ok(Receipt { order_no: format!("SO{}", 5000 + id) })
}
