use super::{
    answer::{Answer, storable},
    buffer::{self, Read},
    connection::{Door, Shared},
    detach::detach,
    error::HttpError,
    fingerprint::BodyComparison,
    key::IdempotencyKey,
    problem,
    response::replayed,
    settings::HttpSettings,
};
use crate::{
    error::Error,
    key::{Key, KeyError},
    outcome::{Decline, Outcome, Seen, Then},
    replay::{Keep, Replay},
    store::{Connection, Store},
    unit::{Claim, Unit},
};
use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, Method, StatusCode, response},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    convert::Infallible,
    fmt,
    future::poll_fn,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::Mutex;
use tower_layer::Layer;
use tower_service::Service;

/// Makes plain handlers take effect once for each `Idempotency-Key`: a tower layer for axum's routes.
///
/// It reads the request's body, claims the key, runs the handler in a task of its own, and commits the handler's writes
/// together with the claim and the answer. A repeat gets that answer, with `Idempotent-Replayed: true`. The handler
/// reaches the unit's connection through [`UnitConnection`](super::UnitConnection).
///
/// * Requests by `GET`, `HEAD`, `OPTIONS` and `TRACE` pass through.
/// * The key names the action together with the request's principal, method and path; query and body are compared: the same
///   key with others is [`ProblemKind::PayloadMismatch`](super::ProblemKind::PayloadMismatch).
/// * **What is stored:** an answer with a status below 400. An answer of 500 and above is never stored, nor is that of a
///   handler that panics or whose answer's body fails: all is rolled back, and a repeat runs. An answer of 400 to 499 says that the
///   request was refused, so what the handler wrote before is rolled back too, and a repeat runs; see
///   [`keep_client_errors`](Self::keep_client_errors), and [`End`] for a single answer.
/// * Of the headers, those are not stored that an [`Answer`] leaves out, nor [others](Self::leave_out).
/// * **A repeat while the first one runs** waits for it, at most the store's lock wait, and gets its answer, or the verdict
///   on another body, or runs if it failed. After the wait it is
///   [`ProblemKind::InProgress`](super::ProblemKind::InProgress) with `Retry-After`; the two bodies are not compared then, since
///   what is not committed cannot be seen. A repeat that waits holds a connection; a [gate](crate::gate) keeps it away.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// use axum::{Json, Router, http::StatusCode, middleware, routing::post};
/// use idem_runtime::{SqliteStore, http::{IdempotencyLayer, UnitConnection}};
/// use sqlx::SqliteConnection;
///
/// async fn create_order(mut db: UnitConnection<SqliteConnection>, Json(sku): Json<String>) -> Result<Json<i64>, StatusCode> {
///     let done = sqlx::query("INSERT INTO orders (sku) VALUES (?)").bind(sku).execute(&mut *db).await;
///     Ok(Json(done.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?.last_insert_rowid()))
/// }
///
/// # async fn authenticate(request: axum::extract::Request, next: middleware::Next) -> axum::response::Response {
/// #     next.run(request).await
/// # }
/// pub fn router(store: SqliteStore) -> Router {
///     Router::new()
///         .route("/orders", post(create_order))
///         .layer(IdempotencyLayer::new(store))
///         .layer(middleware::from_fn(authenticate)) // inserts `Principal`
/// }
/// # }
/// ```
#[must_use = "a layer does nothing until it is put around a route"]
pub struct IdempotencyLayer<C: Connection> {
    guard: Guard<C>,
}

/// What a handler says of its unit, where the status says it wrong: an extension of its answer.
///
/// ```
/// use axum::{Extension, http::StatusCode, response::IntoResponse};
/// use idem_runtime::http::End;
///
/// /// The card was declined: that is a result, and a repeat must not try again.
/// async fn declined() -> impl IntoResponse {
///     (StatusCode::PAYMENT_REQUIRED, Extension(End::Commit), "card declined")
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Commit, and keep the answer. Not for a status of 500 and above, which is always rolled back.
    Commit,
    /// Roll back; a repeat runs again.
    RollBack,
}

struct Guard<C: Connection> {
    store: Store<C>,
    settings: Option<HttpSettings>,
    scope: Cow<'static, str>,
    body_limit: usize,
    answer_limit: usize,
    comparison: BodyComparison,
    keep_client_errors: bool,
    left_out: Vec<HeaderName>,
}

impl<C: Connection> Clone for Guard<C> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            settings: self.settings.clone(),
            scope: self.scope.clone(),
            left_out: self.left_out.clone(),
            ..*self
        }
    }
}

impl<C: Connection> Clone for IdempotencyLayer<C> {
    fn clone(&self) -> Self {
        Self { guard: self.guard.clone() }
    }
}

impl<C: Connection> fmt::Debug for IdempotencyLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("store", &self.guard.store)
            .field("scope", &self.guard.scope)
            .finish_non_exhaustive()
    }
}

