//! One table of what the attribute says, in both key forms. How rustc shows it, is tested from outside.

use proc_macro2::{TokenStream, TokenTree};

const SOUND: &str = "async fn pay(db: &mut PgConnection, msg: &Msg) -> Result<(), PayError> { db.pay(msg).await }";

/// The first line of every error, in order.
fn errors_of(arguments: &str, item: &str) -> Vec<String> {
    let expansion = crate::expand_attribute(arguments.parse().unwrap(), item.parse().unwrap());
    let mut messages = Vec::new();
    collect(expansion, &mut messages);
    messages.iter().map(|message| message.lines().next().unwrap().to_owned()).collect()
}

/// Finds the texts of `compile_error! { ".." }`.
fn collect(tokens: TokenStream, messages: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if ident == "compile_error" => {
                if let Some(TokenTree::Group(group)) = tokens.get(index + 2) {
                    messages.push(syn::parse2::<syn::LitStr>(group.stream()).unwrap().value());
                }
            }
            TokenTree::Group(group) => collect(group.stream(), messages),
            _ => {}
        }
    }
}

/// The key in both forms; bare text in double quotes becomes single-quoted text inside the string.
fn both(key: &str) -> [String; 2] {
    [format!("key = {key}, store = db"), format!("key = {:?}, store = \"db\"", key.replace('"', "'"))]
}

fn key_is_refused(key: &str, reasons: &[&str]) {
    for arguments in both(key) {
        let errors = errors_of(&arguments, SOUND);
        let matching =
            errors.len() == reasons.len() && errors.iter().zip(reasons).all(|(error, reason)| error.contains(reason));
        assert!(matching, "{arguments}\n{errors:#?}");
    }
}

fn key_is_accepted(key: &str) {
    for arguments in both(key) {
        assert_eq!(errors_of(&arguments, SOUND), [""; 0], "{arguments}");
    }
}

fn refused(arguments: &str, item: &str, reason: &str) {
    let errors = errors_of(arguments, item);
    assert!(errors.len() == 1 && errors[0].contains(reason), "{arguments}\n{item}\n{errors:#?}");
}

