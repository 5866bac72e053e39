use crate::retention::Retention;
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Whether something answers; what does not is left alone for a while, and tried by one caller at a time.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Apart, so that nobody waits for the lock while all is well.
    troubled: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    try_at: Instant,
}

impl Health {
    /// Whether to ask. In trouble it is for one caller in each `rest`.
    pub(super) fn may_ask(&self, rest: Duration) -> bool {
        if !self.troubled.load(Ordering::Acquire) {
            return true;
        }
        let mut trouble = self.lock();
        let Some(trouble) = trouble.as_mut() else { return true };
        let now = Instant::now();
        if now < trouble.try_at {
            return false;
        }
        trouble.try_at = later(now, rest);
        true
    }

    /// It failed. Whether that is the beginning of trouble.
    pub(super) fn failed(&self, rest: Duration) -> bool {
        let mut trouble = self.lock();
        let now = Instant::now();
        let begins = trouble.is_none();
        let since = trouble.as_ref().map_or(now, |trouble| trouble.since);
        *trouble = Some(Trouble { since, try_at: later(now, rest) });
        self.troubled.store(true, Ordering::Release);
        begins
    }

    /// It answered. How long the trouble was that is over with it, if there was any.
    pub(super) fn answered(&self) -> Option<Duration> {
        if !self.troubled.load(Ordering::Acquire) {
            return None;
        }
        let mut trouble = self.lock();
        self.troubled.store(false, Ordering::Release);
        trouble.take().map(|trouble| trouble.since.elapsed())
    }

    /// Whether it has failed and not answered since.
    #[cfg(feature = "redis")]
    pub(super) fn is_troubled(&self) -> bool {
        self.troubled.load(Ordering::Acquire)
    }

    /// There is reason to think that it would answer.
    #[cfg(feature = "redis")]
    pub(super) fn ask_at_once(&self) {
        if let Some(trouble) = self.lock().as_mut() {
            trouble.try_at = Instant::now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rest too long for the clock is a century: nothing here may panic over a setting.
fn later(now: Instant, rest: Duration) -> Instant {
    now.checked_add(rest.min(Retention::MAX.as_duration())).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::Health;
    use std::time::Duration;

    #[test]
    fn trouble_begins_once_and_ends_once() {
        let health = Health::default();
        assert_eq!(health.answered(), None);
        assert!(health.failed(Duration::ZERO));
        assert!(!health.failed(Duration::ZERO));
        assert!(health.answered().is_some());
        assert_eq!(health.answered(), None);
        assert!(health.failed(Duration::MAX));
    }

    #[test]
    fn in_trouble_one_caller_asks_after_each_rest() {
        let health = Health::default();
        health.failed(Duration::from_hours(1));
        assert!(!health.may_ask(Duration::from_hours(1)));
        health.failed(Duration::ZERO);
        assert!(health.may_ask(Duration::from_hours(1)), "the rest is over");
        assert!(!health.may_ask(Duration::from_hours(1)), "somebody is asking");
        health.answered();
        assert!(health.may_ask(Duration::from_hours(1)) && health.may_ask(Duration::from_hours(1)));
    }
}
