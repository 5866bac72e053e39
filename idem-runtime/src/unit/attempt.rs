use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher as _, Hasher as _},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Names one attempt at a unit, so that it can recognise its own claim later. Unique, not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptToken([u8; 16]);

/// Two hashers whose keys the standard library draws from the system's randomness, once a process.
static HASHERS: OnceLock<[RandomState; 2]> = OnceLock::new();
static COUNTER: AtomicU64 = AtomicU64::new(0);

impl AttemptToken {
    pub(crate) fn new() -> Self {
        let mut bytes = [0; 16];
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        for (half, hasher) in bytes.chunks_exact_mut(8).zip(hashers()) {
            half.copy_from_slice(&hash(hasher, number).to_le_bytes());
        }
        Self(bytes)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn hashers() -> &'static [RandomState; 2] {
    HASHERS.get_or_init(|| [RandomState::new(), RandomState::new()])
}

fn hash(hasher: &RandomState, number: u64) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(number);
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// A share from 0 to below 1, another one for each who asks.
pub(crate) fn share() -> f64 {
    let [hasher, _] = hashers();
    let share = hash(hasher, COUNTER.fetch_add(1, Ordering::Relaxed)) % 1000;
    f64::from(u32::try_from(share).unwrap_or(0)) / 1000.0
}

/// Pauses between tries: longer each time, and different for each of those who run into each other.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    pub(crate) async fn pause(&mut self) {
        let pause = self.next.mul_f64(0.5 + share());
        self.next = (self.next * 2).min(self.longest);
        // tokio's timer needs tokio; on another runtime of sqlx's the next try starts at once.
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::sleep(pause).await;
        }
    }
}

/// `None` when the future does not end in time.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    // tokio's timer needs tokio; on another runtime of sqlx's the wait has no bound here.
    if tokio::runtime::Handle::try_current().is_ok() {
        tokio::time::timeout(limit, future).await.ok()
    } else {
        Some(future.await)
    }
}

/// The error of an answer that does not come.
pub(crate) fn no_answer() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the database did not answer in time"))
}

#[cfg(test)]
mod tests {
    use super::AttemptToken;
    use std::collections::HashSet;

    #[test]
    fn tokens_differ_and_survive_storage() {
        let tokens: HashSet<_> = (0..10_000).map(|_| AttemptToken::new().as_bytes().to_vec()).collect();
        assert_eq!(tokens.len(), 10_000);
        let token = AttemptToken::new();
        assert_eq!(AttemptToken::from_bytes(token.as_bytes()), Some(token));
        assert_eq!(AttemptToken::from_bytes(b"short"), None);
    }
}
