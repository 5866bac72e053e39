use quote::ToTokens as _;

use super::*;

#[track_caller]
fn exists(dialect: Dialect, text: &str) -> Option<(String, String)> {
    let beside = on(dialect, KEYED);
    let guard = try_read(text, beside).unwrap_or_else(|refusal| panic!("{}: {text}", refusal.reason));
    let (sql, values) = guard.exists?;
    let values: Vec<String> = values.iter().map(|value| value.to_token_stream().to_string().replace(' ', "")).collect();
    Some((sql, values.join(" ")))
}

#[test]
fn the_row_is_found_in_any_state() {
    for (text, sql, values) in [
        (
            "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status = 'WAIT_PAY'",
            "SELECT 1 FROM orders WHERE order_no = {}",
            "msg.no",
        ),
        (
            "UPDATE orders SET status = {msg.s} WHERE status <> {msg.s} AND tenant = {msg.t} AND no = {msg.no}",
            "SELECT 1 FROM orders WHERE tenant = {} AND no = {}",
            "msg.t msg.no",
        ),
        (
            "UPDATE orders SET status = 'B' WHERE (no = {no} AND kind = 'a {0} b') AND (status = 'A' OR status = 'C')",
            "SELECT 1 FROM orders WHERE no = {} AND kind = 'a {0} b'",
            "no",
        ),
        (
            "UPDATE stock SET count = count - {qty} WHERE sku = {sku} AND count >= {qty}",
            "SELECT 1 FROM stock WHERE sku = {}",
            "sku",
        ),
        ("UPDATE o SET a = 1, b = 2 WHERE no = {no} AND a + b < 3", "SELECT 1 FROM o WHERE no = {}", "no"),
        ("DELETE FROM hold WHERE no = {no} AND status = 'OPEN'", "SELECT 1 FROM hold WHERE no = {}", "no"),
    ] {
        for dialect in ALL {
            assert_eq!(exists(dialect, text), Some((sql.into(), values.into())), "{dialect:?} {text}");
        }
    }
}

#[test]
fn what_is_quoted_stays_as_it_is() {
    let postgres = "UPDATE \"Orders\" AS o SET \"Status\" = 'B' WHERE o.\"No\" = {no}::bigint AND \"Status\" = 'A'";
    assert_eq!(
        exists(Dialect::Postgres, postgres),
        Some(("SELECT 1 FROM \"Orders\" AS o WHERE o.\"No\" = {}::BIGINT".into(), "no".into()))
    );
    let mysql = "UPDATE `order` SET `status` = 'B' WHERE `no` = {no} AND `note` = 'it''s' AND STATUS = 'A'";
    assert_eq!(
        exists(Dialect::MySql, mysql),
        Some(("SELECT 1 FROM `order` WHERE `no` = {} AND `note` = 'it''s'".into(), "no".into()))
    );
}

#[test]
fn nothing_is_asked_where_nothing_would_be_learnt() {
    assert_eq!(exists(Dialect::Sqlite, "DELETE FROM hold WHERE no = {no}"), None);
    let guard = try_read("UPDATE o SET s = 1 WHERE s = 2", ALLOWED).unwrap();
    assert!(guard.exists.is_none());
    let guard = try_read("UPDATE o SET s = 1 WHERE s = 2 AND no = {no} LIMIT 1", ALLOWED).unwrap();
    assert!(guard.exists.is_some());
}
