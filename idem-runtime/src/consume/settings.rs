use crate::unit::share;
use std::time::Duration;

/// The pauses between attempts: longer each time, up to a longest one.
///
/// Each pause is moved by up to a quarter, so that messages that failed together come apart. Brokers on which every delay
/// needs a queue of its own use the steps as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    steps: Vec<Duration>,
}

impl Backoff {
    /// Doubles from `first` to `longest`.
    #[must_use]
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        let mut step = first.max(Duration::from_millis(1));
        let mut steps = Vec::new();
        // Doubling meets any duration within 64 steps of a millisecond.
        while step < longest {
            steps.push(step);
            step = step.saturating_mul(2);
        }
        steps.push(longest.max(first).max(Duration::from_millis(1)));
        Self { steps }
    }

    /// These pauses, the last one for all further attempts. Without any it is a second.
    #[must_use]
    pub fn steps(steps: impl IntoIterator<Item = Duration>) -> Self {
        let mut steps: Vec<Duration> = steps.into_iter().map(|step| step.max(Duration::from_millis(1))).collect();
        if steps.is_empty() {
            steps.push(Duration::from_secs(1));
        }
        Self { steps }
    }

    /// The pause after attempt number `attempt`, from 1.
    pub(super) fn after(&self, attempt: u32) -> Duration {
        let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        self.steps.get(index).or(self.steps.last()).copied().unwrap_or(Duration::from_secs(1))
    }

    /// Each pause once, shortest first.
    pub(super) fn distinct(&self) -> Vec<Duration> {
        let mut steps = self.steps.clone();
        steps.sort();
        steps.dedup();
        steps
    }
}

impl Default for Backoff {
    /// From a second to five minutes.
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_mins(5))
    }
}

/// A step of the backoff, moved by up to a quarter either way.
pub(super) fn jitter(step: Duration) -> Duration {
    // Multiplying a longer one could overflow.
    step.min(Duration::from_hours(24 * 365)).mul_f64(0.75 + share() / 2.0)
}

/// What becomes of a message whose action is not called for ([`Outcome::Ignored`](crate::Outcome::Ignored)).
///
/// A body that declined with [`Decision::retry`](crate::Decision::retry) asks for another delivery, and gets it whatever is
/// set here; those attempts count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenIgnored {
    /// It is dealt with: a late or stale event.
    #[default]
    Ack,
    /// It comes again later, and counts: events of this queue may overtake each other.
    Retry,
    /// It goes to the dead letters, for a person to look at.
    DeadLetter,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) concurrency: usize,
    /// `None`: as the lanes want it.
    pub(super) backlog: Option<usize>,
    pub(super) max_attempts: Option<u32>,
    pub(super) backoff: Backoff,
    pub(super) patience: Duration,
    pub(super) when_ignored: WhenIgnored,
    pub(super) grace: Duration,
    pub(super) settle_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 16,
            backlog: None,
            max_attempts: Some(10),
            backoff: Backoff::default(),
            patience: Duration::from_mins(5),
            when_ignored: WhenIgnored::Ack,
            grace: Duration::from_secs(30),
            settle_timeout: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, jitter};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::exponential(SECOND, 10 * SECOND);
        let pauses: Vec<u64> = (1..=7).map(|attempt| backoff.after(attempt).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10, 10]);
        assert_eq!(backoff.distinct().len(), 5);
    }

    #[test]
    fn no_setting_is_a_pause_of_nothing_or_a_loop() {
        assert_eq!(Backoff::exponential(Duration::ZERO, Duration::ZERO).after(3), Duration::from_millis(1));
        assert_eq!(Backoff::exponential(Duration::MAX, SECOND).after(1), Duration::MAX);
        assert!(Backoff::exponential(Duration::ZERO, Duration::MAX).distinct().len() < 100);
        assert_eq!(Backoff::steps([]).after(1), SECOND);
        assert_eq!(Backoff::steps([SECOND, Duration::ZERO]).after(u32::MAX), Duration::from_millis(1));
    }

    #[test]
    fn jitter_stays_near_the_step() {
        let pauses: Vec<Duration> = (0..100).map(|_| jitter(4 * SECOND)).collect();
        assert!(pauses.iter().all(|pause| (3 * SECOND..=5 * SECOND).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
