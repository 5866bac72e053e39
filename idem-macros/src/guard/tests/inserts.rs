use super::*;

const UNIQUE: Beside<'static> = Beside { unique: Some("uq_flow_biz_no"), ..ALONE };
const WITH_ON_CONFLICT: [Dialect; 3] = [Dialect::Postgres, Dialect::Sqlite, Dialect::Unknown];

#[test]
fn the_index_is_named_once() {
    check(
        &ALL,
        UNIQUE,
        &[
            ("INSERT INTO f (biz_no, amount) VALUES ({msg.biz_no}, {msg.amount})", PASSES),
            ("INSERT INTO f VALUES ({msg.biz_no}, {msg.amount})", PASSES),
            ("insert into shop.f (biz_no) values ({msg.biz_no})", PASSES),
        ],
    );
    check(&ALL, ALONE, &[("INSERT INTO f (biz_no) VALUES ({msg.biz_no})", "could mean done before")]);
    check(&ALL, KEYED, &[("INSERT INTO f (biz_no) VALUES ({msg.biz_no})", "could mean done before")]);
    let named = "INSERT INTO f (biz_no) VALUES ({msg.biz_no}) ON CONFLICT (biz_no) DO NOTHING";
    check(&WITH_ON_CONFLICT, ALONE, &[(named, PASSES)]);
    check(&WITH_ON_CONFLICT, UNIQUE, &[(named, "named twice")]);
    check(&[Dialect::MySql], ALONE, &[(named, "MySQL has no ON CONFLICT")]);
    let constraint = "INSERT INTO f (biz_no) VALUES ({msg.biz_no}) ON CONFLICT ON CONSTRAINT uq DO NOTHING";
    check(&[Dialect::Postgres], ALONE, &[(constraint, PASSES)]);
}

#[test]
fn what_hides_a_repeat_or_another_error_is_refused() {
    check(
        &ALL,
        UNIQUE,
        &[
            ("INSERT IGNORE INTO f (biz_no) VALUES ({no})", "IGNORE hides"),
            ("INSERT OR IGNORE INTO f (biz_no) VALUES ({no})", "OR clause"),
            ("INSERT OR REPLACE INTO f (biz_no) VALUES ({no})", "REPLACE deletes"),
            ("REPLACE INTO f (biz_no) VALUES ({no})", "REPLACE deletes"),
            ("INSERT INTO f (biz_no) VALUES ({no}) ON DUPLICATE KEY UPDATE n = n + 1", "ON DUPLICATE KEY UPDATE"),
            ("INSERT INTO f (biz_no) VALUES ({no}) RETURNING id", "RETURNING"),
            ("INSERT f (biz_no) VALUES ({no})", "not read here"),
        ],
    );
    check(
        &WITH_ON_CONFLICT,
        ALONE,
        &[
            ("INSERT INTO f (no) VALUES ({no}) ON CONFLICT DO NOTHING", "any unique index would count"),
            ("INSERT INTO f (no) VALUES ({no}) ON CONFLICT (no) DO UPDATE SET n = 1", "DO UPDATE writes"),
            ("INSERT INTO f (no) VALUES ({no}) ON CONFLICT (no) WHERE live = 1 DO NOTHING", "partial"),
        ],
    );
}

#[test]
fn one_row_stands_for_one_action() {
    check(
        &ALL,
        UNIQUE,
        &[
            ("INSERT INTO f (biz_no) VALUES ({a}), ({b})", "several rows"),
            ("INSERT INTO f (biz_no) SELECT no FROM o WHERE no = {no}", "from a query"),
            ("INSERT INTO f (biz_no) VALUES ('A')", "no value of the message"),
            ("INSERT INTO f (biz_no) VALUES ({KIND})", "no value of the message"),
            ("INSERT INTO f (biz_no) VALUES ({no}) LIMIT 0", "can leave its row out"),
        ],
    );
    check(
        &[Dialect::Postgres, Dialect::Sqlite],
        UNIQUE,
        &[("INSERT INTO f DEFAULT VALUES", "no value of the message")],
    );
    check(&[Dialect::MySql], UNIQUE, &[("INSERT INTO f SET biz_no = {no}, amount = 1", PASSES)]);
}

#[test]
fn the_index_holds_what_names_the_action() {
    check(
        &WITH_ON_CONFLICT,
        ALONE,
        &[
            ("INSERT INTO f (kind, no) VALUES ('PAY', {no}) ON CONFLICT (kind, no) DO NOTHING", PASSES),
            ("INSERT INTO f (no) VALUES (lower({no})) ON CONFLICT (no) DO NOTHING", PASSES),
            (
                "INSERT INTO f (no) VALUES ({no}) ON CONFLICT (id) DO NOTHING",
                "`id` is in the index and not in this INSERT",
            ),
            ("INSERT INTO f (id, no) VALUES (random(), {no}) ON CONFLICT (id) DO NOTHING", "differs on every delivery"),
            ("INSERT INTO f (at, no) VALUES (CURRENT_TIMESTAMP, {no}) ON CONFLICT (no, at) DO NOTHING", "differs on"),
            ("INSERT INTO f (a, no) VALUES (NULL, {no}) ON CONFLICT (no, a) DO NOTHING", "never conflicts"),
            ("INSERT INTO f (kind, no) VALUES ('PAY', {no}) ON CONFLICT (kind) DO NOTHING", "would be one action"),
            ("INSERT INTO f VALUES ({no}) ON CONFLICT (no) DO NOTHING", "depends on the table"),
        ],
    );
    for (unique, expected) in [
        ("biz_no", PASSES),
        ("BIZ_NO", PASSES),
        ("kind, biz_no", PASSES),
        ("kind", "would be one action"),
        ("kind, shop", "`shop` is in the index"),
        ("uq_anything", PASSES),
    ] {
        let beside = Beside { unique: Some(unique), ..ALONE };
        check(&ALL, beside, &[("INSERT INTO f (kind, biz_no) VALUES ('PAY', {no})", expected)]);
    }
    let beside = Beside { unique: Some("id"), ..ALONE };
    check(
        &[Dialect::MySql],
        beside,
        &[
            ("INSERT INTO f (`id`, no) VALUES (UUID(), {no})", "differs on every delivery"),
            ("INSERT INTO f SET id = UUID(), no = {no}", "differs on every delivery"),
            ("INSERT INTO f SET id = {no}", PASSES),
        ],
    );
}
