use super::{Source, message, settle::publish};
use crate::consume::{Adapter as _, BrokerError, Redrive};
use async_nats::jetstream::stream::RawMessageErrorKind;
use std::time::SystemTime;

impl Redrive for Source {
    /// Letters of other consumers under the same subject stay there. The copies are new messages of the stream, for its
    /// other consumers too.
    async fn redrive(self, at_most: Option<u64>) -> Result<u64, BrokerError> {
        let source = self.source();
        let Some(dead_letter) = &self.dead_letter else {
            return Err(BrokerError::new("redriving", "the consumer has no dead-letter subject: `.dead_letter(..)`"));
        };
        let doing = || format!("redriving from `{dead_letter}`");
        let stream = self.context.stream_by_subject(dead_letter).await;
        let stream = stream.map_err(|error| BrokerError::new(doing(), error))?;
        let stream = self.context.get_stream(stream).await.map_err(|error| BrokerError::new(doing(), error))?;
        let info = stream.cached_info();
        if info.config.deny_delete {
            let stream = &info.config.name;
            return Err(BrokerError::new(
                doing(),
                format!(
                    "the stream `{stream}` denies that messages are deleted, so each letter would come back again: use a \
                     stream for dead letters that allows it"
                ),
            ));
        }
        // What fails again meanwhile is not taken twice.
        let (mut next, last) = (info.state.first_sequence, info.state.last_sequence);
        let mut moved = 0;
        while next <= last && at_most.is_none_or(|most| moved < most) {
            let letter = stream.raw_message_builder().sequence(next).next_by_subject(dead_letter).send().await;
            let letter = match letter {
                Ok(letter) if letter.sequence <= last => letter,
                Ok(_) => break,
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => break,
                Err(error) => return Err(BrokerError::new(doing(), error)),
            };
            next = letter.sequence + 1;
            if message::header(&letter, message::SOURCE) != Some(&source) {
                continue;
            }
            let Some(subject) = message::header(&letter, message::SUBJECT) else { continue };
            let identity = message::identity(&info.config.name, letter.sequence, SystemTime::from(letter.time));
            let headers = message::copy(Some(&letter.headers), &format!("idem-redriven.{identity}"), []);
            publish(&self.context, subject, headers, letter.payload.to_vec()).await?;
            let deleted = stream.delete_message(letter.sequence).await;
            deleted.map_err(|error| BrokerError::new(doing(), error))?;
            moved += 1;
        }
        Ok(moved)
    }
}
