use super::delivery::Envelope;
use serde::de::DeserializeOwned;
use std::error::Error;

/// How the bytes of a message become the handler's message.
///
/// Implemented for functions `Fn(&Envelope) -> Result<M, Box<dyn Error + Send + Sync>>`; see
/// [`Consumer::decode_with`](super::Consumer::decode_with).
pub trait Decode<M> {
    /// Decodes one message. It must give the same for the same bytes: a message that cannot be decoded goes to the dead
    /// letters at once.
    ///
    /// # Errors
    /// For a message that cannot be decoded, with the reason for people.
    fn decode(&self, envelope: &Envelope) -> Result<M, Box<dyn Error + Send + Sync>>;
}

/// JSON, through serde.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<M: DeserializeOwned> Decode<M> for Json {
    fn decode(&self, envelope: &Envelope) -> Result<M, Box<dyn Error + Send + Sync>> {
        serde_json::from_slice(&envelope.payload).map_err(Into::into)
    }
}

impl<M, F> Decode<M> for F
where
    F: Fn(&Envelope) -> Result<M, Box<dyn Error + Send + Sync>>,
{
    fn decode(&self, envelope: &Envelope) -> Result<M, Box<dyn Error + Send + Sync>> {
        self(envelope)
    }
}
