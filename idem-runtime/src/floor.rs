//! The least retention: how long after its first delivery a message can still be delivered again.

use std::{fmt, time::Duration};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// `messageDelayLevel` of RocketMQ from its third level on, at which retries begin: in seconds.
const ROCKETMQ: [u64; 16] = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];
/// NATS' own `ack_wait`, where none is set.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// The longest time after its first delivery in which a message can still come again. Records must be kept for longer.
///
/// A preset describes what the broker does by itself. What only you know is added: how long a delivery is
/// [worked on](Self::processing), how long consumers may be [down](Self::outage), how late a person may
/// [redrive](Self::redriven_within) a dead letter. Sums that are too long for a `Duration` stay at its maximum.
///
/// ```
/// use idem_runtime::{Floor, Retention};
/// use std::time::Duration;
///
/// let floor = Floor::rocketmq()
///     .processing(Duration::from_secs(60))
///     .redriven_within(Duration::from_secs(3 * 86_400));
/// assert_eq!(
///     floor.to_string(),
///     "RocketMQ's 16 retries take 4h 45m 40s, + 17m for 17 deliveries of 1m each, + 3d until a person redrives a dead \
///      letter, + a margin of 19h 15m 40s: 4d 18m 20s"
/// );
/// assert!(Retention::covering(&floor) >= Retention::of(floor.least()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a floor does nothing by itself: give it to `StoreBuilder::covers` or `Retention::covering`"]
pub struct Floor {
    /// Each is one way in which messages come again; the longest counts.
    ways: Vec<Way>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    because: String,
    /// From the first delivery to the last, without the work.
    span: Duration,
    deliveries: u64,
    processing: Duration,
    outage: Duration,
    redriven: Duration,
    margin: Option<Duration>,
}

/// Why a broker's settings have no longest redelivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FloorError {
    /// JetStream with neither a bound on deliveries nor on the age of messages.
    #[error(
        "with `max_deliver` unlimited a message comes again for as long as the stream holds it, and this stream has no \
         `max_age`: set one of them"
    )]
    Unlimited,
}

impl Floor {
    /// A message can come again for so long after its first delivery: for a broker, or a sender, without a preset here.
    ///
    /// An upstream that calls back on a schedule of its own is one: the schedule is in its documentation.
    pub fn redelivered_within(longest: Duration) -> Self {
        Self::way(format!("a message comes again for up to {}", Human(longest)), longest, 1)
    }

    /// Retries with these delays, one after the other: RabbitMQ's delayed retry queues, retry topics, RocketMQ with a
    /// `messageDelayLevel` or a `maxReconsumeTimes` of its own.
    pub fn delays(delays: &[Duration]) -> Self {
        let (sum, deliveries) = (sum(delays.iter().copied()), deliveries(delays));
        let retries = counted(delays.len() as u64, "retry takes", "retries take");
        Self::way(format!("{retries} {}", Human(sum)), sum, deliveries)
    }

    /// RocketMQ as it comes: 16 retries after 10 s, 30 s, 1 min .. 10 min, 20 min, 30 min, 1 h, 2 h: 4 h 45 min 40 s.
    ///
    /// From "Consumption Retry" of the Apache RocketMQ documentation: `maxReconsumeTimes` is 16, and the delays are
    /// those of `messageDelayLevel` from its third on. A delivery that is worked on for longer than the consume timeout
    /// of 15 minutes is sent back while it still runs, so count it in [`processing`](Self::processing). With other
    /// settings use [`delays`](Self::delays). Who reads the dead letter topic again counts
    /// [`redriven_within`](Self::redriven_within).
    pub fn rocketmq() -> Self {
        let delays = ROCKETMQ.map(Duration::from_secs);
        let sum = sum(delays.iter().copied());
        Self::way(format!("RocketMQ's 16 retries take {}", Human(sum)), sum, deliveries(&delays))
    }

    /// RabbitMQ with delayed retry queues of these delays, or none: with 30 minutes for each delivery, after which the
    /// broker takes it back from a consumer that does not answer.
    ///
    /// From "Consumer Delivery Acknowledgements: Delivery Acknowledgement Timeout" of the RabbitMQ documentation:
    /// `consumer_timeout` is 1,800,000 ms, and the [`processing`](Self::processing) is within it. Where yours is another, say it with
    /// [`rabbitmq_with_timeout`](Self::rabbitmq_with_timeout). A delivery that is requeued without a delay counts as a
    /// delay of zero: with `x-delivery-limit` = n there are n of them. Without a limit there is no longest time, and you
    /// have to say one: [`redelivered_within`](Self::redelivered_within).
    pub fn rabbitmq(delays: &[Duration]) -> Self {
        Self::rabbitmq_with_timeout(delays, Duration::from_mins(30))
    }

