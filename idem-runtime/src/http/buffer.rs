//! Reading bodies up to a limit.

use axum::body::{Body, Bytes, HttpBody as _};
use http_body::{Frame, SizeHint};
use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

/// A body that was read up to a limit.
pub(super) enum Read {
    Whole(Vec<u8>),
    /// It is larger: what was read, and what follows.
    Larger(Rest),
    /// It failed.
    Broken,
}

/// A body of which the beginning was read. Trailers are lost.
pub(super) struct Rest {
    start: Option<Bytes>,
    body: Body,
}

/// Reads a body, and stops when it is found to be larger than `limit` bytes. One that says its size is not read for that.
pub(super) async fn read(mut body: Body, limit: usize) -> Read {
    let over = |bytes: u64| usize::try_from(bytes).map_or(true, |bytes| bytes > limit);
    if over(body.size_hint().lower()) {
        return Read::Larger(Rest { start: None, body });
    }
    let mut start = Vec::new();
    loop {
        match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            None => return Read::Whole(start),
            Some(Err(_)) => return Read::Broken,
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    start.extend_from_slice(&data);
                    if start.len() > limit {
                        return Read::Larger(Rest { start: Some(start.into()), body });
                    }
                }
            }
        }
    }
}

impl http_body::Body for Rest {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.start.take() {
            Some(start) => Poll::Ready(Some(Ok(Frame::data(start)))),
            None => Pin::new(&mut self.body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.start.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let start = self.start.as_ref().map_or(0, |start| start.len() as u64);
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(start));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(start)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
#[allow(clippy::panic, reason = "a test")]
mod tests {
    use super::{Read, read};
    use axum::body::{Body, HttpBody as _, to_bytes};

    #[tokio::test]
    async fn a_body_of_the_limit_is_whole_and_a_larger_one_loses_nothing() {
        let Read::Whole(whole) = read(Body::from("12345"), 5).await else { panic!("not whole") };
        assert_eq!(whole, b"12345");
        let Read::Larger(rest) = read(Body::from("123456"), 5).await else { panic!("whole") };
        let body = Body::new(rest);
        assert_eq!(body.size_hint().exact(), Some(6));
        assert_eq!(to_bytes(body, 100).await.ok().as_deref(), Some(&b"123456"[..]));
    }

    /// A body that does not say its size.
    #[tokio::test]
    async fn a_stream_is_counted() {
        struct Pieces(Vec<&'static str>);
        impl http_body::Body for Pieces {
            type Data = axum::body::Bytes;
            type Error = std::convert::Infallible;

            fn poll_frame(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
                let piece = if self.0.is_empty() { None } else { Some(self.0.remove(0)) };
                std::task::Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece.into()))))
            }
        }
        let body = || Body::new(Pieces(vec!["123", "456", "789"]));
        let Read::Whole(whole) = read(body(), 9).await else { panic!("not whole") };
        assert_eq!(whole, b"123456789");
        let Read::Larger(rest) = read(body(), 5).await else { panic!("whole") };
        assert_eq!(to_bytes(Body::new(rest), 100).await.ok().as_deref(), Some(&b"123456789"[..]));
    }

    /// A client that says how much it will send is not listened to for that long.
    #[tokio::test]
    async fn a_body_that_says_that_it_is_too_large_is_not_read() {
        struct Endless;
        impl http_body::Body for Endless {
            type Data = axum::body::Bytes;
            type Error = std::convert::Infallible;

            fn poll_frame(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
                panic!("it is read");
            }

            fn size_hint(&self) -> http_body::SizeHint {
                http_body::SizeHint::with_exact(6)
            }
        }
        assert!(matches!(read(Body::new(Endless), 5).await, Read::Larger(_)));
    }
}
