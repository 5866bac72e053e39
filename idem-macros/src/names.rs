//! What a name gives away. The lists are short on purpose, and only a whole last name matches: a sound key must never
//! be stopped because `offset` happens to stand inside `contract_offset_no`.

use crate::errors::Complaint;
use crate::rules::Rule;

const TIME: &[&str] = &[
    "timestamp",
    "ts",
    "now",
    "datetime",
    "created_at",
    "updated_at",
    "modified_at",
    "sent_at",
    "received_at",
    "published_at",
    "produced_at",
    "event_time",
    "send_time",
    "sent_time",
    "create_time",
    "created_time",
    "update_time",
    "updated_time",
    "receive_time",
    "gmt_create",
    "gmt_modified",
    "born_timestamp",
    "store_timestamp",
    "timestamp_millis",
    "timestamp_micros",
    "timestamp_nanos",
    "unix_timestamp",
    "create_timestamp",
    "created_timestamp",
    "message_timestamp",
    "epoch_millis",
    "millis_since_epoch",
];

const BROKER: &[&str] = &[
    "offset",
    "kafka_offset",
    "queue_offset",
    "partition_offset",
    "commit_log_offset",
    "physical_offset",
    "delivery_tag",
    "delivery_id",
    "msg_id",
    "message_id",
    "notify_id",
    "offset_msg_id",
    "redelivered",
    "redelivery_count",
    "redelivery_counter",
    "delivery_count",
    "delivery_attempt",
    "reconsume_times",
    "receive_count",
    "approximate_receive_count",
    "receipt_handle",
    "consumer_tag",
    "ack_id",
    "lock_token",
    "stream_sequence",
    "consumer_sequence",
    "retry_count",
];

const RANDOM: &[&str] = &[
    "uuid",
    "guid",
    "ulid",
    "ksuid",
    "nanoid",
    "nonce",
    "nonce_str",
    "random",
    "rand",
    "trace_id",
    "span_id",
    "traceparent",
    "request_id",
];

/// Functions and methods that read a clock.
const CLOCKS: &[&str] = &["now", "now_utc", "now_local", "now_v7", "elapsed", "today"];

/// Functions and methods that make a new value each time.
const SOURCES: &[&str] = &[
    "new_v1", "new_v4", "new_v6", "new_v7", "random", "rand", "gen", "generate", "nanoid", "next_u32", "next_u64",
    "next_id", "fastrand",
];

/// Accessors that give the same value in another form: what stands before them says what it is.
const CONVERSIONS: &[&str] = &[
    "as_bytes",
    "as_deref",
    "as_ref",
    "as_str",
    "borrow",
    "clone",
    "cloned",
    "copied",
    "deref",
    "get",
    "inner",
    "into",
    "into_inner",
    "to_owned",
    "to_string",
    "trim",
    "value",
];

pub(crate) fn is_conversion(method: &str) -> bool {
    CONVERSIONS.contains(&method)
}

/// The rule that a part's last name falls under.
pub(crate) fn suspect(name: &str) -> Option<Rule> {
    let listed = |list: &[&str]| list.iter().any(|listed| same(listed, name));
    if listed(TIME) {
        Some(Rule::Time)
    } else if listed(BROKER) {
        Some(Rule::BrokerId)
    } else if listed(RANDOM) {
        Some(Rule::Random)
    } else {
        None
    }
}

/// `msgId`, `msg_id` and `r#msg_id` are one name.
fn same(listed: &str, name: &str) -> bool {
    let plain = |text: &str| text.trim_start_matches("r#").replace('_', "").to_lowercase();
    plain(listed) == plain(name)
}

pub(crate) fn looks_like(rule: Rule, part: &str) -> Complaint {
    let kind = match rule {
        Rule::Time => "a point in time",
        Rule::BrokerId => "an id that the broker assigned",
        _ => "a random identifier",
    };
    Complaint::new(rule, format!("key part `{part}` looks like {kind}: {}", rule.entry().why)).escape(part)
}

/// A part that the attribute itself calls the delivery's id.
pub(crate) fn is_the_delivery(part: &str) -> Complaint {
    let why = Rule::BrokerId.entry().why;
    Complaint::new(Rule::BrokerId, format!("key part `{part}` is also the `delivery`: {why}")).escape(part)
}

/// A method call that no key part can be, or `None` for a pure accessor.
pub(crate) fn method(name: &str) -> Option<Complaint> {
    if CLOCKS.contains(&name) || SOURCES.contains(&name) {
        return Some(called(name, name));
    }
    match name {
        "unwrap" | "expect" => Some(
            Complaint::new(Rule::Computed, format!("`{name}()` panics when the value is missing"))
                .help("end the part with `?` instead: a missing value then fails this message and nothing runs"),
        ),
        "unwrap_or" | "unwrap_or_else" | "unwrap_or_default" | "map_or" | "map_or_else" => Some(
            Complaint::new(Rule::Computed, "with a default, all messages whose value is missing would share one key")
                .help("end the part with `?` instead: a missing value then fails this message and nothing runs"),
        ),
        _ => None,
    }
}

/// A function call as a key part: refused with the most telling reason.
pub(crate) fn called(path: &str, last: &str) -> Complaint {
    if CLOCKS.contains(&last) {
        Complaint::new(Rule::Time, format!("`{path}()` reads a clock: {}", Rule::Time.entry().why))
    } else if SOURCES.contains(&last) || path.to_lowercase().ends_with("ulid::new") {
        Complaint::new(Rule::Random, format!("`{path}()` makes a random identifier: {}", Rule::Random.entry().why))
    } else {
        Complaint::new(
            Rule::Computed,
            format!("`{path}(..)` is a call: a key part is read from the message, not computed"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_both_spellings_are_recognised() {
        assert_eq!(suspect("created_at"), Some(Rule::Time));
        assert_eq!(suspect("createdAt"), Some(Rule::Time));
        assert_eq!(suspect("offset"), Some(Rule::BrokerId));
        assert_eq!(suspect("msgId"), Some(Rule::BrokerId));
        assert_eq!(suspect("r#uuid"), Some(Rule::Random));
    }

    #[test]
    fn business_names_that_only_contain_such_a_word_pass() {
        for name in [
            "contract_offset_no",
            "timestamp_batch_no",
            "uuid_registry_code",
            "order_no",
            "paid_at_branch",
            "nonce_policy_no",
            "delivery_no",
            "request_no",
            "message_kind",
            "offset_account",
            "trace_code",
            "ts_code",
            "now_serving_no",
            "random_audit_no",
            "settlement_date",
        ] {
            assert_eq!(suspect(name), None, "{name}");
        }
    }

    #[test]
    fn no_name_stands_in_two_lists() {
        for name in TIME {
            assert!(!BROKER.contains(name) && !RANDOM.contains(name), "{name}");
        }
        for name in BROKER {
            assert!(!RANDOM.contains(name), "{name}");
        }
    }
}
