//! What the stories on RabbitMQ share: a queue of their own, and a network that can lose an ack.

mod queue;
mod thief;

pub(crate) use self::queue::{Publisher, Queue};