    /// [`rabbitmq`](Self::rabbitmq) with another `consumer_timeout`.
    pub fn rabbitmq_with_timeout(delays: &[Duration], consumer_timeout: Duration) -> Self {
        let (waits, deliveries) = (sum(delays.iter().copied()), deliveries(delays));
        let held = times(consumer_timeout, deliveries);
        let because = format!(
            "RabbitMQ's {} {}, and each of {} may be held for {}",
            counted(delays.len() as u64, "delayed retry takes", "delayed retries take"),
            Human(waits),
            counted(deliveries, "delivery", "deliveries"),
            Human(consumer_timeout)
        );
        Self::way(because, waits.saturating_add(held), deliveries)
    }

    /// Kafka, or what speaks its protocol, with a topic of this `retention.ms` and `segment.ms`.
    ///
    /// A group that has lost its offsets reads the whole topic again, with `auto.offset.reset = earliest`: they are
    /// deleted when the group was away for `offsets.retention.minutes`, 7 days by default, and anybody may reset them. So
    /// keeping offsets for longer or shorter changes nothing: what counts is how long the topic holds a message. That is
    /// `retention.ms` after its segment was closed, which takes up to `segment.ms` where little is written; see
    /// [`kafka_defaults`](Self::kafka_defaults). From "Topic Configs" and "Broker Configs" of the Apache Kafka
    /// documentation. A topic that is compacted, or has no bound in time, holds messages for ever: use a `payload`, a
    /// guard on the business row, or [`Retention::MAX`](crate::Retention::MAX).
    pub fn kafka(topic_retention: Duration, segment: Duration) -> Self {
        let span = topic_retention.saturating_add(segment);
        let because = format!(
            "a Kafka group that lost its offsets reads the whole topic again, which holds a message for up to {}",
            Human(span)
        );
        Self::way(because, span, 1)
    }

    /// Kafka as it comes: `retention.ms` and `segment.ms` of 7 days each, so up to 14 days.
    pub fn kafka_defaults() -> Self {
        Self::kafka(7 * DAY, 7 * DAY)
    }

    /// A JetStream consumer, by the fields of its configuration and its stream's `max_age`, as NATS writes them: a
    /// `max_deliver` under 1 is unlimited, a zero `max_age` is none, a zero `ack_wait` is 30 seconds.
    ///
    /// From "Consumers" of the NATS documentation: a delivery that is not answered within `ack_wait`, or within its
    /// element of `backoff` where there is one (the last is used again), comes again. Delays that the handler asks for
    /// (`Nak` with a delay) are not known here: add the longest with [`processing`](Self::processing).
    ///
    /// # Errors
    /// [`FloorError::Unlimited`] when neither `max_deliver` nor `max_age` has a bound.
    pub fn jetstream(
        max_deliver: i64,
        ack_wait: Duration,
        backoff: &[Duration],
        max_age: Duration,
    ) -> Result<Self, FloorError> {
        let wait = backoff.last().copied().unwrap_or(if ack_wait.is_zero() { ACK_WAIT } else { ack_wait });
        let by_deliveries = u64::try_from(max_deliver).ok().filter(|most| *most > 0).map(|deliveries| {
            let retries = deliveries - 1;
            let steps = retries.min(backoff.len() as u64);
            let first = backoff.iter().copied().take(usize::try_from(steps).unwrap_or(usize::MAX));
            let waits = sum(first).saturating_add(times(wait, retries - steps));
            let because =
                format!("JetStream's {} {}", counted(deliveries, "delivery takes", "deliveries take"), Human(waits));
            (because, waits, deliveries)
        });
        let by_age = Some(max_age).filter(|age| !age.is_zero()).map(|age| {
            let because = format!("the JetStream stream holds a message for {}", Human(age));
            (because, age, 1)
        });
        let shorter = by_deliveries.into_iter().chain(by_age).min_by_key(|(_, span, _)| *span);
        shorter.map(|(because, span, deliveries)| Self::way(because, span, deliveries)).ok_or(FloorError::Unlimited)
    }

    /// Ledgers, payments, refunds: 30 days, the margin included. Statements are reconciled by the month, and what was
    /// missed is sent again by hand.
    pub fn ledger() -> Self {
        Self::way("a ledger's month of reconciliation is 30d".to_owned(), 30 * DAY, 1).margin(Duration::ZERO)
    }

