//! What a request carries, for telling a repeat from another request under the same key.

use super::canonical;
use crate::key::{Payload, hex};
use axum::http::{header, request::Parts};
use sha2::{Digest, Sha256};

/// How the bodies of two requests under one key are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BodyComparison {
    /// Byte for byte: for clients that send the same bytes again, as those do that repeat a request by themselves.
    #[default]
    Bytes,
    /// JSON by its meaning: the order of members, white space, escapes and the way numbers are written (`1`, `1.0`,
    /// `1e0`) make no difference. For clients that build the request anew. Bodies that are not JSON by their
    /// `Content-Type`, or cannot be read as it, are compared byte for byte.
    Json,
}

impl BodyComparison {
    /// The fingerprint of a request: query and body. (Method and path are in the key.)
    pub(super) fn payload(self, parts: &Parts, body: &[u8]) -> Payload {
        let query = parts.uri.query().unwrap_or_default();
        let canonical = match self {
            Self::Bytes => None,
            Self::Json => is_json(parts).then(|| canonical::json(body)).flatten(),
        };
        let mut digest = Sha256::new();
        match &canonical {
            None => digest.update([0]),
            Some(_) => digest.update([1]),
        }
        digest.update(canonical.as_ref().map_or(body, |canonical| canonical.as_bytes()));
        // The text is part of the shape: after a change of the comparison old requests cannot be compared.
        let how = match self {
            Self::Bytes => "bytes",
            Self::Json => "json",
        };
        Payload::new().part(query).text(how).part(&hex(&digest.finalize()))
    }
}

fn is_json(parts: &Parts) -> bool {
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|content_type| {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
    })
}
