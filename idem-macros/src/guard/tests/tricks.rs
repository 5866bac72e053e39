//! Texts that look like a guard, and match again: each took effect twice on one of the databases.

use super::*;

const PICKS_MANY: &str = "can match many rows";

/// A repeat takes the next row that is in the state.
#[test]
fn a_column_on_the_side_of_the_value_names_every_row() {
    check(
        &ALL,
        KEYED,
        &[
            ("UPDATE o SET s = 1 WHERE no = COALESCE({msg.no}, no)", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE COALESCE({msg.no}, no) = no", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE no = CASE WHEN {msg.all} THEN no ELSE 'A1' END", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE no + 0 * {msg.no} = no", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE no = no || {msg.suffix}", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE (no) = (NULLIF(o.no, {msg.no}))", PICKS_MANY),
            ("DELETE FROM o WHERE no = COALESCE({msg.no}, no)", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE no = COALESCE({msg.no}, 'A1')", PASSES),
            ("UPDATE o SET s = 1 WHERE no = {msg.no} + 1", PASSES),
            ("UPDATE o SET s = 1 WHERE no = concat('A', {msg.no})", PASSES),
            ("UPDATE o SET s = 1 WHERE no = CAST({msg.no} AS CHAR)", PASSES),
            ("UPDATE o SET s = 1 WHERE no = substring({msg.no} FROM 1 FOR 3)", PASSES),
            ("UPDATE o SET s = 1 WHERE no = trim({msg.no})", PASSES),
        ],
    );
}

#[test]
fn a_function_without_a_column_names_no_row() {
    check(
        &ALL,
        KEYED,
        &[
            ("UPDATE o SET s = 1 WHERE lower('A') = {msg.kind}", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE CAST('1' AS CHAR) = {msg.kind}", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE now() = {msg.at}", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE CURRENT_DATE = {msg.day}", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE coalesce(1, 2) + 1 = {msg.n}", PICKS_MANY),
            ("UPDATE o SET s = 1 WHERE CAST(no AS CHAR) = {msg.no}", PASSES),
            ("UPDATE o SET s = 1 WHERE upper(trim(o.no)) = {msg.no}", PASSES),
        ],
    );
}

#[test]
fn a_cast_on_one_side_changes_the_value_that_is_compared() {
    repeat(
        &[Dialect::Postgres, Dialect::Sqlite, Dialect::Unknown],
        &[
            ("v = CAST({v} AS INTEGER)", "v < {v}", NOT_CERTAIN),
            ("v = CAST({v} AS INTEGER)", "v <> {v}", NOT_CERTAIN),
            ("v = {v}", "v <> CAST({v} AS INTEGER)", NOT_CERTAIN),
            ("v = CAST({v} AS INTEGER)", "v <> CAST({v} AS BIGINT)", NOT_CERTAIN),
            ("v = CAST({v} AS INTEGER)", "v < CAST({v} AS INTEGER)", PASSES),
            ("v = v + 1", "v = CAST({v} AS INTEGER)", PASSES),
            ("s = {s}", "s <> {s}", PASSES),
        ],
    );
}

/// SQLite takes both for the number 0.
#[test]
fn a_type_that_only_postgres_has_is_a_number_elsewhere() {
    repeat(
        &[Dialect::Sqlite, Dialect::Unknown],
        &[("s = CAST('PAID' AS order_status)", "s = CAST('NEW' AS order_status)", NOT_CERTAIN)],
    );
    repeat(
        &[Dialect::Postgres],
        &[
            ("s = CAST('PAID' AS order_status)", "s = CAST('NEW' AS order_status)", PASSES),
            ("s = 'AB'::bpchar(1)", "s = 'AC'::bpchar(1)", NOT_CERTAIN),
            ("s = 'AB'::\"char\"", "s = 'AC'::\"char\"", NOT_CERTAIN),
        ],
    );
}

/// SQLite: NULL is not in the empty list.
#[test]
fn nothing_is_in_the_empty_list() {
    repeat(&[Dialect::Sqlite], &[("s = NULL", "s NOT IN ()", NOT_CERTAIN)]);
}

/// MySQL takes a text for a number where the column is one: `'NEW'` is 0.
#[test]
fn a_text_beside_a_number_in_quotes() {
    repeat(
        &[Dialect::MySql, Dialect::Unknown],
        &[
            ("v = '0'", "v = 'NEW'", "for equal"),
            ("v = '0'", "v IN ('NEW', '1')", "the list holds"),
            ("v = '3DS'", "v = '3'", "for equal"),
            ("v = '1'", "v = 'NEW'", PASSES),
            ("v = 'PAID'", "v = '1'", PASSES),
        ],
    );
    repeat(&[Dialect::Postgres, Dialect::Sqlite], &[("v = '0'", "v = 'NEW'", PASSES)]);
}

/// SQLite: `IS NOT DISTINCT FROM TRUE` is `IS TRUE`, and so is 7.
#[test]
fn a_truth_in_is_distinct_from_is_no_value() {
    repeat(
        &[Dialect::Sqlite, Dialect::Unknown],
        &[
            ("v = 7", "v IS NOT DISTINCT FROM TRUE", NOT_CERTAIN),
            ("v = 'A'", "v IS NOT DISTINCT FROM (FALSE)", NOT_CERTAIN),
            ("v = 7", "v IS NOT DISTINCT FROM 1", PASSES),
            ("v = 7", "v = TRUE", PASSES),
        ],
    );
    repeat(&[Dialect::Postgres], &[("v = FALSE", "v IS NOT DISTINCT FROM TRUE", PASSES)]);
}

/// `'now'` is another instant on each delivery, and `'24 hours'` is `'1 day'`.
#[test]
fn texts_that_postgres_reads_in_a_way_of_its_own() {
    repeat(
        &[Dialect::Postgres, Dialect::Unknown],
        &[
            ("at = 'now'", "at <> 'now'", NOT_CERTAIN),
            ("day = 'Today'", "day <> 'Today'", NOT_CERTAIN),
            ("day = 'today'", "day = 'yesterday'", NOT_CERTAIN),
            ("at = '04:05 tomorrow'", "at <> '04:05 tomorrow'", NOT_CERTAIN),
            ("ttl = '24 hours'", "ttl = '1 day'", "for equal"),
            ("ttl = '24h'", "ttl = '1d'", "for equal"),
            ("ttl = 'PT24H'", "ttl = 'P1D'", "for equal"),
            ("r = '[1,3)'", "r = '[1,2]'", "for equal"),
            ("j = '{\"a\":1}'", "j = '{ \"a\": 1 }'", "for equal"),
            ("at = 'epoch'", "at = '1970-01-01'", "for equal"),
            ("at = 'Jan 1 2024'", "at = '2024-01-01'", "for equal"),
            // States stay states.
            ("s = 'PAID'", "s = 'PENDING'", PASSES),
            ("s = '3DS_DONE'", "s = '3DS_OPEN'", PASSES),
            ("s = '2_done'", "s = '1_open'", PASSES),
            ("s = 'P2'", "s = 'P1'", PASSES),
            ("s = 'PROCESSED'", "s = 'P'", PASSES),
            ("s = 'notified'", "s = 'known'", PASSES),
            ("s = 'MARKED'", "s = 'DECLINED'", PASSES),
        ],
    );
    repeat(&ALL, &[("j = '[1]'", "j = '[ 1 ]'", "for equal")]);
}

#[test]
fn a_value_that_may_be_null_after_all() {
    repeat(
        &ALL,
        &[
            ("s = COALESCE({x}, 'a' || NULL || 'b')", "s IS NULL", "may be NULL"),
            ("s = COALESCE({x}, 'a')", "s IS NULL", PASSES),
            ("s = COALESCE({x}, -1)", "s IS NULL", PASSES),
            ("at = strftime('%Q', 'now')", "at IS NULL", "may be NULL"),
            ("at = strftime(NULL, 'now')", "at IS NULL", "may be NULL"),
            ("at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')", "at IS NULL", PASSES),
        ],
    );
}

/// What differs on each delivery never conflicts, also with a value of the message in it.
#[test]
fn an_index_whose_value_is_another_one_each_time() {
    check(
        &ALL,
        Beside { unique: Some("no"), ..ALONE },
        &[
            ("INSERT INTO f (no) VALUES ({msg.no})", PASSES),
            ("INSERT INTO f (no) VALUES (lower({msg.no}))", PASSES),
            ("INSERT INTO f (no) VALUES (concat('A', {msg.no}))", PASSES),
            ("INSERT INTO f (no, at) VALUES ({msg.no}, now())", PASSES),
            ("INSERT INTO f (no) VALUES (concat({msg.no}, now()))", "differs on every delivery"),
            ("INSERT INTO f (no) VALUES ({msg.no} || random())", "differs on every delivery"),
            ("INSERT INTO f (no) VALUES (concat({msg.no}, CURRENT_TIMESTAMP))", "differs on every delivery"),
            ("INSERT INTO f (no) VALUES (concat({msg.no}, gen_random_uuid()))", "differs on every delivery"),
            ("INSERT INTO f (no) VALUES (COALESCE({msg.no}, UUID()))", "differs on every delivery"),
            ("INSERT INTO f (no) VALUES (nextval('s') + {msg.no})", "differs on every delivery"),
            ("INSERT INTO f (no) VALUES ((SELECT count(*) FROM f WHERE no <> {msg.no}))", "may differ on a repeat"),
            ("INSERT INTO f (no) VALUES (NULLIF({msg.no}, ''))", "may be NULL"),
            ("INSERT INTO f (no) VALUES (CASE WHEN {msg.no} = '' THEN NULL ELSE {msg.no} END)", "may be NULL"),
        ],
    );
}
