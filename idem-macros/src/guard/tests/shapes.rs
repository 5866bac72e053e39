use super::*;

#[test]
fn the_where_names_one_row_by_a_value_of_the_message() {
    check(
        &ALL,
        KEYED,
        &[
            ("UPDATE o SET s = 1 WHERE no = {msg.no}", PASSES),
            ("UPDATE o SET s = 1 WHERE {msg.no} = no", PASSES),
            ("UPDATE o SET s = 1 WHERE (o.no = {msg.no}) AND s = 2", PASSES),
            ("UPDATE o SET s = 1 WHERE (tenant, no) = ({msg.tenant}, {msg.no})", PASSES),
            ("UPDATE o SET s = 1 WHERE lower(no) = lower({msg.no})", PASSES),
            ("DELETE FROM o WHERE no = {msg.no}", PASSES),
            ("UPDATE stock SET stock = stock - {msg.n} WHERE stock.sku = {msg.sku}", PASSES),
            ("UPDATE o SET s = 1", "without WHERE"),
            ("DELETE FROM o", "without WHERE"),
            ("UPDATE o SET s = 1 WHERE no = 7", "names no row"),
            ("UPDATE o SET s = 1 WHERE s = 2", "names no row"),
            ("DELETE FROM o WHERE s = 'NEW'", "names no row"),
            ("UPDATE o SET s = 1 WHERE no = {NUMBER}", "names no row"),
            ("UPDATE o SET s = 1 WHERE no = {Kind::Order}", "names no row"),
            ("UPDATE o SET s = 1 WHERE no = {uuid::new_v4()}", "names no row"),
            ("UPDATE o SET s = 1 WHERE no > {msg.no}", "can match many rows"),
            ("UPDATE o SET s = 1 WHERE no IN ({msg.a}, {msg.b})", "can match many rows"),
            ("UPDATE o SET s = 1 WHERE no = {msg.no} OR s = 2", "can match many rows"),
            ("UPDATE o SET s = 1 WHERE no <> {msg.no}", "can match many rows"),
            ("UPDATE o SET s = 1 WHERE 1 = {msg.one}", "can match many rows"),
            ("UPDATE o SET version = version + 1 WHERE version = {msg.version}", "can match many rows"),
            ("UPDATE o SET s = 1 WHERE kind = (SELECT kind FROM k WHERE no = {msg.no})", "can match many rows"),
            ("DELETE FROM o WHERE created_at < {msg.day}", "can match many rows"),
        ],
    );
}

#[test]
fn one_table_and_no_limit() {
    check(
        &ALL,
        KEYED,
        &[
            ("UPDATE o SET s = 1 FROM p WHERE o.no = {no} AND p.no = o.no", "several tables"),
            ("UPDATE o JOIN p ON p.no = o.no SET s = 1 WHERE o.no = {no}", "several tables"),
            ("UPDATE o SET s = 1 WHERE no = {no} LIMIT 1", "several rows match"),
            ("DELETE FROM o WHERE no = {no} LIMIT 1", "several rows match"),
            ("DELETE FROM o USING p WHERE o.no = {no} AND p.no = o.no", "several tables"),
            ("DELETE FROM o, p WHERE o.no = {no}", "several tables"),
            ("UPDATE o SET s = 1 WHERE no = {no} RETURNING s", "RETURNING"),
            ("DELETE FROM o WHERE no = {no} RETURNING *", "RETURNING"),
        ],
    );
    check(
        &[Dialect::MySql, Dialect::Unknown],
        KEYED,
        &[("DELETE FROM o WHERE no = {no} ORDER BY id", "several rows match")],
    );
}

#[test]
fn what_hides_errors_is_refused() {
    check(
        &ALL,
        KEYED,
        &[
            ("UPDATE IGNORE o SET s = 1 WHERE no = {no}", "IGNORE hides"),
            ("UPDATE LOW_PRIORITY IGNORE o SET s = 1 WHERE no = {no}", "IGNORE hides"),
            ("DELETE IGNORE FROM o WHERE no = {no}", "IGNORE hides"),
            ("UPDATE OR IGNORE o SET s = 1 WHERE no = {no}", "OR clause"),
            ("UPDATE OR REPLACE o SET s = 1 WHERE no = {no}", "OR clause"),
            ("UPDATE ONLY o SET s = 1 WHERE no = {no}", "ONLY is not read"),
            ("UPDATE LOW_PRIORITY o SET s = 1 WHERE no = {no}", "LOW_PRIORITY is not read"),
            ("DELETE QUICK FROM o WHERE no = {no}", "QUICK is not read"),
        ],
    );
}