    /// How long a delivery is worked on at most, from its arrival to the acknowledgement; counted for each delivery.
    pub fn processing(self, longest: Duration) -> Self {
        self.each(|way| way.processing = longest)
    }

    /// How long consumers may be down while messages wait for them: a weekend, say. None by default. (Not for a floor
    /// that is the age of messages in the broker: Kafka's, JetStream's `max_age`.)
    pub fn outage(self, longest: Duration) -> Self {
        self.each(|way| way.outage = longest)
    }

    /// How long after the last retry a person may still redrive the message from the dead-letter queue.
    pub fn redriven_within(self, longest: Duration) -> Self {
        self.each(|way| way.redriven = longest)
    }

    /// What is added for clocks, queues and the unforeseen. By default a quarter of the rest, and at least 1 hour.
    pub fn margin(self, margin: Duration) -> Self {
        self.each(|way| way.margin = Some(margin))
    }

    /// The longer of two: for a handler that is fed from several sides.
    pub fn and(mut self, other: Self) -> Self {
        self.ways.extend(other.ways);
        self
    }

    /// The least retention.
    #[must_use]
    pub fn least(&self) -> Duration {
        self.longest().map_or(Duration::ZERO, Way::least)
    }

    fn way(because: String, span: Duration, deliveries: u64) -> Self {
        let zero = Duration::ZERO;
        Self {
            ways: vec![Way { because, span, deliveries, processing: zero, outage: zero, redriven: zero, margin: None }],
        }
    }

    fn each(mut self, change: impl FnMut(&mut Way)) -> Self {
        self.ways.iter_mut().for_each(change);
        self
    }

    fn longest(&self) -> Option<&Way> {
        self.ways.iter().max_by_key(|way| way.least())
    }
}

impl Way {
    fn without_margin(&self) -> Duration {
        sum([self.span, times(self.processing, self.deliveries), self.outage, self.redriven])
    }

    fn margin(&self) -> Duration {
        self.margin.unwrap_or_else(|| (self.without_margin() / 4).max(HOUR))
    }

    fn least(&self) -> Duration {
        self.without_margin().saturating_add(self.margin())
    }
}

/// One sentence that explains the sum.
impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(way) = self.longest() else { return Ok(()) };
        f.write_str(&way.because)?;
        if !way.processing.is_zero() {
            let (all, each) = (Human(times(way.processing, way.deliveries)), Human(way.processing));
            match way.deliveries {
                1 => write!(f, ", + {all} to work on a delivery")?,
                deliveries => write!(f, ", + {all} for {deliveries} deliveries of {each} each")?,
            }
        }
        if !way.outage.is_zero() {
            write!(f, ", + {} in which consumers may be down", Human(way.outage))?;
        }
        if !way.redriven.is_zero() {
            write!(f, ", + {} until a person redrives a dead letter", Human(way.redriven))?;
        }
        if !way.margin().is_zero() {
            write!(f, ", + a margin of {}", Human(way.margin()))?;
        }
        write!(f, ": {}", Human(way.least()))
    }
}

fn sum(parts: impl IntoIterator<Item = Duration>) -> Duration {
    parts.into_iter().fold(Duration::ZERO, Duration::saturating_add)
}

