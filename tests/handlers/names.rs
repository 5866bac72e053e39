//! The expansion's own names never meet the user's: not those of arguments, of items beside the handler, or of what a
//! body imports. And the key is made before the body can move the message. Cases C44, C46 (in a `macro_rules!`).

use crate::{failed, first, repeat};
use idem_runtime::idempotent;

/// What the expansion binds, and what a person would guess that it does.
macro_rules! for_each_name {
    ($then:ident) => {
        $then! {
            key unit result never retry ended value error seen part_0 part_1 db tx store conn connection outcome claim
            span handler delivery record output body me __key __idem
        }
    };
}

/// A handler in three forms whose connection has the given name. A module each, so that they have a scope each.
macro_rules! connections_named {
    ($($name:ident)*) => {$(
        mod $name {
            use super::{Conn, Db, Shop, credit, idempotent};

            #[idempotent(key = order, store = $name)]
            pub(super) async fn once($name: &mut Conn, order: &str) -> Result<&'static str, sqlx::Error> {
                credit($name, "a", 1).await?;
                Ok(stringify!($name))
            }

            #[idempotent(key = "order + ':' + order.len()", store = $name, retry = 1)]
            pub(super) async fn again($name: &mut Conn, order: &str) -> Result<&'static str, sqlx::Error> {
                credit($name, "a", 1).await?;
                Ok(stringify!($name))
            }

            #[idempotent(key = order, store = shop.store, tx = $name)]
            pub(super) async fn elsewhere(shop: &Shop<Db>, $name: &mut Conn, order: &str) -> Result<&'static str, sqlx::Error> {
                credit($name, "a", 1).await?;
                Ok(stringify!($name))
            }
        }
    )*};
}

/// One delivery to each of them.
macro_rules! deliver_to_each {
    ($($name:ident)*) => {
        async fn deliver_to_each(store: &Db, order: &str) -> usize {
            let shop = Shop { store: store.clone() };
            let mut delivered = 0;
            $(
                assert_eq!(first($name::once(store, order).await), stringify!($name));
                assert_eq!(first($name::again(store, order).await), stringify!($name));
                assert_eq!(first($name::elsewhere(&shop, order).await), stringify!($name));
                repeat($name::once(store, order).await);
                delivered += 3;
            )*
            delivered
        }
    };
}

pub struct Shop<S> {
    store: S,
}

#[derive(Clone, Debug)]
pub struct Message {
    order_no: String,
    status: String,
    lines: Vec<i64>,
}

fn message(order_no: &str) -> Message {
    Message { order_no: order_no.into(), status: "PAID".into(), lines: vec![1, 2, 4] }
}

/// Names that a `use .. ::*` in a body brings in.
pub mod shadows {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verdict {
        Ok,
        Err,
        Some,
        None,
        First,
        Duplicate,
    }
    pub struct Result;
    pub struct Outcome;
    pub struct Handled;
    pub struct String;
    pub fn never() -> &'static str {
        "the user's"
    }
}

/// A handler as a team's own macro writes it, around everything that a `macro_rules!` can capture.
macro_rules! our_handler {
    ($(#[$meta:meta])* $vis:vis $name:ident($db:ident, $msg:ident: $message:ty) by $key:expr, in $scope:literal -> $value:ty $body:block) => {
        $(#[$meta])*
        #[idempotent(key = $key, store = $db, scope = $scope, record = $msg)]
        $vis async fn $name($db: &mut Conn, $msg: $message) -> Result<$value, sqlx::Error> $body
    };
}

/// Methods of everything, named like those that the expansion calls on its own values.
pub mod everything {
    #[allow(dead_code, reason = "they are there to be in the way")]
    pub trait Everything: Sized {
        fn claim(self) -> &'static str {
            "the user's"
        }
        fn commit(self) -> &'static str {
            "the user's"
        }
        fn roll_back(self) -> &'static str {
            "the user's"
        }
        fn named_part(self) -> &'static str {
            "the user's"
        }
        fn text(self) -> &'static str {
            "the user's"
        }
        fn finish(self) -> &'static str {
            "the user's"
        }
    }
    impl<T> Everything for T {}
}

