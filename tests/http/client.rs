//! A client without a network.

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use idem_runtime::http::Principal;
use tower::ServiceExt as _;

/// A request in the making.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    principal: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

/// An answer, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A POST by `alice`.
pub(crate) fn post(path: &str) -> Call {
    Call {
        method: Method::POST,
        path: path.to_owned(),
        principal: Some("alice".to_owned()),
        headers: Vec::new(),
        body: Vec::new(),
    }
}

impl Call {
    pub(crate) fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    pub(crate) fn by(self, principal: Option<&str>) -> Self {
        Self { principal: principal.map(str::to_owned), ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The key, in quotes.
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", format!("\"{key}\""))
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(crate) fn json(self, body: &str) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    pub(crate) async fn send(self, router: &Router) -> Shown {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(self.body)).unwrap();
        if let Some(principal) = self.principal {
            request.extensions_mut().insert(Principal(principal));
        }
        let response = router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Shown { status: parts.status, headers: parts.headers, body }
    }
}

impl Shown {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The name of the problem, after having looked at its form.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(!problem["title"].as_str().unwrap().is_empty());
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        problem["type"].as_str().unwrap().strip_prefix("urn:idem:problem:").unwrap().to_owned()
    }

    /// The whole seconds of `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").map(|seconds| seconds.parse().unwrap())
    }
}