#[test]
fn keys_without_identity() {
    key_is_refused(r#""a" + "b""#, &["same for every message"]);
    key_is_refused(r#""a" + KIND + crate::KIND + Self::KIND"#, &["same for every message"]);
    key_is_refused("mesg.no", &["`mesg.no` does not start at a parameter"]);
    key_is_refused("self.no", &["`self.no` needs a method"]);
    key_is_refused("db.no", &["`db` is the connection"]);
    key_is_refused(r#"msg.no + ":" + msg.no"#, &["`msg.no` stands here twice"]);
    refused(r#"key = "", store = db"#, SOUND, "the key is empty");
    refused(r#"key = ":", store = db"#, SOUND, "a key part is a path such as `msg.order_no`, or text in quotes");
    refused(r"key = , store = db", SOUND, "`key` has no value");
    refused("store = db", SOUND, "`key` is missing");
}

#[test]
fn neighbours_need_text_between_them() {
    key_is_refused("msg.a + msg.b", &["`msg.a` and `msg.b` are joined without text"]);
    key_is_refused(r#"msg.a + "" + msg.b"#, &["empty text keeps nothing apart"]);
    key_is_refused("msg.a + msg.b? + msg.c", &["`msg.a` and `msg.b`", "`msg.b` and `msg.c`"]);
    key_is_refused("(msg.a + msg.b)", &["`msg.a` and `msg.b` are joined without text"]);
    key_is_accepted("msg.a + KIND + msg.b");
    key_is_accepted(r#"msg.a + "-" + msg.b"#);
}

#[test]
fn names_that_give_the_value_away() {
    key_is_refused("msg.created_at", &["`msg.created_at` looks like a point in time"]);
    key_is_refused("msg.head.offset", &["`msg.head.offset` looks like an id that the broker assigned"]);
    key_is_refused("msg.delivery_tag()", &["`msg.delivery_tag()` looks like an id that the broker assigned"]);
    key_is_refused("(msg.uuid)?", &["`msg.uuid` looks like a random identifier"]);
    key_is_refused("msg.created_at.to_string()", &["`msg.created_at.to_string()` looks like a point in time"]);
    key_is_refused("msg.offset.0", &["`msg.offset.0` looks like an id that the broker assigned"]);
    key_is_refused(r#"msg.msgId + ":" + msg.nonce"#, &["`msg.msgId` looks like", "`msg.nonce` looks like"]);
    for sound in [
        "msg.contract_offset_no",
        "msg.timestamp_batch_no",
        "msg.uuid_registry_code",
        "msg.offset.account",
        "msg.created_at.order_no",
    ] {
        key_is_accepted(sound);
    }
}

#[test]
fn values_that_are_computed_and_not_read() {
    key_is_refused("Uuid::new_v4()", &["`Uuid::new_v4()` makes a random identifier"]);
    key_is_refused("Ulid::new()", &["`Ulid::new()` makes a random identifier"]);
    key_is_refused("rand::random()", &["`rand::random()` makes a random identifier"]);
    key_is_refused("SystemTime::now()", &["`SystemTime::now()` reads a clock"]);
    key_is_refused("msg.clock.now()", &["`now()` reads a clock"]);
    key_is_refused("hash(msg)", &["`hash(..)` is a call"]);
    key_is_refused("format!(msg.no)", &["`format!` hides its parts"]);
    key_is_refused("msg.header(1)", &["`header` is called with arguments"]);
    key_is_refused("msg.no.unwrap()", &["`unwrap()` panics when the value is missing"]);
    key_is_refused("msg.no.unwrap_or(0)", &["all messages whose value is missing would share one key"]);
    key_is_refused("msg.no.unwrap_or_default()", &["all messages whose value is missing would share one key"]);
    key_is_refused("msg.lines[0]", &["an index can be out of bounds"]);
    key_is_refused("msg.no as u8", &["a cast can make different values equal"]);
}

#[test]
fn slips_of_the_pen() {
    key_is_refused("msg.no + 3", &["`3` is a number"]);
    key_is_refused("msg.no ++ msg.a", &["a key part is missing before"]);
    key_is_refused("msg.no +", &["a key part is missing after"]);
    key_is_refused("+ msg.no", &["a key part is missing before"]);
    key_is_refused(r#"msg.no ":""#, &["expected `+`"]);
    key_is_refused(r#"":" msg.no"#, &["expected `+`", "same for every message"]);
    key_is_refused("msg.no - msg.a", &["expected `+`"]);
    key_is_refused("(msg.no, msg.a)", &["a key is no tuple"]);
    key_is_refused("msg.", &["a field or accessor is missing"]);
    key_is_refused("msg::", &["a name is missing"]);
    key_is_refused("#msg.no", &["named without `#`"]);
    key_is_refused("msg.head?.no", &["`?` stands at the end"]);
    key_is_refused(r"msg.no + KIND?", &["`KIND` is a constant and cannot be missing"]);
    key_is_refused("()", &["no key part in these parentheses"]);
}

#[test]
fn every_shape_of_a_sound_part() {
    for sound in [
        "msg",
        "msg.no",
        "msg.pair.0",
        "msg.pair.0.1",
        "msg.order_no()",
        "msg.order_no().as_str()",
        "(msg.no)",
        "(msg.head).no",
        "&msg.no",
        "*msg.no",
        "msg.r#type",
        "msg.no?",
        "msg.no()?",
        "msg.id.to_string()",
    ] {
        key_is_accepted(sound);
    }
}

#[test]
fn an_allow_needs_a_rule_a_part_of_the_key_and_a_reason() {
    let with = |allow: &str| format!("key = msg.request_id, store = db, allow({allow})");
    let accepted = with(r#"random(msg.request_id), reason = "made once per submission""#);
    assert_eq!(errors_of(&accepted, SOUND), [""; 0]);
    let accepted = with(r#"random("msg.request_id"), null(msg.request_id), reason = "made once per submission""#);
    assert_eq!(errors_of(&accepted, SOUND), [""; 0]);
    refused(&with("random(msg.request_id)"), SOUND, "`allow` needs a written reason");
    refused(&with(r#"random(msg.request_id), reason = "ok""#), SOUND, "the reason must be a sentence");
    refused(&with(r#"random(msg.request_id), reason = "          ok""#), SOUND, "the reason must be a sentence");
    let errors = errors_of(&with(r#"rondom(msg.request_id), reason = "made once per submission""#), SOUND);
    assert!(
        errors[0].contains(
            "unknown rule `rondom`; the rules with an escape are `null`, `random`, `time`, `float`, `broker_id`"
        ),
        "{errors:?}"
    );
    let errors = errors_of(&with(r#"random(msg.no), reason = "made once per submission""#), SOUND);
    assert!(errors.iter().any(|error| error.contains("`msg.no`, which is no part of the key")), "{errors:?}");
    refused(
        &with(r#"random(msg.request_id), random(msg.request_id), reason = "made once per submission""#),
        SOUND,
        "`random` is already allowed",
    );
    // The wrong rule excuses nothing.
    refused(
        &with(r#"time(msg.request_id), reason = "made once per submission""#),
        SOUND,
        "looks like a random identifier",
    );
}

#[test]
fn arguments() {
    refused("key = msg.no, stroe = db", SOUND, "unknown argument `stroe`");
    refused("key = msg.no, store = db, key = msg.a", SOUND, "`key` stands here twice");
    refused("key = msg.no, store = db, retry = 0", SOUND, "a whole number from 1");
    refused("key = msg.no, store = db, retry = \"3\"", SOUND, "a whole number from 1");
    refused("key = msg.no, store = db, scope = \" \"", SOUND, "the scope is text");
    refused("key = msg.no, store = db, scope = payment", SOUND, "the scope is text");
    refused("key = msg.no, store = db, crate = \"a b\"", SOUND, "`crate` is the path");
    refused("key = msg.no, store = db, delivery", SOUND, "`delivery` has no value");
    refused("key = msg.no, store = db, 3", SOUND, "expected an argument");
    assert_eq!(
        errors_of(
            "key = msg.no, store = db, retry = 3, scope = \"a\", crate = ::a::b, delivery = msg.id, record = msg,",
            SOUND
        ),
        [""; 0]
    );
    assert_eq!(
        errors_of("key = msg.no, store = \"db\", crate = \"a::b\", delivery = \"msg.id\", record = \"msg\"", SOUND),
        [""; 0]
    );
}

#[test]
fn the_store_and_its_parameter() {
    let with = |parameter: &str| SOUND.replace("&mut PgConnection", parameter);
    let arguments = "key = msg.no, store = db";
    refused("key = msg.no", SOUND, "`store` is missing");
    refused("key = msg.no, store = bd", SOUND, "`store = bd` names no parameter");
    refused("key = msg.no, store = self.store", SOUND, "this store is no parameter");
    refused("key = msg.no, store = db, tx = db", SOUND, "both name `db`");
    refused("key = msg.no, store = STORE, tx = self.db", SOUND, "`tx` names the parameter");
    refused(arguments, &with("PgConnection"), "must be `&mut` of a connection type");
    refused(arguments, &with("&PgConnection"), "must be `&mut`");
    refused(arguments, &with("&'static mut PgConnection"), "not for `'static`");
    refused(arguments, &with("&PgStore"), "the type that callers pass");
    refused(arguments, &with("&mut Store<PgConnection>"), "the type that callers pass");
    refused(arguments, &with("&PgPool"), "a pool hands out other connections");
    refused(arguments, &with("&mut Transaction<'_, Postgres>"), "the unit owns the transaction");
    refused(arguments, &with("&mut String"), "`String` is no database connection");
    assert_eq!(
        errors_of(
            "key = msg.no, store = self.store, tx = db, scope = \"stock.deduct\"",
            &SOUND.replace("db:", "&self, mut db:")
        ),
        [""; 0]
    );
}

#[test]
fn the_function() {
    let arguments = "key = msg.no, store = db";
    let returning = |output: &str| SOUND.replace("Result<(), PayError>", output);
    refused(arguments, &SOUND.replace("async ", ""), "needs an `async fn`");
    refused(arguments, &SOUND.replace("async fn", "const fn"), "a `const fn` cannot reach a database");
    refused(arguments, &SOUND.replace("async fn", "async unsafe fn"), "an `unsafe fn` cannot be idempotent");
    refused(arguments, &SOUND.replace("-> Result<(), PayError>", ""), "must return a `Result`");
    refused(arguments, &returning("()"), "must return a `Result`, not `()`");
    refused(arguments, &returning("Option<u8>"), "must return a `Result`, not `Option<u8>`");
    refused(arguments, &returning("Result<impl Sized, E>"), "`impl Trait` cannot stand here");
    refused(
        arguments,
        &SOUND.replace("async ", "").replace("Result<(), PayError>", "Pin<Box<dyn Future<Output = R>>>"),
        "already rewritten",
    );
    refused(arguments, &SOUND.replace("{ db.pay(msg).await }", ";"), "a trait's method without a body");
    refused(arguments, "struct Pay;", "cannot stand on a struct");
    refused(arguments, "impl Pay { }", "cannot stand on a whole `impl` block");
    // One cause, one error, whatever else is wrong.
    refused("ky = 3", "trait Pay { }", "cannot stand on a whole trait");
    for alias in ["PayResult", "anyhow::Result<()>", "io::Result<()>", "Result<(), Box<dyn Error + Send + Sync>>"] {
        assert_eq!(errors_of(arguments, &returning(alias)), [""; 0], "{alias}");
    }
}

#[test]
fn a_second_way_to_a_database() {
    let arguments = "key = msg.no, store = db";
    let with = |parameter: &str| SOUND.replace("msg: &Msg", &format!("msg: &Msg, {parameter}"));
    for (parameter, kind) in [
        ("pool: &PgPool", "`pool` is a pool next to `db`"),
        ("State(pool): State<sqlx::Pool<Sqlite>>", "`pool` is a pool"),
        ("pools: (u8, Arc<Vec<MySqlPool>>)", "`pools` is a pool"),
        ("other: &mut SqliteConnection", "`other` is another connection"),
        ("other: PoolConnection<MySql>", "`other` is another connection"),
        ("tx: &mut Transaction<'_, Postgres>", "`tx` is another transaction"),
        ("other: &PgStore", "`other` is a store"),
        ("other: Store<MySqlConnection>", "`other` is a store"),
    ] {
        refused(arguments, &with(parameter), kind);
    }
    refused(arguments, &with("pool: Pool<D>").replacen("pay(", "pay<D: Database>(", 1), "`pool` is a pool");
    for parameter in [
        "pool: &Pool",
        "pool: Pool<Manager>",
        "store: &Store<Shelf>",
        "tx: Transaction<Eur>",
        "p: PoolSize",
        "_: PgPool",
    ] {
        assert_eq!(errors_of(arguments, &with(parameter)), [""; 0], "{parameter}");
    }
    assert_eq!(errors_of("key = msg.no, store = s.a, tx = db", &with("s: &Stores<PgStore>")), [""; 0]);
    let allowed = "key = msg.no, store = db, allow(pool(pool), reason = \"read-only rates\")";
    assert_eq!(errors_of(allowed, &with("pool: PgPool")), [""; 0]);
    refused(&allowed.replace("(pool)", "(poll)"), SOUND, "`allow` names `poll`, which is no parameter");
}

#[test]
fn statements_that_end_the_transaction() {
    let arguments = "key = msg.no, store = db";
    let with = |statement: &str| SOUND.replace("db.pay(msg).await", &format!("{{ {statement} }} Ok(())"));
    for statement in [
        r#"query("COMMIT")"#,
        r#"sqlx::query::<Postgres>("commit")"#,
        r#"query_scalar::<_, Vec<(u8, u8)>>("COMMIT")"#,
        r#"query!("COMMIT")"#,
        r#"query_as!(Row, "COMMIT", db)"#,
        r##"raw_sql(r#"COMMIT"#)"##,
        r#"query(AssertSqlSafe("COMMIT"))"#,
        r#"db.execute("COMMIT")"#,
        r#"if msg.last { query("COMMIT").execute(&mut *db).await?; }"#,
        "db.commit().await?",
        "PgTransactionManager::commit(db).await?",
        "<X as TransactionManager>::commit(&mut *db).await?",
    ] {
        let errors = errors_of(arguments, &with(statement));
        assert!(errors.len() == 1 && errors[0].to_lowercase().contains("`commit`"), "{statement}\n{errors:#?}");
    }
    for statement in [
        r#"msg.state == "COMMIT""#,
        r#"query("UPDATE a SET b = $1").bind("COMMIT")"#,
        r#"log("COMMIT")"#,
        "tx.commit().await?",
        "msg.db.commit()",
        "orders::commit(db)",
        "query(COMMIT)",
    ] {
        assert_eq!(errors_of(arguments, &with(statement)), [""; 0], "{statement}");
    }
    let allowed = "key = msg.no, store = db, allow(transaction(db), reason = \"sent to another system\")";
    assert_eq!(errors_of(allowed, &with(r#"host.execute("COMMIT")"#)), [""; 0]);
    refused(&allowed.replace("(db)", "(msg)"), SOUND, "allowed for the body's connection");
}

#[test]
fn all_mistakes_are_reported_in_one_run() {
    let errors = errors_of(
        "key = msg.a + msg.offset, store = bd, retyr = 3",
        "async fn pay(db: &mut PgConnection, msg: &Msg) -> u8 { 1 }",
    );
    assert_eq!(errors.len(), 5, "{errors:#?}");
}

#[test]
fn the_string_form_shows_the_place() {
    let expansion = crate::expand_attribute(
        r#"key = "msg.a + ':' + msg.offset", store = db"#.parse().unwrap(),
        SOUND.parse().unwrap(),
    );
    let mut messages = Vec::new();
    collect(expansion, &mut messages);
    assert!(messages[0].contains("\n    msg.a + ':' + msg.offset\n                  ^^^^^^^^^^\n"), "{}", messages[0]);
}

#[test]
fn the_way_out_names_the_database_that_was_meant() {
    let item = SOUND.replace("&mut PgConnection", "&SqlitePool");
    let mut messages = Vec::new();
    collect(crate::expand_attribute("key = msg.no, store = db".parse().unwrap(), item.parse().unwrap()), &mut messages);
    assert!(
        messages[0].contains("write `db: &mut SqliteConnection`: callers pass a `&SqliteStore`"),
        "{}",
        messages[0]
    );
}

#[test]
fn derive() {
    let refused = |item: &str, reason: &str| {
        let mut messages = Vec::new();
        let expansion = crate::expand_derive(item.parse().unwrap());
        assert!(expansion.to_string().contains("KeyPart for"), "a refused type still has its impl: {item}");
        collect(expansion, &mut messages);
        assert!(messages.len() == 1 && messages[0].contains(reason), "{item}\n{messages:#?}");
    };
    refused("struct Unit;", "`Unit` holds no value");
    refused("struct Two(u8, u8);", "`Two` has 2 fields");
    refused("union U { a: u8 }", "a union does not know");
    refused("enum E { }", "`E` has no variants");
    refused("enum E { A(u8), B }", "variant `A` carries data");
    refused("enum E { A, #[key_part(text = \"A\")] B }", "`A` and `B` have the same text `A`");
    refused("enum E { #[key_part(text = \" \")] A }", "the text of `A` is blank");
    refused("enum E { #[key_part(txt = \"a\")] A }", "unknown option `txt`");
    refused("#[key_part(text = \"a\")] enum E { A }", "`text` belongs on a variant");
    refused("struct S(#[key_part(text = \"a\")] u8);", "`text` belongs on the variants");
    refused("#[key_part(crate = a, crate = b)] struct S(u8);", "`crate` stands here twice");
    let accepted = crate::expand_derive(
        "#[key_part(crate = \"a::b\")] struct S { value: u8, of: PhantomData<()> }".parse().unwrap(),
    );
    assert!(accepted.to_string().contains("a :: b :: KeyPart for S"));
}