idem_tests::on_every_database! {
    given {
        for_each_name!(connections_named);
        for_each_name!(deliver_to_each);

        #[allow(clippy::too_many_arguments)]
        #[idempotent(key = key + ":" + __key, store = db)]
        async fn many_arguments(
            db: &mut Conn,
            key: &str,
            __key: &str,
            tx: i64,
            store: i64,
            conn: i64,
            result: i64,
            outcome: i64,
            unit: i64,
            never: i64,
            span: i64,
            seen: i64,
            value: i64,
            error: i64,
            delivery: i64,
        ) -> Result<Vec<i64>, sqlx::Error> {
            let all = vec![tx, store, conn, result, outcome, unit, never, span, seen, value, error, delivery];
            credit(db, "a", all.iter().sum()).await?;
            Ok(all)
        }

        #[allow(clippy::too_many_arguments)]
        #[idempotent(key = "retry + ':' + key + ':' + part_0", store = db, retry = 1)]
        async fn many_arguments_again(
            db: &mut Conn,
            retry: &str,
            key: &str,
            part_0: &str,
            ended: i64,
            unit: i64,
            result: i64,
            never: i64,
            value: i64,
            error: i64,
        ) -> Result<Vec<i64>, sqlx::Error> {
            let all = vec![ended, unit, result, never, value, error];
            credit(db, "a", all.iter().sum()).await?;
            Ok(all)
        }

        mod crowded {
            use ::idem_runtime::idempotent;
            use super::{Conn, credit};
            use self::Answer::*;

            pub mod sqlx { pub const N: i64 = 1; }
            pub mod idem_runtime { pub const N: i64 = 2; }
            pub mod core { pub const N: i64 = 4; }
            pub mod std { pub const N: i64 = 8; }
            pub mod tokio { pub const N: i64 = 16; }
            pub fn begin() -> i64 { 32 }
            pub fn claim() -> i64 { 64 }
            pub fn never() -> i64 { 128 }
            pub struct Outcome;
            pub struct Handled;
            pub struct Claim;
            pub struct Store;
            pub struct Key;
            pub struct Retry;
            pub struct Result;
            pub struct Sized;
            pub enum Answer { Ok, Err, Some, None }
            macro_rules! concat { () => { 256 }; }
            macro_rules! module_path { () => { 512 }; }

            #[idempotent(key = order, store = db, retry = 1)]
            pub(super) async fn handle(db: &mut Conn, order: &str) -> ::core::result::Result<i64, ::sqlx::Error> {
                let (_, _, _, _, _, _, _, _) = (Outcome, Handled, Claim, Store, Key, Retry, Result, Sized);
                let mut sum = sqlx::N + idem_runtime::N + core::N + std::N + tokio::N + begin() + claim() + never();
                sum += concat!() + module_path!();
                for answer in [Ok, Err, Some, None] {
                    sum += match answer { Ok => 1024, Err => 2048, Some => 4096, None => 8192 };
                }
                credit(db, "a", sum).await?;
                ::core::result::Result::Ok(sum)
            }
        }

        #[idempotent(key = order, store = db)]
        async fn imports_everything(db: &mut Conn, order: &str) -> Result<String, sqlx::Error> {
            use crate::names::shadows::*;
            let _ = (Result, Outcome, Handled, String);
            credit(db, "a", 1).await?;
            Ok(never().to_owned())
        }

        #[idempotent(key = order, store = db)]
        async fn imports_variants(db: &mut Conn, order: &str) -> Result<usize, sqlx::Error> {
            use crate::names::shadows::Verdict::{self, *};
            let all: [Verdict; 6] = [Ok, Err, Some, None, First, Duplicate];
            if all[0] != Ok {
                return Result::Err(sqlx::Error::RowNotFound);
            }
            credit(db, "a", 1).await?;
            Result::Ok(all.len())
        }

        #[idempotent(key = order, store = db)]
        async fn imports_result(db: &mut Conn, order: &str) -> Result<(), sqlx::Error> {
            use crate::names::shadows::Result;
            let _ = Result;
            credit(db, "a", 1).await
        }

        #[idempotent(key = msg.order_no + ":" + msg.status, store = db, delivery = msg.lines.len(), record = msg)]
        async fn consumes(db: &mut Conn, msg: Message) -> Result<String, sqlx::Error> {
            let Message { order_no, lines, .. } = msg;
            for line in lines {
                credit(db, "a", line).await?;
            }
            Ok(order_no)
        }

        // Two markers of the same name, one part being the field and the other the parameter.
        #[idempotent(key = msg_order_no + ":" + msg.order_no + ":" + T::NAME, store = db, scope = "names.generic")]
        async fn generic<T: Named, C>(db: &mut Conn, msg_order_no: &str, msg: &Message, with: C) -> Result<C, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(with)
        }

        trait Named { const NAME: &'static str; }
        struct One;
        struct Two;
        impl Named for One { const NAME: &'static str = "one"; }
        impl Named for Two { const NAME: &'static str = "two"; }

        our_handler! {
            /// With a doc comment.
            pub(crate) ours(db, msg: &Message) by msg.order_no.as_str(), in "names.ours" -> usize {
                credit(db, "a", msg.lines.iter().sum()).await?;
                Ok(msg.lines.len())
            }
        }

        mod extended {
            use super::{Conn, credit, idempotent};
            use crate::names::everything::Everything as _;

            #[idempotent(key = order + ":" + order.len(), store = db)]
            pub(super) async fn handle(db: &mut Conn, order: &str, fail: bool) -> Result<&'static str, &'static str> {
                credit(db, "a", 1).await.map_err(|_| "sql")?;
                if fail { Err(order.roll_back()) } else { Ok(order.commit()) }
            }
        }
    }

    async fn arguments_may_have_any_name(lab: Lab) {
        let delivered = || many_arguments(&lab.store, "k", "kk", 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048);
        assert_eq!(first(delivered().await), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]);
        repeat(delivered().await);
        assert_eq!(lab.balance("a").await, 4095);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'k:kk'").await, 1);
        let again = || many_arguments_again(&lab.store, "r", "k", "p", 1, 2, 4, 8, 16, 32);
        assert_eq!(first(again().await), [1, 2, 4, 8, 16, 32]);
        repeat(again().await);
        assert_eq!(lab.balance("a").await, 4095 + 63);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'r:k:p'").await, 1);
    }

    async fn the_connection_may_have_any_name(lab: Lab) {
        let delivered = i64::try_from(deliver_to_each(&lab.store, "o-1").await).unwrap();
        assert!(delivered > 50, "{delivered}");
        assert_eq!(lab.balance("a").await, delivered);
        assert_eq!(lab.claims().await, delivered);
    }

    async fn items_beside_the_handler_may_have_any_name(lab: Lab) {
        let all = 1024 * 16 - 1;
        // 256 and 512 are macros, 1024 and up the variants: each counted once.
        assert_eq!(first(crowded::handle(&lab.store, "o-1").await), all);
        repeat(crowded::handle(&lab.store, "o-1").await);
        assert_eq!(lab.balance("a").await, all);
    }

    async fn a_body_may_import_any_name(lab: Lab) {
        assert_eq!(first(imports_everything(&lab.store, "o-1").await), "the user's");
        assert_eq!(first(imports_variants(&lab.store, "o-1").await), 6);
        first(imports_result(&lab.store, "o-1").await);
        repeat(imports_everything(&lab.store, "o-1").await);
        repeat(imports_variants(&lab.store, "o-1").await);
        repeat(imports_result(&lab.store, "o-1").await);
        assert_eq!(lab.balance("a").await, 3);
    }

    async fn the_key_is_made_before_the_body_consumes_the_message(lab: Lab) {
        assert_eq!(first(consumes(&lab.store, message("o-1")).await), "o-1");
        repeat(consumes(&lab.store, message("o-1")).await);
        assert_eq!(first(consumes(&lab.store, message("o-2")).await), "o-2");
        assert_eq!(lab.balance("a").await, 14);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key IN ('o-1:PAID', 'o-2:PAID')").await, 2);
    }

    async fn type_parameters_and_parts_may_have_any_name(lab: Lab) {
        assert_eq!(first(generic::<One, _>(&lab.store, "x", &message("y"), 7).await), 7);
        assert_eq!(first(generic::<Two, _>(&lab.store, "x", &message("y"), "seven").await), "seven");
        repeat(generic::<Two, _>(&lab.store, "x", &message("y"), 7).await);
        assert_eq!(lab.balance("a").await, 2);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key IN ('x:y:one', 'x:y:two')").await, 2);
    }

    async fn a_team_may_write_its_handlers_through_a_macro(lab: Lab) {
        assert_eq!(first(ours(&lab.store, &message("o-1")).await), 3);
        repeat(ours(&lab.store, &message("o-1")).await);
        assert_eq!(lab.balance("a").await, 7);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE scope = 'names.ours' AND action_key = 'o-1'").await, 1);
    }

    async fn a_trait_of_everything_may_have_methods_of_any_name(lab: Lab) {
        assert_eq!(failed(extended::handle(&lab.store, "o-1", true).await), "the user's");
        assert_eq!(lab.claims().await, 0);
        assert_eq!(first(extended::handle(&lab.store, "o-1", false).await), "the user's");
        repeat(extended::handle(&lab.store, "o-1", false).await);
        assert_eq!(lab.balance("a").await, 1);
    }
}