impl<C: Connection> IdempotencyLayer<C> {
    /// A layer over a store, with the default settings.
    pub fn new(store: Store<C>) -> Self {
        Self {
            guard: Guard {
                store,
                settings: None,
                scope: Cow::Borrowed("http"),
                body_limit: 2 * 1024 * 1024,
                answer_limit: 64 * 1024,
                comparison: BodyComparison::default(),
                keep_client_errors: false,
                left_out: Vec::new(),
            },
        }
    }

    /// How keys are read and problems are answered, in place of what the request's extensions say. Handlers behind the
    /// layer find it there.
    pub fn settings(mut self, settings: HttpSettings) -> Self {
        self.guard.settings = Some(settings);
        self
    }

    /// The scope of the keys, `http` by default. Method and path are in the key, so one scope does for all routes.
    pub fn scope(mut self, scope: impl Into<Cow<'static, str>>) -> Self {
        self.guard.scope = scope.into();
        self
    }

    /// The largest body of a request, in bytes, 2 MiB by default. It is read into memory before the claim.
    pub const fn body_limit(mut self, bytes: usize) -> Self {
        self.guard.body_limit = bytes;
        self
    }

    /// The largest body of an answer that is stored, in bytes, 64 KiB by default and at most 2 MiB. A larger one is
    /// committed and given to the client, and not stored; a repeat gets
    /// [`ProblemKind::AlreadyDone`](super::ProblemKind::AlreadyDone).
    pub const fn answer_limit(mut self, bytes: usize) -> Self {
        const MOST: usize = 2 * 1024 * 1024;
        self.guard.answer_limit = if bytes > MOST { MOST } else { bytes };
        self
    }

    /// How the bodies of requests under one key are compared, byte for byte by default.
    pub const fn compare(mut self, comparison: BodyComparison) -> Self {
        self.guard.comparison = comparison;
        self
    }

    /// Whether an answer of 400 to 499 is committed and stored, false by default.
    pub const fn keep_client_errors(mut self, keep: bool) -> Self {
        self.guard.keep_client_errors = keep;
        self
    }

    /// A header of answers that is not stored.
    pub fn leave_out(mut self, name: HeaderName) -> Self {
        self.guard.left_out.push(name);
        self
    }
}

impl<S, C: Connection> Layer<S> for IdempotencyLayer<C> {
    type Service = IdempotencyService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService { inner, guard: Arc::new(self.guard.clone()) }
    }
}

/// What [`IdempotencyLayer`] makes of a service.
pub struct IdempotencyService<S, C: Connection> {
    inner: S,
    guard: Arc<Guard<C>>,
}

impl<S: Clone, C: Connection> Clone for IdempotencyService<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), guard: Arc::clone(&self.guard) }
    }
}

impl<S: fmt::Debug, C: Connection> fmt::Debug for IdempotencyService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, C> Service<Request> for IdempotencyService<S, C>
where
    S: Service<Request, Response = Response, Error: Send, Future: Send> + Clone + Send + 'static,
    S::Error: 'static,
    C: Connection,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The one that is ready is used up, and a new one takes its place.
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE) {
            return Box::pin(inner.call(request));
        }
        let passage = Passage::of(&self.guard, &request);
        Box::pin(async move {
            match passage.admit(request).await {
                Ok((key, request)) => detach(async move { passage.run(key, request, inner).await }).await,
                Err(error) => Ok(error.answer(&passage.settings)),
            }
        })
    }
}

/// What is kept of an answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    Answer(Answer),
    /// Its body was over the limit.
    Large {
        status: u16,
    },
}

/// What the handler came to.
struct Answered<C: Connection, E> {
    result: Result<Response, E>,
    unit: Shared<C>,
}

/// One request on its way through the layer.
struct Passage<C: Connection> {
    guard: Arc<Guard<C>>,
    settings: HttpSettings,
}

impl<C: Connection> Passage<C> {
    fn of(guard: &Arc<Guard<C>>, request: &Request) -> Self {
        let own = guard.settings.as_ref().or_else(|| request.extensions().get());
        Self { guard: Arc::clone(guard), settings: own.cloned().unwrap_or_default() }
    }

    /// Reads the key and the body, before anything is claimed: a slow client holds no transaction open.
    async fn admit(&self, request: Request) -> Result<(Result<Key, KeyError>, Request), HttpError> {
        let (mut parts, body) = request.into_parts();
        let key = IdempotencyKey::of(&parts, &self.settings)?;
        let body = match buffer::read(body, self.guard.body_limit).await {
            Read::Whole(body) => body,
            Read::Larger(_) => return Err(HttpError::BodyTooLarge { limit: self.guard.body_limit }),
            Read::Broken => return Err(HttpError::BodyUnreadable),
        };
        let payload = self.guard.comparison.payload(&parts, &body);
        let claimed = Key::scope(self.guard.scope.clone()).part(&key).payload(payload).finish();
        parts.extensions.insert(self.settings.clone());
        Ok((claimed, Request::from_parts(parts, Body::from(body))))
    }