fn times(each: Duration, times: u64) -> Duration {
    let nanos = each.as_nanos().saturating_mul(u128::from(times));
    let seconds = u64::try_from(nanos / 1_000_000_000);
    // The rest is below a second.
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    seconds.map_or(Duration::MAX, |seconds| Duration::new(seconds, rest))
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn deliveries(delays: &[Duration]) -> u64 {
    delays.len() as u64 + 1
}

/// A duration for people: `4d 18m 20s`.
struct Human(Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Duration::MAX {
            return f.write_str("for ever");
        }
        let seconds = self.0.as_secs();
        let parts = [
            (seconds / 86_400, "d"),
            (seconds / 3600 % 24, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (u64::from(self.0.subsec_millis()), "ms"),
        ];
        let mut said = false;
        for (number, unit) in parts.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, "{}{number}{unit}", if said { " " } else { "" })?;
            said = true;
        }
        if said { Ok(()) } else { f.write_str("0s") }
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY, Floor, FloorError, HOUR, times};
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_mins(1);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_preset_sums_what_its_broker_does() {
        let none = Duration::ZERO;
        let jetstream = |most, wait, backoff: &[_], age| Floor::jetstream(most, wait, backoff, age).unwrap();
        for (floor, span, deliveries) in [
            (Floor::redelivered_within(5 * MINUTE), 5 * MINUTE, 1),
            (Floor::delays(&[]), none, 1),
            (Floor::delays(&[secs(1), secs(2), secs(3)]), secs(6), 4),
            (Floor::rocketmq(), secs(4 * 3600 + 45 * 60 + 40), 17),
            (Floor::rabbitmq(&[]), 30 * MINUTE, 1),
            (Floor::rabbitmq(&[MINUTE, HOUR]), MINUTE + HOUR + 90 * MINUTE, 3),
            (Floor::rabbitmq_with_timeout(&[MINUTE], HOUR), MINUTE + 2 * HOUR, 2),
            (Floor::kafka(DAY, HOUR), DAY + HOUR, 1),
            (Floor::kafka_defaults(), 14 * DAY, 1),
            (jetstream(5, secs(30), &[], none), secs(120), 5),
            (jetstream(5, none, &[], none), secs(120), 5),
            (jetstream(1, secs(30), &[], none), none, 1),
            (jetstream(5, secs(30), &[secs(1), secs(10)], none), secs(31), 5),
            (jetstream(2, secs(30), &[secs(1), secs(10)], none), secs(1), 2),
            (jetstream(5, secs(30), &[], HOUR), secs(120), 5),
            (jetstream(5, HOUR, &[], HOUR), HOUR, 1),
            (jetstream(-1, secs(30), &[], DAY), DAY, 1),
            (jetstream(0, secs(30), &[], DAY), DAY, 1),
        ] {
            let bare = floor.clone().margin(none);
            assert_eq!(bare.least(), span, "{floor}");
            assert_eq!(bare.processing(secs(1)).least(), span + times(secs(1), deliveries), "{floor}");
            assert_eq!(floor.least(), span + (span / 4).max(HOUR), "{floor}");
        }
        assert_eq!(Floor::ledger().least(), 30 * DAY);
        for unlimited in [-1, 0, i64::MIN] {
            assert_eq!(Floor::jetstream(unlimited, secs(30), &[], none), Err(FloorError::Unlimited));
        }
    }

    #[test]
    fn what_only_people_know_is_added_and_the_longer_of_two_counts() {
        let week = Floor::redelivered_within(2 * DAY).outage(2 * DAY).redriven_within(3 * DAY).margin(DAY);
        assert_eq!(week.least(), 8 * DAY);
        let both = week.clone().and(Floor::redelivered_within(5 * DAY));
        assert_eq!(both.least(), 8 * DAY);
        // What is said after `and` holds for both.
        let both = both.redriven_within(10 * DAY).margin(Duration::ZERO);
        assert_eq!(both.least(), 15 * DAY);
        assert_eq!(Floor::redelivered_within(5 * DAY).and(week).least(), 8 * DAY);
    }

    #[test]
    fn the_sum_is_explained() {
        for (floor, text) in [
            (
                Floor::rabbitmq(&[secs(90)]).outage(2 * DAY).margin(2 * HOUR),
                "RabbitMQ's 1 delayed retry takes 1m 30s, and each of 2 deliveries may be held for 30m, + 2d in which \
                 consumers may be down, + a margin of 2h: 2d 3h 1m 30s",
            ),
            (
                Floor::kafka_defaults().processing(MINUTE).margin(Duration::ZERO),
                "a Kafka group that lost its offsets reads the whole topic again, which holds a message for up to 14d, \
                 + 1m to work on a delivery: 14d 1m",
            ),
            (Floor::ledger(), "a ledger's month of reconciliation is 30d: 30d"),
            (
                Floor::redelivered_within(Duration::from_millis(1500)).margin(Duration::ZERO),
                "a message comes again for up to 1s 500ms: 1s 500ms",
            ),
            (Floor::delays(&[]).margin(Duration::ZERO), "0 retries take 0s: 0s"),
        ] {
            assert_eq!(floor.to_string(), text);
        }
    }

    #[test]
    fn no_sum_overflows() {
        let max = Duration::MAX;
        for floor in [
            Floor::redelivered_within(max),
            Floor::delays(&[max, max]),
            Floor::rabbitmq(&[max, max]),
            Floor::rabbitmq_with_timeout(&[max], max),
            Floor::kafka(max, max),
            Floor::jetstream(i64::MAX, max, &[max, max], max).unwrap(),
            Floor::jetstream(i64::MAX, secs(1 << 40), &[], Duration::ZERO).unwrap(),
        ] {
            let floor = floor.processing(max).outage(max).redriven_within(max);
            assert_eq!(floor.least(), max);
            assert!(floor.to_string().ends_with("for ever"), "{floor}");
            assert_eq!(floor.margin(max).least(), max);
        }
    }
}
