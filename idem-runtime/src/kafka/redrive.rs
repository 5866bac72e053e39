use super::{
    Topic,
    client::{commit, of_consumer, of_producer},
    message::Record,
    settle::produce,
    topic::ANSWER,
};
use crate::consume::{Adapter as _, BrokerError, Redrive};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, DefaultConsumerContext},
    error::KafkaError,
    metadata::{MetadataPartition, MetadataTopic},
    producer::FutureProducer,
};
use std::collections::HashMap;
use tokio::runtime::Handle;

impl Redrive for Topic {
    /// What was brought back is kept as the offset of a group of its own, `<group.id>.idem-redrive`: dead letters stay in
    /// their topic, as all that Kafka has. Letters of other consumers in the same topic are passed by.
    async fn redrive(self, at_most: Option<u64>) -> Result<u64, BrokerError> {
        let Some(dead_letter) = self.dead_letter.clone() else {
            return Err(BrokerError::new("redriving", "the consumer has no dead-letter topic: `.dead_letter(..)`"));
        };
        let source = self.source();
        let runtime = Handle::current();
        // The client blocks.
        let moving = tokio::task::spawn_blocking(move || {
            let failed = |error: KafkaError| BrokerError::new(format!("redriving from `{dead_letter}`"), error);
            let producer: FutureProducer = of_producer(&self.config).create().map_err(failed)?;
            let mut letters = Letters::open(&self.config, &dead_letter).map_err(failed)?;
            let mut moved = 0;
            while at_most.is_none_or(|most| moved < most)
                && let Some(record) = letters.next().map_err(failed)?
            {
                if record.text("idem-source") == Some(&source) {
                    runtime.block_on(produce(&producer, record.origin(), &record, record.copy([])))?;
                    moved += 1;
                }
                letters.taken(&record);
            }
            Ok(moved)
        });
        moving.await.unwrap_or_else(|error| Err(BrokerError::new("redriving", error)))
    }
}

/// The dead letters that were there at the beginning, and not brought back before.
struct Letters {
    consumer: BaseConsumer<DefaultConsumerContext>,
    /// By partition, the offset before which they end, where there are some.
    ends: HashMap<i32, i64>,
}

impl Letters {
    fn open(config: &ClientConfig, topic: &str) -> Result<Self, KafkaError> {
        let mut config = of_consumer(config);
        let group = config.get("group.id").unwrap_or_default();
        let group = format!("{group}.idem-redrive");
        let consumer: BaseConsumer = config.set("group.id", group).remove("group.instance.id").create()?;
        let metadata = consumer.fetch_metadata(Some(topic), ANSWER)?;
        let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        let partitions: Vec<_> = partitions.map(MetadataPartition::id).collect();
        let mut asked = TopicPartitionList::new();
        for partition in &partitions {
            asked.add_partition(topic, *partition);
        }
        let committed = consumer.committed_offsets(asked, ANSWER)?.to_topic_map();
        let (mut assigned, mut ends) = (TopicPartitionList::new(), HashMap::new());
        for partition in partitions {
            let (low, high) = consumer.fetch_watermarks(topic, partition, ANSWER)?;
            let from = match committed.get(&(topic.to_owned(), partition)) {
                Some(Offset::Offset(offset)) => low.max(*offset),
                _ => low,
            };
            if from < high {
                assigned.add_partition_offset(topic, partition, Offset::Offset(from))?;
                ends.insert(partition, high);
            }
        }
        // Without a subscription: nobody waits for a group to form.
        consumer.assign(&assigned)?;
        Ok(Self { consumer, ends })
    }

    fn next(&mut self) -> Result<Option<Record>, KafkaError> {
        while !self.ends.is_empty() {
            match self.consumer.poll(ANSWER) {
                Some(Ok(message)) => {
                    let record = Record::of(&message);
                    match self.ends.get(&record.partition) {
                        Some(end) if record.offset < *end => return Ok(Some(record)),
                        // What came since.
                        _ => self.ends.remove(&record.partition),
                    };
                }
                Some(Err(error)) => return Err(error),
                // The last offsets may be marks of a transaction, which are no message.
                None => break,
            }
        }
        Ok(None)
    }

    fn taken(&mut self, record: &Record) {
        let place = (record.topic.clone(), record.partition);
        commit(&self.consumer, &[(place, record.offset + 1)]);
        if self.ends.get(&record.partition).is_some_and(|end| record.offset + 1 >= *end) {
            self.ends.remove(&record.partition);
        }
    }
}
