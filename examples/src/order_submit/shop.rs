//! The shop: its routes, its handlers with idem, and the body that places an order.

use axum::{
    Form, Json, Router,
    extract::State,
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use idem_runtime::{
    SqliteStore,
    http::{HttpSettings, IdempotencyKey, detached},
    idempotent,
};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;
use std::time::Duration;

/// The business table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE orders (
        id       INTEGER PRIMARY KEY,
        article  TEXT NOT NULL,
        quantity INTEGER NOT NULL
    ) STRICT;
";

/// What the tokens of the order form are for.
const FORM: &str = "order.form";
/// A page is open for so long, usually.
const HALF_AN_HOUR: Duration = Duration::from_mins(30);

/// An order, as an app sends it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    pub(crate) article: String,
    pub(crate) quantity: i64,
}

/// An order, as a page without JavaScript sends it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct OrderForm {
    pub(crate) article: String,
    pub(crate) quantity: i64,
    /// A hidden field that the server filled when it made the page.
    pub(crate) submit_token: String,
}

/// What the customer gets.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Receipt {
    pub(crate) order_no: String,
}

/// The database refused a statement.
#[derive(Debug, thiserror::Error)]
#[error("the shop refused a statement: {0}")]
pub(crate) struct ShopError(#[from] sqlx::Error);

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// The routes. The guarded ones have idem.
pub(crate) fn router(store: SqliteStore, guarded: bool) -> Router {
    let routes = Router::new().route("/form", get(page));
    let routes = if guarded {
        // A client that goes away must not cut a unit off: its repeat would have to do the work again.
        let routes = routes.route("/orders", post(take)).route("/form", post(take_form));
        routes.layer(middleware::from_fn(detached))
    } else {
        routes.route("/orders", post(take_unprotected)).route("/form", post(take_form_unprotected))
    };
    routes.with_state(store)
}

/// The handler with idem: one order for each key of one customer. A repeat gets the first one's receipt.
#[idempotent(key = key, payload = order.article + ":" + order.quantity, store = db, scope = "order.submit", replay)]
async fn submit(db: &mut SqliteConnection, key: &IdempotencyKey, order: &Order) -> Result<Receipt, ShopError> {
    place(db, &order.article, order.quantity).await
}

/// The same for a page: the token in its hidden field is burnt by the claim.
#[idempotent(token = form.submit_token, store = db, scope = "order.form", replay)]
async fn submit_form(db: &mut SqliteConnection, form: &OrderForm) -> Result<Receipt, ShopError> {
    place(db, &form.article, form.quantity).await
}

async fn take(State(store): State<SqliteStore>, key: IdempotencyKey, Json(order): Json<Order>) -> Response {
    key.respond_with(submit(&store, &key, &order).await, created)
}

async fn take_form(State(store): State<SqliteStore>, Form(form): Form<OrderForm>) -> Response {
    HttpSettings::new().respond_with(submit_form(&store, &form).await, created)
}

/// The same body in a plain transaction; the header is not looked at.
async fn take_unprotected(State(store): State<SqliteStore>, Json(order): Json<Order>) -> Result<Response, ShopError> {
    unprotected(&store, &order.article, order.quantity).await
}

/// And here nobody looks at the hidden field.
async fn take_form_unprotected(
    State(store): State<SqliteStore>,
    Form(form): Form<OrderForm>,
) -> Result<Response, ShopError> {
    unprotected(&store, &form.article, form.quantity).await
}

async fn unprotected(store: &SqliteStore, article: &str, quantity: i64) -> Result<Response, ShopError> {
    let mut tx = store.pool().begin_with("BEGIN IMMEDIATE").await?;
    let receipt = place(&mut tx, article, quantity).await?;
    tx.commit().await?;
    Ok(created(receipt).into_response())
}

/// The page that the server makes. What stands for it here is its token.
async fn page(State(store): State<SqliteStore>) -> Result<String, StatusCode> {
    let token = store.tokens(FORM).issue(HALF_AN_HOUR).await;
    token.map(Into::into).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

fn created(receipt: Receipt) -> impl IntoResponse {
    (StatusCode::CREATED, Json(receipt))
}

/// Places an order. Nothing in here recognises a repeat.
async fn place(db: &mut SqliteConnection, article: &str, quantity: i64) -> Result<Receipt, ShopError> {
    let id: i64 = sqlx::query_scalar("INSERT INTO orders (article, quantity) VALUES (?, ?) RETURNING id")
        .bind(article)
        .bind(quantity)
        .fetch_one(&mut *db)
        .await?;
    Ok(Receipt { order_no: format!("SO{}", 7000 + id) })
}