#[test]
fn a_row_that_a_query_picks_is_refused_unless_a_key_keeps_repeats_away() {
    let picked = "UPDATE o SET s = 'B' WHERE shop = {shop} AND s = 'A' AND no = (SELECT min(no) FROM o WHERE s = 'A')";
    let among = "DELETE FROM o WHERE shop = {shop} AND no IN (SELECT no FROM free)";
    let exists = "UPDATE o SET s = 'B' WHERE no = {no} AND s = 'A' AND EXISTS (SELECT 1 FROM p WHERE p.no = {no})";
    let none = "UPDATE o SET s = 'B' WHERE no = {no} AND s = 'A' AND NOT EXISTS (SELECT 1 FROM p WHERE p.no = {no})";
    check(
        &ALL,
        ALONE,
        &[(picked, "picked by a query"), (among, "picked by a query"), (exists, PASSES), (none, PASSES)],
    );
    check(&ALL, KEYED, &[(picked, PASSES), (among, PASSES), (exists, PASSES)]);
}

#[test]
fn what_the_parser_cannot_read_needs_an_allow() {
    let cases = [
        ("UPDATE o SET WHERE no = {no}", "cannot be read"),
        ("UPDATE o SET s = 1 WHERE no = {no} AND", "cannot be read"),
        ("UPDATE o SET s = 1 WHERE no = {no} {no}", "cannot be read"),
        ("UPDATE {table} SET s = 1 WHERE no = {no}", "cannot be read"),
        ("UPDATE o SET {column} = 1 WHERE no = {no}", "cannot be read"),
        ("INSERT INTO f ({column}) VALUES ({no})", "cannot be read"),
        ("UPDATE o SET s = 1 WHERE no = {no} foo bar", "cannot be read"),
        ("DELETE o", "cannot be read"),
    ];
    check(&[Dialect::Postgres, Dialect::MySql, Dialect::Sqlite], KEYED, &cases);
    for (text, _) in cases {
        assert!(try_read(text, ALLOWED).is_ok(), "{text}");
    }
}

#[test]
fn what_is_too_long_is_not_read() {
    let update = |condition: &str| format!("UPDATE o SET s = 1 WHERE no = {{no}} AND {condition}");
    let text = update(&format!("note <> '{}'", "x".repeat(20_000)));
    let tokens = update(&vec!["a = 1"; 600].join(" AND "));
    let short = update(&vec!["a = 1"; 100].join(" AND "));
    check(&ALL, KEYED, &[(&text, "it is too long"), (&tokens, "it is too long"), (&short, PASSES)]);
}

#[test]
fn the_parsers_complaint_points_at_its_place_and_names_the_value() {
    let text = "UPDATE o SET s = 'é'\nWHERE no = {msg.no} {msg.x}";
    assert_eq!(pointed(text, KEYED), "{msg.x}");
    let refusal = try_read(text, KEYED).err().unwrap();
    assert!(refusal.reason.contains("found: {msg.x}"), "{}", refusal.reason);
    assert_eq!(pointed("UPDATE o SET s = 'é'\nWHERE no = {no} banana", KEYED), "banana");
}

#[test]
fn refusals_point_at_their_piece() {
    for (text, place) in [
        ("UPDATE o SET s = 'A' WHERE no = {no} AND s = 'A'", "s = 'A'"),
        ("UPDATE o SET s = 'é' WHERE no = {no} AND s IN ('a', 'é')", "'é'"),
        ("UPDATE o SET s = 'RETURNING' WHERE no = {no} RETURNING s", "RETURNING"),
        ("UPDATE o SET n = n - {n}\nWHERE no = {no}\nAND n >= {n}", "n >= {n}"),
        ("UPDATE o SET s = 1, s = 2 WHERE no = {no} AND s = 0", "s"),
        ("UPDATE o SET n = 1 WHERE no = 3", "no = 3"),
        ("UPDATE o SET n = {n} WHERE no = {no} AND n IS NULL AND m IS NULL", "n IS NULL"),
    ] {
        assert_eq!(pointed(text, on(Dialect::Postgres, ALONE)), place, "{text}");
    }
    let text = "UPDATE o SET s = 'RETURNING' WHERE no = {no} RETURNING s";
    assert_eq!(try_read(text, ALONE).err().unwrap().at.start, text.rfind("RETURNING").unwrap());
}

#[test]
fn a_key_keeps_repeats_away_and_excuses_from_nothing_else() {
    let deduction = "UPDATE stock SET count = count - {msg.qty} WHERE sku = {msg.sku} AND count >= {msg.qty}";
    check(&ALL, KEYED, &[(deduction, PASSES), ("UPDATE stock SET count = count - 1 WHERE count >= 1", "names no row")]);
    check(&ALL, ALONE, &[(deduction, "a repeat would deduct again: `count = count - {msg.qty}`")]);
}
