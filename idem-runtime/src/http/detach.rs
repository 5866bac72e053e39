//! Work that goes on when the client has gone.

use axum::{extract::Request, middleware::Next, response::Response};
use std::panic;
use tracing::Instrument as _;

/// Runs a future in a task of its own and gives what it gives; it goes on when the caller is dropped.
///
/// A server drops the future of a handler whose client disconnects. A unit that is dropped is rolled back, which is safe:
/// the repeat runs. Detached it comes to its end, and the repeat gets the answer.
///
/// The task works inside the caller's tracing span. It ends with the runtime: a unit that is open then is rolled back.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use idem_runtime::http::detach;
///
/// let order = String::from("A1001");
/// let answer = detach(async move { format!("created {order}") }).await;
/// assert_eq!(answer, "created A1001");
/// # }
/// ```
///
/// # Panics
/// When the future does.
///
/// # Cancel safety
/// That is what it is for: dropped, it leaves the future running.
pub async fn detach<F>(future: F) -> F::Output
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    match tokio::spawn(future.in_current_span()).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => panic::resume_unwind(panic),
            // Nobody aborts the task, so the runtime is going down and takes this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Detaches whole handlers, as an axum middleware; see [`detach`].
///
/// ```
/// use axum::{Router, middleware, routing::post};
/// use idem_runtime::http::detached;
///
/// async fn create_order() {}
///
/// let router: Router = Router::new().route("/orders", post(create_order)).layer(middleware::from_fn(detached));
/// ```
///
/// # Panics
/// When the handler does.
pub async fn detached(request: Request, next: Next) -> Response {
    detach(next.run(request)).await
}
