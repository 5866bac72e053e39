use quote::ToTokens as _;

use super::*;
use crate::guard::Kind;

/// The text alone is judged, with and without the parser.
#[track_caller]
fn text(cases: &[(&str, &str)]) {
    check(&ALL, ALLOWED, cases);
}

#[test]
fn what_stands_in_braces_is_a_value() {
    text(&[
        ("UPDATE o SET s = 1 WHERE no = {msg.no}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = { msg . no }", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {&msg.no}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {msg.no()}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {msg.lines[0].no}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {msg.no.as_str()}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {self.tenant}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {i64::from(msg.no)}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {format!(\"a}b{}\", msg.no)}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {msg.no.replace('}', \"'\")}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {if msg.big { 1 } else { msg.no }}", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {}", "hold no value"),
        ("UPDATE o SET s = 1 WHERE no = {  }", "hold no value"),
        ("UPDATE o SET s = 1 WHERE no = {msg.no", "never closed"),
        ("UPDATE o SET s = 1 WHERE no = msg.no}", "closes nothing"),
        ("UPDATE o SET s = 1 WHERE no = {{msg.no}}", "not doubled"),
        ("UPDATE o SET s = 1 WHERE no = {msg.no:?}", "nothing is formatted"),
        ("UPDATE o SET s = 1 WHERE no = {msg.no:>8}", "nothing is formatted"),
        ("UPDATE o SET s = 1 WHERE no = {msg..}", "a range is no value"),
        ("UPDATE o SET s = 1 WHERE no = {msg.}", "no Rust expression"),
        ("UPDATE o SET s = 1 WHERE no = {msg no}", "no Rust expression"),
        ("UPDATE o SET s = 1 WHERE no = {msg.no)}", "its brackets have no partners"),
        ("UPDATE o SET s = 1 WHERE no = {'a}", "a `'` stands alone"),
        ("UPDATE o SET s = 1 WHERE no = {#no}", "unknown character"),
        ("UPDATE o SET s = 1 WHERE no = {msg.no // the number}", "comment"),
        ("UPDATE o SET s = 1 WHERE no = {0}", "is a constant"),
        ("UPDATE o SET s = {\"PAID\"} WHERE no = {msg.no}", "is a constant"),
        ("UPDATE o SET s = 1 WHERE no = {msg.no?}", "`?` would leave"),
        ("UPDATE o SET s = 1 WHERE no = {load(msg).await}", "`await` would leave"),
        ("UPDATE o SET s = 1 WHERE no = {return}", "`return` would leave"),
    ]);
}

#[test]
fn too_long_a_value_is_refused() {
    let long = format!("UPDATE o SET s = 1 WHERE no = {{{}a{}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(try_read(&long, ALLOWED).is_err_and(|refusal| refusal.reason.contains("too long")));
}

#[test]
fn quotes_hold_text() {
    text(&[
        ("UPDATE o SET s = '{\"a\": 1}' WHERE no = {msg.no}", PASSES),
        ("UPDATE o SET s = '{}' WHERE no = {msg.no}", PASSES),
        ("UPDATE o SET s = 'it''s' WHERE no = {msg.no}", PASSES),
        ("UPDATE o SET s = 'a; b' WHERE no = {msg.no}", PASSES),
        ("UPDATE o SET s = '$1 ? :a -- /* #' WHERE no = {msg.no}", PASSES),
        ("UPDATE o SET s = 'a WHERE no = {msg.no}", "never closed"),
        ("UPDATE o SET s = 'it\\'s' WHERE no = {msg.no}", "backslash"),
        ("UPDATE o SET s = 'a\\\\b' WHERE no = {msg.no}", "backslash"),
    ]);
    check(
        &ALL,
        KEYED,
        &[
            ("UPDATE o SET s = '{msg.status}' WHERE no = {msg.no}", "`{msg.status}` in quotes is text"),
            ("UPDATE o SET s = 1 WHERE no = '{order_no}'", "in quotes is text"),
            ("UPDATE o SET s = 1 WHERE no = 'A-{msg.no()}'", "in quotes is text"),
            ("UPDATE o SET s = '{Status::Paid}' WHERE no = {msg.no}", "in quotes is text"),
            ("UPDATE \"{table}\" SET s = 1 WHERE no = {msg.no}", "in quotes is text"),
        ],
    );
}

#[test]
fn placeholders_of_the_driver_are_refused() {
    text(&[
        ("UPDATE o SET s = 1 WHERE no = $1", "`$1` is bound to nothing"),
        ("UPDATE o SET s = 1 WHERE no = ?", "`?` is bound to nothing"),
        ("UPDATE o SET s = 1 WHERE no = ?1", "`?1` is bound to nothing"),
        ("UPDATE o SET s = 1 WHERE no IN (?)", "`?` is bound to nothing"),
        ("UPDATE o SET s = 1 WHERE no = :no", "`:no` is bound to nothing"),
        ("UPDATE o SET s = $$text$$ WHERE no = {no}", "dollar quotes"),
        ("UPDATE o SET s = $a$text$a$ WHERE no = {no}", "dollar quotes"),
        ("UPDATE o SET s$1 = 1 WHERE no = {no}", PASSES),
    ]);
    let others = [Dialect::MySql, Dialect::Sqlite, Dialect::Unknown];
    check(&others, ALLOWED, &[("UPDATE o SET s = 1 WHERE no = @no", "`@no` is bound to nothing")]);
    check(
        &[Dialect::Postgres],
        ALLOWED,
        &[
            ("UPDATE o SET s = 1 WHERE no = {no}::bigint AND data ? 'a'", PASSES),
            ("UPDATE o SET s = 1 WHERE no = {no} AND data ?| ARRAY['a'] AND tags[1:2] @> {tags}", PASSES),
        ],
    );
}

#[test]
fn a_guard_is_one_statement() {
    text(&[
        ("UPDATE o SET s = 1 WHERE no = {no};", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {no} ; -- done\n /* really */ ", PASSES),
        ("UPDATE o SET s = 1 WHERE no = {no}; DELETE FROM o", "another one begins"),
        ("UPDATE o SET s = 1 WHERE no = {no};;", "another one begins"),
        ("SELECT 1 FROM o WHERE no = {no}", "a query changes nothing"),
        ("(SELECT 1)", "begins with UPDATE"),
        ("WITH a AS (SELECT 1) UPDATE o SET s = 1 WHERE no = {no}", "not with WITH"),
        ("COMMIT", "the transaction itself"),
        ("BEGIN", "the transaction itself"),
        ("SAVEPOINT a", "the transaction itself"),
        ("set autocommit = 1", "the transaction itself"),
        ("MERGE INTO o USING p ON o.no = {no} WHEN MATCHED THEN DELETE", "every time after"),
        ("CREATE TABLE o (no INT)", "is an UPDATE, an INSERT or a DELETE"),
        ("TRUNCATE o", "is an UPDATE, an INSERT or a DELETE"),
        ("", "empty"),
        ("  -- nothing\n", "empty"),
    ]);
}

#[test]
fn comments_are_left_out_where_all_databases_see_them() {
    text(&[
        ("-- it's paid {msg.no}\nUPDATE o SET s = 1 WHERE no = {no}", PASSES),
        ("UPDATE o /* ; ' {x */ SET s = 1 WHERE no = {no}", PASSES),
        ("UPDATE o SET s = 1 /* open WHERE no = {no}", "never closed"),
        ("UPDATE o SET s = 1 /* a /* b */ WHERE no = {no}", "nests"),
        ("UPDATE o SET s = 1 /*! , t = 1 */ WHERE no = {no}", "obeys"),
        ("UPDATE o SET s = 1 /*M! , t = 1 */ WHERE no = {no}", "obeys"),
        ("UPDATE /*+ NO_INDEX(o) */ o SET s = 1 WHERE no = {no}", "obeys"),
    ]);
    let minus = "UPDATE o SET s = 1 --{a}\nWHERE no = {no}";
    check(&[Dialect::MySql, Dialect::Unknown], ALLOWED, &[(minus, "not every database")]);
    check(&[Dialect::Postgres, Dialect::Sqlite], ALLOWED, &[(minus, PASSES)]);
    let hash = "UPDATE o SET s = 1 # it's done\nWHERE no = {no}";
    check(&[Dialect::MySql], ALLOWED, &[(hash, PASSES)]);
    check(&[Dialect::Unknown], ALLOWED, &[(hash, "not every database")]);
    let guard = try_read("UPDATE o -- {a}\n SET s = 1 /* {b} */ WHERE no = {c};", ALLOWED).unwrap();
    assert_eq!(guard.sql, "UPDATE o  \n SET s = 1   WHERE no = {}");
    assert_eq!(guard.values.len(), 1);
}

#[test]
fn values_keep_their_order_and_are_located_at_the_literal() {
    let guard =
        try_read("UPDATE o SET s = {msg.s}, t = '{}' WHERE no = { msg.pair.0 } AND v = {msg.v()}", ALLOWED).unwrap();
    assert_eq!(guard.sql, "UPDATE o SET s = {}, t = '{}' WHERE no = {} AND v = {}");
    let written: Vec<String> = guard.values.iter().map(|value| value.to_token_stream().to_string()).collect();
    assert_eq!(written, ["msg . s", "msg . pair . 0", "msg . v ()"]);
}

#[test]
fn an_allowed_guard_is_told_by_its_words() {
    let kind = |text: &str| try_read(text, on(Dialect::Postgres, ALLOWED)).unwrap().kind;
    assert_eq!(kind("update o set s = 1"), Kind::Change);
    assert_eq!(kind("DELETE FROM o"), Kind::Change);
    for (text, names_its_index) in [
        ("INSERT INTO f VALUES (1)", false),
        ("REPLACE INTO f VALUES (1)", false),
        ("INSERT INTO f VALUES (1) ON CONFLICT DO NOTHING", false),
        ("INSERT INTO f VALUES (1) ON CONFLICT (no) DO UPDATE SET a = 1", false),
        ("INSERT INTO f VALUES ('ON CONFLICT (no) DO NOTHING')", false),
        ("INSERT INTO f VALUES (1) ON CONFLICT (no) DO NOTHING", true),
        ("INSERT INTO f VALUES (1) ON CONFLICT ON CONSTRAINT uq DO NOTHING", true),
    ] {
        assert_eq!(kind(text), Kind::Insert { names_its_index }, "{text}");
    }
}

#[test]
fn nothing_excuses_what_is_broken_and_judgements_are_excused() {
    for (text, excusable) in [
        ("UPDATE o SET s = {} WHERE no = 1", false),
        ("UPDATE o SET s = 1; COMMIT", false),
        ("SELECT 1", false),
        ("UPDATE o SET s = 'a\\b'", false),
        #[cfg(feature = "guard")]
        ("UPDATE o SET s = 1", true),
        #[cfg(feature = "guard")]
        ("UPDATE o SET SET", true),
        ("UPDATE o SET s = '{msg.s}'", true),
    ] {
        let refusal = try_read(text, ALONE).err().unwrap();
        assert_eq!(refusal.excusable, excusable, "{text}");
        assert_eq!(try_read(text, ALLOWED).is_ok(), excusable, "{text}");
    }
}

#[test]
fn the_place_is_exact_also_behind_other_scripts() {
    for (text, place) in [
        ("UPDATE o SET s = '已支付' WHERE no = {}", "{}"),
        ("UPDATE o SET s = 'é' WHERE no = {msg.}", "{msg.}"),
        ("UPDATE o SET s = 'é{msg.no}'", "{msg.no}"),
        ("UPDATE o SET s = 'é', t = $12 ", "$12"),
        ("UPDATE o SET é = 'a\\'", "\\"),
        ("UPDATE o SET s = 1; DELETE FROM é ", "; DELETE FROM é"),
    ] {
        assert_eq!(pointed(text, ALONE), place, "{text}");
    }
}

#[cfg(not(feature = "guard"))]
#[test]
fn without_the_parser_only_an_allowed_guard_passes() {
    let text = "UPDATE o SET s = 'PAID' WHERE no = {no} AND s = 'NEW'";
    assert!(try_read(text, ALONE).is_err_and(|refusal| refusal.reason.contains("switched off") && refusal.excusable));
    assert!(try_read(text, ALLOWED).is_ok());
}
