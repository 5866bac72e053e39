//! Arguments may be patterns, as extractors make them: what they bind can stand in the key, `mut` stays, and nothing is
//! lost or bound twice. Case C51.
#![allow(clippy::needless_borrow, clippy::toplevel_ref_arg, reason = "arguments as people write them")]

use crate::{failed, first, repeat};
use idem_runtime::{KeyPart, idempotent};
use std::sync::atomic::{AtomicI8, Ordering};

#[derive(Clone, Debug, KeyPart)]
pub struct OrderNo(pub String);

#[derive(Clone, Debug)]
pub struct Message {
    pub order_no: OrderNo,
    pub lines: Lines,
    pub r#type: String,
}

#[derive(Clone, Debug)]
pub struct Lines(pub i64, pub Vec<i64>);

/// What web frameworks and consumers wrap arguments in.
#[derive(Clone, Debug)]
pub struct State<S>(pub S);
#[derive(Clone, Debug)]
pub struct Json<T> {
    pub inner: T,
}

pub struct App<S> {
    pub store: S,
    pub region: String,
}

impl<S> App<S> {
    pub fn store(&self) -> &S {
        &self.store
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub row: u32,
    pub column: u32,
}

fn message(order_no: &str) -> Message {
    Message { order_no: OrderNo(order_no.into()), lines: Lines(1, vec![2, 4]), r#type: "PAID".into() }
}

idem_tests::on_every_database! {
    given {
        // The key is of the message as it came, whatever the body makes of it.
        #[idempotent(key = msg.order_no, store = db)]
        async fn mutable(db: &mut Conn, mut msg: Message, mut extra: i64) -> Result<Message, sqlx::Error> {
            extra += 8;
            msg.order_no.0.push_str(" changed");
            msg.lines.1.push(extra);
            credit(db, "a", msg.lines.1.iter().sum()).await?;
            Ok(msg)
        }

        #[idempotent(key = order_no + ":" + first, store = db)]
        async fn fields(
            db: &mut Conn,
            Message { order_no, lines: Lines(first, mut rest), .. }: Message,
        ) -> Result<OrderNo, sqlx::Error> {
            rest.push(first);
            credit(db, "a", rest.iter().sum()).await?;
            Ok(order_no)
        }

        #[idempotent(key = order + ":" + line + "/" + sub, store = db)]
        async fn tuples(db: &mut Conn, (order, (line, mut sub)): (&str, (u8, u8)), _: Position, _unused: &str) -> Result<u8, sqlx::Error> {
            sub += 1;
            credit(db, "a", i64::from(line + sub)).await?;
            Ok(u8::try_from(order.len()).unwrap_or(u8::MAX) + sub)
        }

        #[idempotent(key = id + ":" + name + ":" + first, store = db)]
        async fn references(
            db: &mut Conn,
            &id: &u64,
            ref name: String,
            [first, .., ref mut last]: [i64; 3],
            &Position { row, column }: &Position,
        ) -> Result<(u64, i64), sqlx::Error> {
            *last += i64::from(row) + i64::from(column);
            credit(db, "a", first + *last).await?;
            Ok((id, i64::try_from(name.len()).unwrap_or(0) + *last))
        }

        #[idempotent(key = whole.row + ":" + column, store = db)]
        async fn named_and_opened(db: &mut Conn, whole @ Position { column, .. }: Position) -> Result<u32, sqlx::Error> {
            credit(db, "a", i64::from(whole.column + column)).await?;
            Ok(whole.row)
        }

        #[idempotent(key = r#type + ":" + msg.r#type + ":" + r#match, store = db, delivery = r#type.len())]
        async fn r#move(db: &mut Conn, r#type: &str, msg: &Message, r#match: u8) -> Result<String, sqlx::Error> {
            credit(db, "a", i64::from(r#match)).await?;
            Ok(format!("{type}/{}", msg.r#type))
        }

        #[idempotent(key = "r#type + ':' + msg.r#type + ':' + msg.order_no", store = "r#fn", scope = "arguments.raw")]
        async fn r#loop(r#fn: &mut Conn, r#type: &str, msg: &Message) -> Result<(), sqlx::Error> {
            credit(r#fn, r#type, 1).await
        }

        // Parameters that are not always there. This build has the one and not the other.
        #[idempotent(key = order + ":" + region, store = db)]
        async fn conditional(
            db: &mut Conn,
            #[cfg(not(test))] gone: Missing,
            order: &str,
            #[cfg(test)] region: &str,
            #[allow(unused_variables, reason = "an attribute of the user's")] spare: u8,
        ) -> Result<usize, sqlx::Error> {
            credit(db, "a", 1).await?;
            #[cfg(not(test))]
            gone.use_it();
            Ok(region.len())
        }

        // As in axum: the state carries the store, and callers do not pass the connection.
        #[idempotent(key = app.region + ":" + msg.order_no, store = app.store, tx = db)]
        async fn extractors(
            State(app): State<&App<Db>>,
            db: &mut Conn,
            Json { inner: msg }: Json<Message>,
        ) -> Result<OrderNo, sqlx::Error> {
            credit(db, "a", 1).await?;
            credit(db, &app.region, 1).await?;
            Ok(msg.order_no)
        }

        // Stores from any expression.
        #[idempotent(key = no, store = app.store(), tx = db, scope = "arguments.call")]
        async fn from_call(db: &mut Conn, app: &App<Db>, no: u64) -> Result<(), sqlx::Error> {
            credit(db, &app.region, 1).await
        }

        #[idempotent(key = no, store = &app.store, tx = db, scope = "arguments.reference")]
        async fn from_reference(app: App<Db>, no: u64, db: &mut Conn) -> Result<(), sqlx::Error> {
            credit(db, &app.region, 1).await
        }

        #[idempotent(key = no, store = "stores[usize::from(shard)]", tx = "db", scope = "arguments.index", retry = 1)]
        async fn from_index(stores: &[Db], shard: u8, no: u64, db: &mut Conn) -> Result<(), sqlx::Error> {
            let _ = stores.len();
            credit(db, "a", i64::from(shard)).await
        }

        #[idempotent(key = no, store = *boxed, tx = db, scope = "arguments.deref")]
        async fn from_box(boxed: Box<Db>, no: u64, db: &mut Conn) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        // Not the first argument, `mut`, and its type under another name.
        type Link = Conn;
        #[idempotent(key = no, store = db)]
        async fn last_and_mutable(no: u64, mut db: &mut Link) -> Result<(), sqlx::Error> {
            credit(&mut db, "a", 1).await
        }

        // Closures, trait objects, `impl Trait`, slices, function pointers, and constants of the type level.
        #[idempotent(key = id + ":" + N_OF_THEM + ":" + text, store = db, scope = "arguments.of_all_kinds")]
        async fn of_all_kinds<const N: usize>(
            db: &mut Conn,
            id: impl KeyPart<Risk = idem_runtime::Stable> + Into<String>,
            text: Box<str>,
            amounts: &[i64; N],
            dynamic: &(dyn Fn(i64) -> i64 + Sync),
            pointer: fn(i64) -> i64,
            consumed: impl FnOnce(i64) -> i64,
        ) -> Result<String, sqlx::Error> {
            credit(db, "a", consumed(pointer(dynamic(amounts.iter().sum())))).await?;
            Ok(id.into() + &text)
        }
        const N_OF_THEM: usize = 3;

        // A retry keeps the arguments for the next time.
        #[idempotent(key = order_no + ":" + line, store = db, retry = 2)]
        async fn again(
            db: &mut Conn,
            Message { ref order_no, ref lines, .. }: Message,
            (line, mut sum): (u8, i8),
            tries: &AtomicI8,
        ) -> Result<usize, &'static str> {
            sum += tries.fetch_add(1, Ordering::SeqCst);
            credit(db, "a", lines.1.iter().sum()).await.map_err(|_| "sql")?;
            if sum < 2 { Err("not yet") } else { Ok(order_no.0.len() + usize::from(line)) }
        }
    }

    async fn a_mutable_argument_is_changed_after_the_key_is_made(lab: Lab) {
        let changed = first(mutable(&lab.store, message("o-1"), 2).await);
        assert_eq!((changed.order_no.0.as_str(), changed.lines.1), ("o-1 changed", vec![2, 4, 10]));
        repeat(mutable(&lab.store, message("o-1"), 2).await);
        assert_eq!(lab.balance("a").await, 16);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'o-1'").await, 1);
    }

    async fn what_a_pattern_binds_can_be_the_key(lab: Lab) {
        assert_eq!(first(fields(&lab.store, message("o-1")).await).0, "o-1");
        repeat(fields(&lab.store, message("o-1")).await);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'o-1:1'").await, 1);
        let anywhere = Position { row: 0, column: 0 };
        assert_eq!(first(tuples(&lab.store, ("o-1", (1, 2)), anywhere, "").await), 6);
        repeat(tuples(&lab.store, ("o-1", (1, 2)), anywhere, "other").await);
        assert_eq!(first(tuples(&lab.store, ("o-1", (1, 3)), anywhere, "").await), 7);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key IN ('o-1:1/2', 'o-1:1/3')").await, 2);
        assert_eq!(lab.balance("a").await, 7 + 4 + 5);
    }

    async fn references_in_patterns_bind_as_in_the_plain_function(lab: Lab) {
        let at = Position { row: 1, column: 2 };
        assert_eq!(first(references(&lab.store, &7, "bolt".into(), [1, 2, 3], &at).await), (7, 4 + 6));
        repeat(references(&lab.store, &7, "bolt".into(), [1, 20, 30], &at).await);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = '7:bolt:1'").await, 1);
        assert_eq!(first(named_and_opened(&lab.store, at).await), 1);
        repeat(named_and_opened(&lab.store, at).await);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = '1:2'").await, 1);
        assert_eq!(lab.balance("a").await, 7 + 4);
    }

    async fn raw_identifiers_are_names_like_any_other(lab: Lab) {
        assert_eq!(first(r#move(&lab.store, "t", &message("o-1"), 4).await), "t/PAID");
        repeat(r#move(&lab.store, "t", &message("o-2"), 4).await);
        first(r#loop(&lab.store, "a", &message("o-1")).await);
        repeat(r#loop(&lab.store, "a", &message("o-1")).await);
        assert_eq!(lab.balance("a").await, 5);
        let sql = "SELECT count(*) FROM idem_records WHERE action_key = 't:PAID:4' AND scope LIKE '%::move'";
        assert_eq!(lab.number(sql).await, 1);
        let sql = "SELECT count(*) FROM idem_records WHERE action_key = 'a:PAID:o-1' AND scope = 'arguments.raw'";
        assert_eq!(lab.number(sql).await, 1);
    }

    async fn a_parameter_may_depend_on_the_build(lab: Lab) {
        assert_eq!(first(conditional(&lab.store, "o-1", "eu", 0).await), 2);
        repeat(conditional(&lab.store, "o-1", "eu", 1).await);
        assert_eq!(lab.balance("a").await, 1);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'o-1:eu'").await, 1);
    }

    async fn extractors_carry_store_and_message(lab: Lab) {
        let app = App { store: lab.store.clone(), region: "b".into() };
        let json = || Json { inner: message("o-1") };
        assert_eq!(first(extractors(State(&app), json()).await).0, "o-1");
        repeat(extractors(State(&app), json()).await);
        assert_eq!((lab.balance("a").await, lab.balance("b").await), (1, 1));
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'b:o-1'").await, 1);
    }

    async fn the_store_is_any_expression(lab: Lab) {
        let app = || App { store: lab.store.clone(), region: "a".into() };
        first(from_call(&app(), 1).await);
        repeat(from_call(&app(), 1).await);
        first(from_reference(app(), 1).await);
        repeat(from_reference(app(), 1).await);
        let stores = [lab.store.clone(), lab.store.clone()];
        first(from_index(&stores, 1, 1).await);
        repeat(from_index(&stores, 0, 1).await);
        first(from_box(Box::new(lab.store.clone()), 1).await);
        repeat(from_box(Box::new(lab.store.clone()), 1).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (4, 4));
    }

    async fn the_connection_may_stand_anywhere(lab: Lab) {
        first(last_and_mutable(1, &lab.store).await);
        repeat(last_and_mutable(1, &lab.store).await);
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn arguments_may_be_of_any_kind(lab: Lab) {
        let mut given = String::new();
        for _ in 0..2 {
            let amounts = [1, 2];
            let delivered =
                of_all_kinds(&lab.store, "o-1", "text".into(), &amounts, &|n| n * 2, |n| n + 1, |n| n * 10).await;
            if given.is_empty() { given = first(delivered) } else { repeat(delivered) }
        }
        assert_eq!(given, "o-1text");
        assert_eq!(lab.balance("a").await, 70);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'o-1:3:text'").await, 1);
    }

    async fn a_retry_gives_the_body_its_arguments_again(lab: Lab) {
        let tries = AtomicI8::new(0);
        assert_eq!(first(again(&lab.store, message("o-1"), (1, 0), &tries).await), 4);
        assert_eq!(tries.load(Ordering::SeqCst), 3);
        assert_eq!(lab.balance("a").await, 6);
        tries.store(0, Ordering::SeqCst);
        repeat(again(&lab.store, message("o-1"), (1, 0), &tries).await);
        assert_eq!(failed(again(&lab.store, message("o-2"), (1, 0), &AtomicI8::new(-9)).await), "not yet");
        assert_eq!((lab.balance("a").await, lab.claims().await), (6, 1));
    }
}
