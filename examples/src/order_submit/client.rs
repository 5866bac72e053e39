//! A client of the shop, without a network in between.

use super::shop::{Order, OrderForm, Receipt};
use crate::story::StoryError;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Request, StatusCode, header},
};
use idem_runtime::http::Principal;
use serde::Deserialize;
use tower::ServiceExt as _;

/// Answers of the shop are short.
const LONGEST: usize = 64 * 1024;

/// A request in a file: the header, and the order.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Submission {
    pub(crate) idempotency_key: String,
    pub(crate) order: Order,
}

/// A problem, as idem answers it.
#[derive(Debug, Deserialize)]
struct Problem {
    r#type: String,
}

/// What a screen shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Screen {
    /// The number of the order, where there is one.
    pub(crate) order_no: Option<String>,
    /// The status, what came with it, and whether it came again: `201 SO7001, replayed`.
    pub(crate) says: String,
}

/// One customer, logged in.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    shop: Router,
}

impl Client {
    pub(crate) const fn new(shop: Router) -> Self {
        Self { shop }
    }

    /// Submits an order with its key.
    pub(crate) async fn submit(&self, submission: &Submission) -> Result<Screen, StoryError> {
        let body = serde_json::to_vec(&submission.order).map_err(|_| unanswered("the order is no JSON"))?;
        let request = Request::post("/orders")
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", format!("\"{}\"", submission.idempotency_key));
        self.send(request, body.into()).await
    }

    /// Submits the form of a page.
    pub(crate) async fn submit_form(&self, form: &OrderForm) -> Result<Screen, StoryError> {
        let body = serde_urlencoded::to_string(form).map_err(|_| unanswered("the form is none"))?;
        let request = Request::post("/form").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request, body.into()).await
    }

    /// Opens the page of a form, and fills it in.
    pub(crate) async fn page(&self, form: &OrderForm) -> Result<OrderForm, StoryError> {
        let (status, _, body) = self.call(Request::get("/form"), Body::empty()).await?;
        let token = String::from_utf8(body.to_vec()).map_err(|_| unanswered("the page is no text"))?;
        if status != StatusCode::OK {
            return Err(unanswered("there is no page"));
        }
        Ok(OrderForm { submit_token: token, ..form.clone() })
    }

    async fn send(&self, request: axum::http::request::Builder, body: Body) -> Result<Screen, StoryError> {
        let (status, replayed, body) = self.call(request, body).await?;
        let order_no = serde_json::from_slice(&body).map(|receipt: Receipt| receipt.order_no).ok();
        let problem = || {
            let problem: Option<Problem> = serde_json::from_slice(&body).ok();
            let kind = problem.and_then(|problem| problem.r#type.rsplit(':').next().map(str::to_owned));
            kind.unwrap_or_default()
        };
        let what = order_no.clone().unwrap_or_else(problem);
        let mark = if replayed { ", replayed" } else { "" };
        Ok(Screen { order_no, says: format!("{} {what}{mark}", status.as_u16()) })
    }

    async fn call(
        &self,
        request: axum::http::request::Builder,
        body: Body,
    ) -> Result<(StatusCode, bool, Bytes), StoryError> {
        // What the shop's authentication would put there.
        let request = request.extension(Principal("customer-7".into())).body(body);
        let request = request.map_err(|_| unanswered("the request is none"))?;
        let Ok(response) = self.shop.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, LONGEST).await.map_err(|_| unanswered("the answer broke off"))?;
        let replayed = parts.headers.get("idempotent-replayed").is_some_and(|mark| mark == "true");
        Ok((parts.status, replayed, body))
    }
}

const fn unanswered(says: &'static str) -> StoryError {
    StoryError::Request(says)
}
