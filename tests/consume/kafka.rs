//! Kafka, on a Kafka-compatible broker: the suite, and what is its own: its starts, its offsets, its rebalances.

use crate::conformance::conformance;
use idem_tests::brokers::kafka::Kafka;

conformance!(Kafka);
