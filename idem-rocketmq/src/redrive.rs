use crate::{
    client::{Client, publish},
    message,
    topic::Topic,
};
use idem_runtime::consume::{Adapter as _, BrokerError, Redrive};
use rocketmq_client_rust::DefaultLitePullConsumer;
use rocketmq_model::common::message::{message_ext::MessageExt, message_queue::MessageQueue};
use std::collections::HashMap;

/// How often the broker may have nothing to say before the rest is left for the next time.
const SILENCES: u32 = 20;
/// How long it may say nothing, in milliseconds.
const SILENCE: u64 = 500;

impl Redrive for Topic {
    /// A topic keeps what was read. What has been brought back is where a group of its own has come to, the consumer's
    /// with `-redrive` behind it. It passes over the letters of other topics and groups: each is brought back by its own.
    async fn redrive(self, at_most: Option<u64>) -> Result<u64, BrokerError> {
        let Some(dead_letter) = &self.dead_letter else {
            return Err(BrokerError::new("redriving", "the consumer has no dead-letter topic: `.dead_letter(..)`"));
        };
        let client = Client::new(&self, 1)?;
        let producer = client.producer(&self).await?;
        let reader = client.reader(&format!("{}-redrive", self.group))?;
        let failed = |error| BrokerError::new(format!("redriving from `{dead_letter}`"), error);
        Box::pin(reader.start()).await.map_err(failed)?;
        let mut letters = Letters::of(&reader, dead_letter).await.map_err(failed)?;
        let source = self.source();
        let mut moved = 0;
        let mut silent = 0;
        while at_most.is_none_or(|most| moved < most) && letters.are_left() && silent < SILENCES {
            let batch = Box::pin(reader.poll_with_timeout(SILENCE)).await;
            silent = if batch.is_empty() { silent + 1 } else { 0 };
            for letter in &batch {
                if at_most.is_some_and(|most| moved >= most) || !letters.is_next(letter) {
                    continue;
                }
                if message::property(letter, "idem-source") == Some(&source) {
                    publish(&producer, message::copy(letter, &self.name, [])).await?;
                    moved += 1;
                }
                letters.pass(letter);
            }
            Box::pin(reader.commit_sync_with_map(letters.come_to(), true)).await;
        }
        Box::pin(reader.shutdown()).await;
        client.close();
        Ok(moved)
    }
}

/// How far each queue is read, and how far it is to be read: what fails again meanwhile is not taken twice.
struct Letters(Vec<(MessageQueue, i64, i64)>);

impl Letters {
    async fn of(reader: &DefaultLitePullConsumer, topic: &str) -> rocketmq_client_rust::ClientResult<Self> {
        let mut queues = Vec::new();
        for queue in Box::pin(reader.fetch_message_queues(topic)).await? {
            let end = Box::pin(reader.max_offset(&queue)).await?;
            // What was read may be gone, and -1 is that nothing was.
            let oldest = Box::pin(reader.min_offset(&queue)).await?;
            let come_to = Box::pin(reader.committed(&queue)).await?.max(oldest);
            queues.push((queue, come_to, end));
        }
        Box::pin(reader.assign(queues.iter().map(|(queue, ..)| queue.clone()).collect())).await?;
        Ok(Self(queues))
    }

    fn are_left(&self) -> bool {
        self.0.iter().any(|(_, come_to, end)| come_to < end)
    }

    fn of_queue(&mut self, letter: &MessageExt) -> Option<&mut (MessageQueue, i64, i64)> {
        self.0.iter_mut().find(|(queue, ..)| {
            queue.queue_id() == letter.queue_id() && queue.broker_name().as_str() == letter.broker_name()
        })
    }

    /// Whether a letter is one that is to be read, and was not.
    fn is_next(&mut self, letter: &MessageExt) -> bool {
        let at = letter.queue_offset();
        self.of_queue(letter).is_some_and(|(_, come_to, end)| (*come_to..*end).contains(&at))
    }

    fn pass(&mut self, letter: &MessageExt) {
        let at = letter.queue_offset();
        if let Some((_, come_to, _)) = self.of_queue(letter) {
            *come_to = at + 1;
        }
    }

    fn come_to(&self) -> HashMap<MessageQueue, i64> {
        self.0.iter().map(|(queue, come_to, _)| (queue.clone(), *come_to)).collect()
    }
}
