//! Redis Streams, on its real server: the suite, and what is its own: its starts, its acks, its counters.

use crate::conformance::conformance;
use idem_tests::brokers::redis_streams::Streams;

conformance!(Streams);
