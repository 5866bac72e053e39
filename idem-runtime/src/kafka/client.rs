//! The client's configuration, and what it calls back.

use super::window::{Place, Shared};
use rdkafka::{
    ClientConfig, ClientContext, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
};
use std::sync::Arc;

/// What a producer or an administrator does not know.
const OF_CONSUMERS: [&str; 14] = [
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "isolation.level",
    "enable.partition.eof",
    // The copies are no part of a transaction of the application's.
    "transactional.id",
];

/// What is wrong with a configuration, and what to do.
pub(super) fn fault(config: &ClientConfig) -> Option<String> {
    for name in ["enable.auto.commit", "enable.auto.offset.store"] {
        if config.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false")) {
            return Some(format!(
                "with `{name}` Kafka is told that messages are done which no handler has finished: leave it out"
            ));
        }
    }
    if let Some(reset @ ("latest" | "largest" | "end")) = config.get("auto.offset.reset") {
        return Some(format!(
            "with `auto.offset.reset={reset}` messages are skipped wherever the group has no offset yet, or none any \
             more: leave it out, and set the group's offsets by hand if old messages are not wanted"
        ));
    }
    if config.get("group.id").is_none_or(str::is_empty) {
        return Some("it has no `group.id`, by which Kafka keeps what is done: set one".to_owned());
    }
    None
}

/// The consumer's configuration, with what must not be otherwise.
pub(super) fn of_consumer(config: &ClientConfig) -> ClientConfig {
    let mut config = config.clone();
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
    if config.get("auto.offset.reset").is_none() {
        config.set("auto.offset.reset", "earliest");
    }
    config
}

/// The configuration of anything else.
pub(super) fn of_others(config: &ClientConfig) -> ClientConfig {
    let mut config = config.clone();
    for name in OF_CONSUMERS {
        config.remove(name);
    }
    config
}

/// The configuration of the producer of copies.
pub(super) fn of_producer(config: &ClientConfig) -> ClientConfig {
    let mut config = of_others(config);
    config.set("enable.idempotence", "true").set("acks", "all");
    config
}

/// A list for one call. It must be gone before the consumer is, or that never ends (fede1024/rust-rdkafka#453).
pub(super) fn list(positions: &[(Place, i64)]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for ((topic, partition), position) in positions {
        list.add_partition_offset(topic, *partition, Offset::Offset(*position))?;
    }
    Ok(list)
}

/// Commits, and returns when the broker has answered.
pub(super) fn commit<C: ConsumerContext>(consumer: &BaseConsumer<C>, positions: &[(Place, i64)]) {
    if positions.is_empty() {
        return;
    }
    if let Err(error) = list(positions).and_then(|list| consumer.commit(&list, CommitMode::Sync)) {
        not_committed(positions.iter().map(|(place, _)| place), &error);
    }
}

fn not_committed<'a>(places: impl Iterator<Item = &'a Place>, error: &KafkaError) {
    let places: Vec<_> = places.map(|(topic, partition)| format!("{topic}/{partition}")).collect();
    tracing::warn!(target: "idem", partitions = %places.join(" "), error = %error, "offsets not committed");
}

/// What the client calls, inside its poll.
pub(super) struct Callbacks(pub(super) Arc<Shared>);

impl ClientContext for Callbacks {}

impl ConsumerContext for Callbacks {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(assigned) => self.0.lock().assigned(places(assigned)),
            Rebalance::Revoke(revoked) => {
                let lost = consumer.assignment_lost();
                // Forgotten first: what is done from now on is not ours to commit.
                let done = self.0.lock().revoked(&places(revoked), lost);
                if !lost {
                    commit(consumer, &done);
                }
            }
            Rebalance::Error(error) => {
                tracing::warn!(target: "idem", error = %error, "the group did not rebalance");
            }
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let Err(error) = result else { return };
        if matches!(error, KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) {
            return;
        }
        let places = places(offsets);
        not_committed(places.iter(), &error);
        let mut state = self.0.lock();
        for place in &places {
            state.refused(place);
        }
    }
}

fn places(list: &TopicPartitionList) -> Vec<Place> {
    list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}
