//! Handlers are methods too: with every receiver, in generic and trait impls, with keys from `self` and constants of the
//! type, in traits of their own, and behind `#[async_trait]`. Case C52.

use crate::{failed, first, repeat};
use async_trait::async_trait;
use idem_runtime::{Handled, KeyPart, Stable, idempotent};
use std::{
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

#[derive(Clone, Debug)]
pub struct Message {
    pub order_no: String,
    pub amount: i64,
}

fn message(order_no: &str) -> Message {
    Message { order_no: order_no.into(), amount: 4 }
}

pub struct Shop<S> {
    pub store: S,
    pub tenant: &'static str,
    pub sold: i64,
}

impl<S> Shop<S> {
    pub const KIND: &'static str = "sale";

    fn tenant(&self) -> &str {
        self.tenant
    }
}

pub trait Clock: Send + Sync {
    const NAME: &'static str;
    fn day(&self) -> i64;
}

pub struct Fixed(i64);

impl Clock for Fixed {
    const NAME: &'static str = "fixed";
    fn day(&self) -> i64 {
        self.0
    }
}

idem_tests::on_every_database! {
    given {
        fn shop(lab: &Lab, tenant: &'static str) -> Shop<Db> {
            Shop { store: lab.store.clone(), tenant, sold: 0 }
        }

        impl Shop<Db> {
            #[idempotent(key = self.tenant + ":" + Self::KIND + ":" + msg.order_no, store = self.store, tx = db, scope = "methods.by_reference")]
            async fn by_reference(&self, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok(self.sold)
            }

            #[idempotent(key = "self.tenant() + ':' + Self::KIND + ':' + msg.order_no", store = db, scope = "methods.by_mutable_reference")]
            async fn by_mutable_reference(&mut self, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                self.sold += msg.amount;
                credit(db, "a", msg.amount).await?;
                self.sold += 1;
                Ok(self.sold)
            }

            // The store is the method's own, and the method is given up to the body.
            #[idempotent(key = self.tenant + ":" + msg.order_no, store = self.store.clone(), tx = db, scope = "methods.by_value")]
            async fn by_value(mut self, db: &mut Conn, msg: Message) -> Result<Self, sqlx::Error> {
                self.sold += msg.amount;
                credit(db, "a", self.sold).await?;
                Ok(self)
            }

            #[idempotent(key = self.tenant + ":" + msg.order_no, store = self.store, tx = db, scope = "methods.by_arc")]
            async fn by_arc(self: Arc<Self>, msg: Message, db: &mut Conn) -> Result<Arc<Self>, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok(self)
            }

            #[idempotent(key = self.tenant + ":" + msg.order_no, store = self.store, tx = db, scope = "methods.by_reference_to_arc")]
            async fn by_reference_to_arc(self: &Arc<Self>, msg: &Message, db: &mut Conn) -> Result<usize, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok(Arc::strong_count(self))
            }

            #[idempotent(key = self.tenant + ":" + msg.order_no, store = self.store, tx = db, scope = "methods.by_box")]
            async fn by_box(self: Box<Self>, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok(self.sold)
            }

            #[idempotent(key = self.tenant + ":" + msg.order_no, store = db, scope = "methods.by_pin")]
            async fn by_pin(mut self: Pin<&mut Self>, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                self.as_mut().sold += msg.amount;
                credit(db, "a", msg.amount).await?;
                Ok(self.sold)
            }

            #[idempotent(key = self.tenant + ":" + msg.order_no, store = db, scope = "methods.by_rc")]
            async fn by_rc(self: Rc<Self>, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok(self.sold)
            }

            #[idempotent(key = Self::KIND + ":" + msg.order_no, store = db, scope = "methods.associated")]
            async fn associated(db: &mut Conn, msg: &Message) -> Result<&'static str, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok(Self::KIND)
            }

            #[idempotent(key = self.tenant + ":" + msg.order_no, store = self.store, tx = db, retry = 2, scope = "methods.again")]
            async fn again(&self, db: &mut Conn, msg: &Message, tries: &AtomicI64) -> Result<i64, &'static str> {
                credit(db, "a", msg.amount).await.map_err(|_| "sql")?;
                let tries = tries.fetch_add(1, Ordering::SeqCst);
                if tries < 2 { Err("not yet") } else { Ok(tries) }
            }

            // A handler calls plain methods with the connection, and `Self` in its types.
            #[idempotent(key = self.tenant + ":" + msg.order_no, store = self.store, tx = db, scope = "methods.with_helpers")]
            async fn with_helpers(&self, db: &mut Conn, msg: &Message) -> <Self as Answers>::Answer {
                self.helper(db, msg).await?;
                Self::other_helper(db).await
            }

            async fn helper(&self, db: &mut Conn, msg: &Message) -> Result<(), sqlx::Error> {
                credit(db, "a", msg.amount + self.sold).await
            }

            async fn other_helper(db: &mut Conn) -> Result<i64, sqlx::Error> {
                credit(db, "b", 1).await.map(|()| 1)
            }
        }

        trait Answers { type Answer; }
        impl Answers for Shop<Db> { type Answer = Result<i64, sqlx::Error>; }

        struct Ledger<'a, C, K> {
            clock: &'a C,
            book: K,
        }

        impl<'a, C: Clock, K> Ledger<'a, C, K>
        where
            K: KeyPart<Risk = Stable> + Sync,
        {
            #[idempotent(key = self.book + ":" + entry + ":" + C::NAME, store = db, scope = "methods.post")]
            async fn post<E>(&self, db: &mut Conn, entry: &'a E, note: impl Fn(&E) -> i64) -> Result<&'a C, sqlx::Error>
            where
                E: KeyPart<Risk = Stable> + ?Sized,
            {
                credit(db, "a", self.clock.day() + note(entry)).await?;
                Ok(self.clock)
            }
        }

        // One handler for whichever database the service runs on.
        trait Book: idem_runtime::Connection {
            fn add(&mut self, account: &str) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
        }

        impl Book for Conn {
            async fn add(&mut self, account: &str) -> Result<(), sqlx::Error> {
                credit(self, account, 1).await
            }
        }

        #[idempotent(key = account + ":" + order, store = db, scope = "methods.on_any_database")]
        async fn on_any_database<B: Book>(db: &mut B, account: &str, order: u64) -> Result<(), sqlx::Error> {
            db.add(account).await?;
            B::add(db, account).await
        }

        // A trait of handlers: declared as callers see it, written as the body sees it.
        trait Consumer {
            fn consume(&self, db: &Db, msg: &Message) -> impl Future<Output = Handled<Result<i64, sqlx::Error>>> + Send;

            #[allow(async_fn_in_trait)]
            async fn refund(&mut self, db: &Db, msg: &Message) -> Handled<Result<i64, sqlx::Error>>;

            // A provided method that others may replace.
            #[allow(async_fn_in_trait)]
            #[idempotent(key = msg.order_no, store = db, scope = "methods.provided")]
            async fn provided(&self, db: &mut Conn, msg: &Message) -> Result<&'static str, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok("provided")
            }
        }

        impl Consumer for Shop<Db> {
            #[idempotent(key = self.tenant + ":" + msg.order_no, store = db, scope = "shop.consume")]
            async fn consume(&self, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                Ok(msg.amount)
            }

            #[idempotent(key = self.tenant + ":" + msg.order_no, store = db, scope = "shop.refund")]
            async fn refund(&mut self, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                self.sold -= msg.amount;
                credit(db, "a", -msg.amount).await?;
                Ok(self.sold)
            }
        }

        impl Consumer for Fixed {
            #[idempotent(key = msg.order_no, store = db, scope = "fixed.consume")]
            async fn consume(&self, db: &mut Conn, msg: &Message) -> Result<i64, sqlx::Error> {
                credit(db, "b", self.0).await?;
                Ok(self.0)
            }

            async fn refund(&mut self, _: &Db, _: &Message) -> Handled<Result<i64, sqlx::Error>> {
                Err(idem_runtime::Error::Body(sqlx::Error::RowNotFound))
            }

            #[idempotent(key = msg.order_no, store = db, scope = "fixed.provided")]
            async fn provided(&self, db: &mut Conn, msg: &Message) -> Result<&'static str, sqlx::Error> {
                credit(db, "b", msg.amount).await?;
                Ok("replaced")
            }
        }

        async fn consume_by<C: Consumer + Sync>(consumer: &C, store: &Db, order: &str) -> Handled<Result<i64, sqlx::Error>> {
            consumer.consume(store, &message(order)).await
        }

        // `#[async_trait]` rewrites methods before `#[idempotent]` sees them: its methods call inherent ones.
        #[async_trait]
        trait Listener: Send + Sync {
            async fn on(&self, msg: Message) -> Handled<Result<i64, sqlx::Error>>;
        }

        #[async_trait]
        impl Listener for Shop<Db> {
            async fn on(&self, msg: Message) -> Handled<Result<i64, sqlx::Error>> {
                self.by_reference(&msg).await
            }
        }

        // Above and below `#[instrument]`.
        impl Shop<Db> {
            #[tracing::instrument(skip_all, fields(order = msg.order_no), err(Debug))]
            #[idempotent(key = msg.order_no, store = db, scope = "methods.traced_above")]
            async fn traced_above(&self, db: &mut Conn, msg: &Message, fail: bool) -> Result<i64, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                if fail { Err(sqlx::Error::RowNotFound) } else { Ok(self.sold) }
            }

            #[idempotent(key = msg.order_no, store = db, scope = "methods.traced_below")]
            #[tracing::instrument(skip_all, fields(order = msg.order_no), err)]
            async fn traced_below(&self, db: &mut Conn, msg: &Message, fail: bool) -> Result<i64, sqlx::Error> {
                credit(db, "a", msg.amount).await?;
                if fail { Err(sqlx::Error::RowNotFound) } else { Ok(self.sold) }
            }
        }
    }

    async fn every_receiver_reaches_its_own_fields(lab: Lab) {
        let msg = message("o-1");
        assert_eq!(first(shop(&lab, "t").by_reference(&msg).await), 0);
        repeat(shop(&lab, "t").by_reference(&msg).await);
        let mut changed = shop(&lab, "t");
        assert_eq!(first(changed.by_mutable_reference(&lab.store, &msg).await), 5);
        repeat(changed.by_mutable_reference(&lab.store, &msg).await);
        assert_eq!(changed.sold, 5, "a body that did not run changed its receiver");
        assert_eq!(first(shop(&lab, "t").by_value(msg.clone()).await).sold, 4);
        repeat(shop(&lab, "t").by_value(msg.clone()).await);
        let shared = Arc::new(shop(&lab, "t"));
        assert!(Arc::ptr_eq(&first(Arc::clone(&shared).by_arc(msg.clone()).await), &shared));
        repeat(Arc::clone(&shared).by_arc(msg.clone()).await);
        assert_eq!(first(shared.by_reference_to_arc(&msg).await), 1);
        repeat(shared.by_reference_to_arc(&msg).await);
        assert_eq!(first(Box::new(shop(&lab, "t")).by_box(&msg).await), 0);
        repeat(Box::new(shop(&lab, "t")).by_box(&msg).await);
        let mut pinned = shop(&lab, "t");
        assert_eq!(first(Pin::new(&mut pinned).by_pin(&lab.store, &msg).await), 4);
        repeat(Pin::new(&mut pinned).by_pin(&lab.store, &msg).await);
        assert_eq!(first(Rc::new(shop(&lab, "t")).by_rc(&lab.store, &msg).await), 0);
        repeat(Rc::new(shop(&lab, "t")).by_rc(&lab.store, &msg).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (8 * 4, 8));
    }

    async fn the_key_reaches_self_and_constants_of_the_type(lab: Lab) {
        let msg = message("o-1");
        first(shop(&lab, "t").by_reference(&msg).await);
        first(shop(&lab, "u").by_reference(&msg).await);
        repeat(shop(&lab, "u").by_reference(&msg).await);
        let sql = "SELECT count(*) FROM idem_records WHERE action_key IN ('t:sale:o-1', 'u:sale:o-1')";
        assert_eq!(lab.number(sql).await, 2);
        assert_eq!(first(Shop::associated(&lab.store, &msg).await), "sale");
        repeat(Shop::associated(&lab.store, &msg).await);
        assert_eq!(lab.number("SELECT count(*) FROM idem_records WHERE action_key = 'sale:o-1'").await, 1);
        assert_eq!(lab.balance("a").await, 12);
    }

    async fn a_method_may_run_again(lab: Lab) {
        let tries = AtomicI64::new(0);
        assert_eq!(first(shop(&lab, "t").again(&message("o-1"), &tries).await), 2);
        repeat(shop(&lab, "t").again(&message("o-1"), &tries).await);
        assert_eq!(failed(shop(&lab, "t").again(&message("o-2"), &AtomicI64::new(-9)).await), "not yet");
        assert_eq!((lab.balance("a").await, lab.claims().await), (4, 1));
    }

    async fn a_method_calls_its_helpers_on_the_unit(lab: Lab) {
        assert_eq!(first(shop(&lab, "t").with_helpers(&message("o-1")).await), 1);
        repeat(shop(&lab, "t").with_helpers(&message("o-1")).await);
        assert_eq!((lab.balance("a").await, lab.balance("b").await), (4, 1));
    }

    async fn a_generic_impl_with_lifetimes_keeps_its_bounds(lab: Lab) {
        let clock = Fixed(5);
        let ledger = Ledger { clock: &clock, book: 9_u64 };
        assert_eq!(first(ledger.post(&lab.store, "entry", |entry| i64::try_from(entry.len()).unwrap()).await).0, 5);
        repeat(ledger.post(&lab.store, "entry", |_| 1).await);
        assert_eq!(first(ledger.post(&lab.store, &17_u8, |entry| i64::from(*entry)).await).0, 5);
        assert_eq!(lab.balance("a").await, 10 + 22);
        let sql = "SELECT count(*) FROM idem_records WHERE action_key IN ('9:entry:fixed', '9:17:fixed')";
        assert_eq!(lab.number(sql).await, 2);
    }

    async fn a_handler_may_be_generic_over_the_database(lab: Lab) {
        first(on_any_database(&lab.store, "a", 1).await);
        repeat(on_any_database(&lab.store, "a", 1).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 1));
    }

    async fn a_handler_may_stand_inside_a_function(lab: Lab) {
        #[idempotent(key = order, store = db)]
        async fn inside(db: &mut Conn, order: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        first(inside(&lab.store, "o-1").await);
        repeat(inside(&lab.store, "o-1").await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
    }

    async fn a_trait_of_handlers_is_implemented_with_the_attribute(lab: Lab) {
        let mut shop = shop(&lab, "t");
        assert_eq!(first(consume_by(&shop, &lab.store, "o-1").await), 4);
        repeat(consume_by(&shop, &lab.store, "o-1").await);
        assert_eq!(first(consume_by(&Fixed(3), &lab.store, "o-1").await), 3);
        repeat(consume_by(&Fixed(3), &lab.store, "o-1").await);
        assert_eq!((lab.balance("a").await, lab.balance("b").await), (4, 3));
        assert_eq!(first(shop.refund(&lab.store, &message("o-1")).await), -4);
        repeat(shop.refund(&lab.store, &message("o-1")).await);
        assert_eq!((shop.sold, lab.balance("a").await), (-4, 0));
        assert!(matches!(failed(Fixed(3).refund(&lab.store, &message("o-1")).await), sqlx::Error::RowNotFound));
    }

    async fn a_provided_method_is_inherited_or_replaced(lab: Lab) {
        assert_eq!(first(shop(&lab, "t").provided(&lab.store, &message("o-1")).await), "provided");
        repeat(shop(&lab, "u").provided(&lab.store, &message("o-1")).await);
        assert_eq!(first(Fixed(3).provided(&lab.store, &message("o-1")).await), "replaced");
        repeat(Fixed(3).provided(&lab.store, &message("o-1")).await);
        assert_eq!((lab.balance("a").await, lab.balance("b").await), (4, 4));
    }

    async fn an_async_trait_calls_inherent_handlers(lab: Lab) {
        let listeners: Vec<Arc<dyn Listener>> = vec![Arc::new(shop(&lab, "t")), Arc::new(shop(&lab, "u"))];
        for listener in &listeners {
            let twice = Arc::clone(listener);
            assert_eq!(first(listener.on(message("o-1")).await), 0);
            repeat(tokio::spawn(async move { twice.on(message("o-1")).await }).await.unwrap());
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (8, 2));
    }

    async fn instrument_stands_above_or_below(lab: Lab) {
        let (shop, msg) = (shop(&lab, "t"), message("o-1"));
        assert!(matches!(failed(shop.traced_above(&lab.store, &msg, true).await), sqlx::Error::RowNotFound));
        assert!(matches!(failed(shop.traced_below(&lab.store, &msg, true).await), sqlx::Error::RowNotFound));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(first(shop.traced_above(&lab.store, &msg, false).await), 0);
        repeat(shop.traced_above(&lab.store, &msg, false).await);
        assert_eq!(first(shop.traced_below(&lab.store, &msg, false).await), 0);
        repeat(shop.traced_below(&lab.store, &msg, false).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (8, 2));
    }
}