    async fn run<S>(&self, key: Result<Key, KeyError>, mut request: Request, mut inner: S) -> Result<Response, S::Error>
    where
        S: Service<Request, Response = Response>,
    {
        let unit = match self.guard.store.claim(key).await {
            Ok(Claim::First(unit)) => unit,
            Ok(Claim::Duplicate(seen)) => return Ok(self.repeat(seen)),
            Err(error) => return Ok(self.failed(error.into())),
        };
        let unit = Arc::new(Mutex::new(unit));
        request.extensions_mut().insert(Door::to(&unit));
        // The unit goes with the handler: a panic then drops it on its way, and the log says so.
        let answered = caught(async move {
            let result = inner.call(request).await;
            Answered { result, unit }
        });
        let Some(Answered { result, unit }) = answered.await else {
            return Ok(HttpError::Panicked.answer(&self.settings));
        };
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                self.roll_back(unit, None).await;
                return Err(error);
            }
        };
        Ok(match self.end_of(&response) {
            End::Commit => self.commit(unit, response).await,
            End::RollBack => {
                let fault = self.roll_back(unit, Some(response.status())).await;
                fault.unwrap_or(response)
            }
        })
    }

    fn end_of(&self, response: &Response) -> End {
        let status = response.status();
        if status.is_server_error() || status.is_informational() {
            return End::RollBack;
        }
        let by_status =
            if status.is_client_error() && !self.guard.keep_client_errors { End::RollBack } else { End::Commit };
        response.extensions().get::<End>().copied().unwrap_or(by_status)
    }

    /// Rolls back, and gives another answer than the handler's where that failed.
    async fn roll_back(&self, unit: Shared<C>, status: Option<StatusCode>) -> Option<Response> {
        // One that somebody still has is rolled back when it is dropped.
        let unit = Arc::into_inner(unit)?.into_inner();
        let ended: Result<Outcome<Infallible>, Error<()>> = match status {
            // A refusal is no failure.
            Some(status) if !status.is_server_error() => {
                unit.decline(Decline { reason: format!("the handler answered {status}"), then: Then::Drop }).await
            }
            _ => unit.roll_back(()).await,
        };
        match ended {
            Ok(_) | Err(Error::Body(())) => None,
            Err(error) => Some(self.failed(error)),
        }
    }

    async fn commit(&self, unit: Shared<C>, response: Response) -> Response {
        let (parts, body) = response.into_parts();
        // Before the unit is taken back: a body that is made while it is read may still use the connection.
        let Some(read) = caught(buffer::read(body, self.guard.answer_limit)).await else {
            return HttpError::Panicked.answer(&self.settings);
        };
        let Some(unit) = Arc::into_inner(unit) else {
            return HttpError::UnitKept.answer(&self.settings);
        };
        let unit = unit.into_inner();
        let (kept, body) = match read {
            Read::Whole(body) => {
                let headers = storable(&parts.headers, &self.guard.left_out);
                (Kept::Answer(Answer::with_headers(parts.status, headers, body.clone())), Body::from(body))
            }
            Read::Larger(rest) => (Kept::Large { status: parts.status.as_u16() }, Body::new(rest)),
            Read::Broken => {
                return match unit.roll_back::<Infallible, (), ()>(()).await {
                    Err(error @ Error::TransactionEnded(_)) => self.failed(error),
                    _ => HttpError::AnswerBroken.answer(&self.settings),
                };
            }
        };
        self.close(unit, kept, parts, body).await
    }

    async fn close(&self, unit: Unit<C>, kept: Kept, parts: response::Parts, body: Body) -> Response {
        match unit.commit_and_keep::<_, ()>(kept, &self.keep()).await {
            Ok(Outcome::First(_)) => Response::from_parts(parts, body),
            Ok(Outcome::Duplicate(seen)) => self.replay(seen.result),
            // Only a guard ignores.
            Ok(Outcome::Ignored(_)) => HttpError::AnswerBroken.answer(&self.settings),
            Err(error) => self.failed(error),
        }
    }

    /// Room for the body as text or as hexadecimal digits, and for the headers.
    fn keep(&self) -> Keep<Kept> {
        Keep::new().limit(2 * self.guard.answer_limit + 128 * 1024)
    }

    fn repeat(&self, seen: Seen) -> Response {
        self.replay(seen.replay(&self.keep()).result)
    }

    fn replay(&self, replay: Replay<Kept>) -> Response {
        match replay {
            Replay::Value(Kept::Answer(answer)) => replayed(answer.into_response()),
            Replay::Value(Kept::Large { status }) => problem::too_large(status, &self.settings).into_response(),
            Replay::Unavailable(why) => problem::already_done(Some(&why), &self.settings).into_response(),
        }
    }

    fn failed(&self, error: Error<()>) -> Response {
        match problem::of_unit(error, &self.settings) {
            Ok(problem) => problem.into_response(),
            Err(()) => HttpError::AnswerBroken.answer(&self.settings),
        }
    }
}

/// What a future gives; `None` when it panics. It is dropped by the panic, so nobody sees what it left half done.
async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}
