//! Answers that can be stored.

use crate::key::hex;
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

/// Headers that belong to one connection (RFC 9110, section 7.6.1), are made anew for each answer, or hold secrets or
/// demands of authentication. Compared in lower case.
const LEFT_OUT: &[&str] = &[
    "authentication-info",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
];

/// A whole answer: status, headers, body. A body of `#[idempotent(.., replay)]` returns it where the status or the headers
/// depend on what was done.
///
/// What is stored, and so what a repeat gets, lacks hop-by-hop headers, `Set-Cookie`, headers of authentication, and every
/// header whose value is marked [sensitive](HeaderValue::set_sensitive).
///
/// ```
/// use axum::http::{StatusCode, header};
/// use idem_runtime::http::Answer;
///
/// let answer = Answer::json(StatusCode::CREATED, &serde_json::json!({ "id": 7 }))?;
/// assert_eq!(answer.status(), StatusCode::CREATED);
/// assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
/// assert_eq!(answer.body(), br#"{"id":7}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    /// An answer without headers.
    pub fn new(status: StatusCode, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: HeaderMap::new(), body: body.into() }
    }

    /// An answer with a value as JSON.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Result<Self, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        Ok(Self::new(status, body).header(header::CONTENT_TYPE, HeaderValue::from_static("application/json")))
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    pub(super) fn with_headers(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Self {
        Self { status, headers, body }
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The headers that may be stored.
pub(super) fn storable(headers: &HeaderMap, also_left_out: &[HeaderName]) -> HeaderMap {
    // `Connection` names further headers that are for this connection only.
    let listed: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let left_out = value.is_sensitive()
            || LEFT_OUT.contains(&name.as_str())
            || also_left_out.contains(name)
            || listed.iter().any(|listed| listed == name.as_str());
        if !left_out {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// How an answer is written down: as text where it is text, so that people can read the record.
#[derive(Serialize, Deserialize)]
struct Stored {
    status: u16,
    headers: Vec<(String, Bytes)>,
    body: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Bytes {
    Text(String),
    Hex(String),
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Hex(hex(error.as_bytes())), Self::Text)
    }
}

impl Bytes {
    fn read(self) -> Result<Vec<u8>, &'static str> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Hex(text) => unhex(&text).ok_or("damaged hexadecimal digits"),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

impl From<Answer> for Stored {
    fn from(answer: Answer) -> Self {
        let headers = storable(&answer.headers, &[]);
        let headers =
            headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec().into())).collect();
        Self { status: answer.status.as_u16(), headers, body: answer.body.into() }
    }
}

impl TryFrom<Stored> for Answer {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let status = StatusCode::from_u16(stored.status).map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        for (name, value) in stored.headers {
            let name: HeaderName = name.parse().map_err(|error| format!("{error}"))?;
            let value = HeaderValue::from_bytes(&value.read()?).map_err(|error| error.to_string())?;
            headers.append(name, value);
        }
        Ok(Self { status, headers, body: stored.body.read()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::Answer;
    use axum::http::{HeaderName, HeaderValue, StatusCode};

    /// Stored in users' databases: what was written once can be read for ever.
    #[test]
    fn the_stored_form_is_frozen() {
        let answer = Answer::new(StatusCode::CREATED, "done")
            .header(HeaderName::from_static("x-a"), HeaderValue::from_static("1"))
            .header(HeaderName::from_static("x-a"), HeaderValue::from_bytes(b"\xff").unwrap());
        let stored = r#"{"status":201,"headers":[["x-a",{"text":"1"}],["x-a",{"hex":"ff"}]],"body":{"text":"done"}}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), stored);
        assert_eq!(serde_json::from_str::<Answer>(stored).unwrap(), answer);
    }

    #[test]
    fn any_body_comes_back_as_it_was() {
        for body in [&b""[..], b"\x00\xff\xfe", "\u{1F600}\0".as_bytes(), &[0x80; 300]] {
            let answer = Answer::new(StatusCode::OK, body);
            let json = serde_json::to_vec(&answer).unwrap();
            assert_eq!(serde_json::from_slice::<Answer>(&json).unwrap().body(), body);
        }
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        for stored in [
            r#"{"status":99,"headers":[],"body":{"text":""}}"#,
            r#"{"status":200,"headers":[["a b",{"text":""}]],"body":{"text":""}}"#,
            r#"{"status":200,"headers":[["a",{"text":"\n"}]],"body":{"text":""}}"#,
            r#"{"status":200,"headers":[],"body":{"hex":"f"}}"#,
            r#"{"status":200,"headers":[],"body":{"hex":"zz"}}"#,
        ] {
            assert!(serde_json::from_str::<Answer>(stored).is_err(), "{stored}");
        }
    }
}
