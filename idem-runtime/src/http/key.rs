use super::{
    error::{HttpError, Rejection},
    header,
    settings::HttpSettings,
};
use crate::{
    error::Error,
    key::{KeyPart, KeyWriter, Stable, hex},
    outcome::Outcome,
};
use axum::{
    extract::{FromRequestParts, OriginalUri},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use std::fmt;

/// Who makes a request: what the application's authentication puts into the request's extensions.
///
/// Keys of different principals are different actions, whatever the clients send. It is stored with the key and shown in
/// logs, so use the account's own number and nothing secret.
///
/// ```
/// use axum::{extract::Request, middleware::Next, response::Response};
/// use idem_runtime::http::Principal;
///
/// async fn authenticate(mut request: Request, next: Next) -> Response {
///     let account = "account-7"; // from the session, the token, the certificate
///     request.extensions_mut().insert(Principal(account.to_owned()));
///     next.run(request).await
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(pub String);

/// The key of a request, from its `Idempotency-Key` header: an extractor.
///
/// It is a key part that stands for the principal, the method, the path and the header's value together. So one value from
/// another user, with another method or for another path is another action. The value is random, and identifies the
/// action all the same: the client makes it once for each submission and sends it again with every repeat.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// use axum::{Json, Router, extract::State, http::StatusCode, response::{IntoResponse, Response}, routing::post};
/// use idem_runtime::{SqliteStore, http::IdempotencyKey, idempotent};
/// use serde::{Deserialize, Serialize};
/// use sqlx::SqliteConnection;
///
/// #[derive(Deserialize)]
/// struct NewOrder {
///     sku: String,
///     quantity: i64,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Created {
///     id: i64,
/// }
///
/// struct Failure(sqlx::Error);
///
/// impl IntoResponse for Failure {
///     fn into_response(self) -> Response {
///         StatusCode::INTERNAL_SERVER_ERROR.into_response()
///     }
/// }
///
/// #[idempotent(key = key, payload = order.sku + ":" + order.quantity, store = db, scope = "orders.create", replay)]
/// async fn create(db: &mut SqliteConnection, key: &IdempotencyKey, order: &NewOrder) -> Result<Created, Failure> {
///     let insert = sqlx::query("INSERT INTO orders (sku, quantity) VALUES (?, ?)").bind(&order.sku).bind(order.quantity);
///     let done = insert.execute(&mut *db).await.map_err(Failure)?;
///     Ok(Created { id: done.last_insert_rowid() })
/// }
///
/// async fn create_order(State(store): State<SqliteStore>, key: IdempotencyKey, Json(order): Json<NewOrder>) -> Response {
///     key.respond_with(create(&store, &key, &order).await, |created| (StatusCode::CREATED, Json(created)))
/// }
///
/// pub fn router(store: SqliteStore) -> Router {
///     Router::new().route("/orders", post(create_order)).with_state(store)
/// }
/// # }
/// ```
///
/// The extractor refuses a request without a key, with one that cannot be read, or without a principal; see
/// [`HttpError`] and [`HttpSettings`].
#[derive(Clone)]
pub struct IdempotencyKey {
    value: String,
    principal: Option<String>,
    method: String,
    path: String,
    settings: HttpSettings,
}

impl IdempotencyKey {
    /// Reads the key of a request.
    ///
    /// # Errors
    /// [`HttpError`] when there is none, or none that can be taken.
    pub fn of(parts: &Parts, settings: &HttpSettings) -> Result<Self, HttpError> {
        let values = settings.values();
        let header = || values.header.to_string();
        let mut found = parts.headers.get_all(&values.header).iter();
        let value = found.next().ok_or_else(|| HttpError::KeyMissing { header: header() })?;
        if found.next().is_some() {
            return Err(HttpError::KeySeveral { header: header() });
        }
        let value = header::read(value.as_bytes(), values.bare, &values.lengths)
            .map_err(|fault| HttpError::KeyMalformed { header: header(), fault })?;
        let principal = match parts.extensions.get::<Principal>() {
            Some(Principal(principal)) if principal.trim().is_empty() => return Err(HttpError::NoPrincipal),
            Some(Principal(principal)) => Some(principal.clone()),
            None if values.anonymous => None,
            None => return Err(HttpError::NoPrincipal),
        };
        // Inside a nested router the URI lacks what stands before it.
        let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        Ok(Self {
            value,
            principal,
            method: parts.method.to_string(),
            path: uri.path().to_owned(),
            settings: settings.clone(),
        })
    }

    /// The header's value, without quotes. It is the client's: do not log it when keys are private.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Who made the request; `None` for an anonymous one.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// The settings that the request was read with.
    pub const fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// The answer to the request; see [`HttpSettings::respond`].
    pub fn respond<T, R, E>(&self, result: Result<Outcome<T, R>, Error<E>>) -> Response
    where
        T: IntoResponse,
        R: super::Repeat<T>,
        E: IntoResponse,
    {
        self.settings.respond(result)
    }

    /// The answer to the request; see [`HttpSettings::respond_with`].
    pub fn respond_with<T, R, E, A>(
        &self,
        result: Result<Outcome<T, R>, Error<E>>,
        show: impl FnOnce(T) -> A,
    ) -> Response
    where
        R: super::Repeat<T>,
        E: IntoResponse,
        A: IntoResponse,
    {
        self.settings.respond_with(result, show)
    }

    /// A few characters that tell keys apart without giving one away: at most four, and a quarter.
    fn hint(&self) -> &str {
        self.value.get(..4.min(self.value.len() / 4)).unwrap_or_default()
    }

    fn digest(&self) -> String {
        hex(&Sha256::digest(&self.value))
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.settings.values().private {
            format!("{}…#{}", self.hint(), &self.digest()[..12])
        } else {
            self.value.clone()
        };
        f.debug_struct("IdempotencyKey")
            .field("value", &value)
            .field("principal", &self.principal)
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// `POST:/orders:account-7:8e03978e-40d5`, and with a private key `POST:/orders:account-7:8e03#<digest>`.
#[diagnostic::do_not_recommend]
impl KeyPart for IdempotencyKey {
    type Risk = Stable;

    fn write_key(&self, out: &mut KeyWriter<'_>) {
        out.text(&self.method);
        out.mark(':');
        for (number, segment) in self.path.split('/').enumerate() {
            if number > 0 {
                out.mark('/');
            }
            out.text(segment);
        }
        out.mark(':');
        match &self.principal {
            Some(principal) => out.text(principal),
            None => out.none(),
        }
        out.mark(':');
        if self.settings.values().private {
            out.text(self.hint());
            out.mark('#');
            out.text(&self.digest());
        } else {
            out.text(&self.value);
        }
    }
}

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let settings = parts.extensions.get::<HttpSettings>().cloned().unwrap_or_default();
        Self::of(parts, &settings).map_err(|error| Rejection::new(error, settings))
    }
}
