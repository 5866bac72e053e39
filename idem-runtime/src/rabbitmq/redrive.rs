use super::{Queue, message, settle::publish};
use crate::consume::{BrokerError, Redrive};
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicRejectOptions, ConfirmSelectOptions};

impl Redrive for Queue {
    /// Messages of other queues in the same dead-letter queue stay there: a dead letter of ours says where it came from,
    /// and one that RabbitMQ put there says it in `x-first-death-queue`.
    async fn redrive(self, at_most: Option<u64>) -> Result<u64, BrokerError> {
        let place = self.place();
        let Some(dead_letter) = &place.dead_letter else {
            return Err(BrokerError::new("redriving", "the consumer has no dead-letter queue: `.dead_letter(..)`"));
        };
        let failed = |error: lapin::Error| BrokerError::new(format!("redriving from `{dead_letter}`"), error);
        let channel = &place.channel;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(failed)?;
        let mut moved = 0;
        let mut others = Vec::new();
        // What fails again meanwhile is not taken twice.
        let mut left = None;
        while at_most.is_none_or(|most| moved < most) && left != Some(0) {
            let got =
                channel.basic_get(dead_letter.as_str().into(), BasicGetOptions::default()).await.map_err(failed)?;
            let Some(got) = got else { break };
            left = Some(left.unwrap_or_else(|| u64::from(got.message_count) + 1) - 1);
            let message = got.delivery;
            let source = message::header(&message.properties, "idem-source")
                .or_else(|| message::header(&message.properties, "x-first-death-queue"));
            if source.is_some_and(|source| source != place.queue) {
                others.push(message.acker);
                continue;
            }
            let properties = message::copy(&message.properties, []);
            publish(channel, &place.queue, &message.data, properties).await?;
            message.acker.ack(BasicAckOptions::default()).await.map_err(failed)?;
            moved += 1;
        }
        for other in others {
            other.reject(BasicRejectOptions { requeue: true }).await.map_err(failed)?;
        }
        Ok(moved)
    }
}
