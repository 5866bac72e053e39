use crate::floor::Floor;
use std::time::Duration;

/// How long a record refuses repeats: the deduplication window.
///
/// It must cover the longest time after which the broker, or a person at a dead-letter queue, can still deliver the
/// message again, plus the longest processing, plus a margin. The default is 30 days. A record past it still refuses
/// repeats, and says that they are late, until it is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retention(Duration);

impl Retention {
    /// 30 days.
    pub const DEFAULT: Self = Self::days(30);

    /// The longest retention, 100 years: beyond it calendars of some databases end.
    pub const MAX: Self = Self::days(36_500);

    /// A number of days of 24 hours, at most [`MAX`](Self::MAX).
    #[must_use]
    pub const fn days(days: u32) -> Self {
        let days = if days > 36_500 { 36_500 } else { days };
        Self(Duration::from_secs(days as u64 * 86_400))
    }

    /// A duration, kept to whole milliseconds and at most [`MAX`](Self::MAX).
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        Self(duration.min(Self::MAX.0))
    }

    /// The least that covers every redelivery that a floor describes, rounded up to whole minutes, and at most
    /// [`MAX`](Self::MAX). A store that is told the floor too refuses less: [`StoreBuilder::covers`](crate::StoreBuilder::covers).
    ///
    /// ```
    /// use idem_runtime::{Floor, Retention};
    /// use std::time::Duration;
    ///
    /// let retention = Retention::covering(&Floor::redelivered_within(Duration::from_secs(8 * 3600)));
    /// assert_eq!(retention.as_duration(), Duration::from_secs(10 * 3600));
    /// ```
    #[must_use]
    pub fn covering(floor: &Floor) -> Self {
        let least = floor.least();
        let minutes = least.as_secs() / 60 + u64::from(!least.as_secs().is_multiple_of(60) || least.subsec_nanos() > 0);
        Self::of(Duration::from_secs(minutes.saturating_mul(60)))
    }

    /// The duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self::DEFAULT
    }
}
