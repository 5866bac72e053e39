//! What is RocketMQ's own.
