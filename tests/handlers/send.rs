//! A handler's future is `Send` when its body is: it can be spawned, boxed as `dyn Future`, kept in a registry, and
//! returned from traits. When the body is not, it still runs on one thread. Cases C45 and C52, as consumers use them.

use crate::{first, repeat};
use async_trait::async_trait;
use idem_runtime::{Error, Handled, Outcome, idempotent};
use std::{cell::RefCell, collections::BTreeMap, error, pin::Pin, rc::Rc, sync::Arc};

#[derive(Clone, Debug)]
pub struct Message {
    pub order_no: String,
}

fn message(order_no: &str) -> Message {
    Message { order_no: order_no.into() }
}

type BoxedError = Box<dyn error::Error + Send + Sync>;
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Registered<S> = Box<dyn Fn(S, Message) -> Boxed<'static, Result<bool, BoxedError>> + Send + Sync>;

/// Compiles only for what can be sent to another thread.
fn send<T: Send>(value: T) -> T {
    value
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = msg.order_no, store = db)]
        async fn owned(db: &mut Conn, msg: Message) -> Result<String, BoxedError> {
            credit(db, "a", 1).await?;
            tokio::task::yield_now().await;
            Ok(msg.order_no)
        }

        #[idempotent(key = msg.order_no, store = db, retry = 1)]
        async fn borrowed(db: &mut Conn, msg: &Message) -> Result<String, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(msg.order_no.clone())
        }

        #[idempotent(key = "msg.order_no + ':' + msg.order_no.len()", store = db, scope = "send.generic")]
        async fn generic<T: Send>(db: &mut Conn, msg: &Message, with: T) -> Result<T, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(with)
        }

        // Not `Send`: it holds an `Rc` over an await.
        #[idempotent(key = msg.order_no, store = db)]
        async fn on_one_thread(db: &mut Conn, msg: &Message, log: Rc<RefCell<Vec<String>>>) -> Result<Rc<str>, sqlx::Error> {
            credit(db, "a", 1).await?;
            log.borrow_mut().push(msg.order_no.clone());
            Ok(msg.order_no.as_str().into())
        }

        #[derive(Clone)]
        struct Service {
            store: Db,
        }

        impl Service {
            #[idempotent(key = msg.order_no, store = self.store, tx = db, scope = "send.on_paid")]
            async fn on_paid(&self, db: &mut Conn, msg: Message) -> Result<(), sqlx::Error> {
                credit(db, "a", 1).await?;
                drop(msg);
                Ok(())
            }

            #[idempotent(key = msg.order_no, store = self.store, tx = db, retry = 1, scope = "send.on_closed")]
            async fn on_closed(self: Arc<Self>, db: &mut Conn, msg: Message) -> Result<usize, sqlx::Error> {
                credit(db, "a", 1).await?;
                Ok(msg.order_no.len())
            }
        }

        trait Handler: Send + Sync + 'static {
            fn handle(&self, msg: Message) -> impl Future<Output = Handled<Result<(), sqlx::Error>>> + Send;
        }

        impl Handler for Service {
            async fn handle(&self, msg: Message) -> Handled<Result<(), sqlx::Error>> {
                self.on_paid(msg).await
            }
        }

        #[async_trait]
        trait Listener: Send + Sync {
            async fn on(&self, msg: &Message) -> Result<bool, BoxedError>;
        }

        #[async_trait]
        impl Listener for Service {
            async fn on(&self, msg: &Message) -> Result<bool, BoxedError> {
                let paid = self.on_paid(msg.clone()).await?.is_first();
                let mine = borrowed(&self.store, msg).await?.is_first();
                Ok(paid && mine)
            }
        }

        // A native trait whose method is the handler itself, promised to be `Send`.
        trait Sends {
            fn deliver(&self, db: &Db, msg: Message) -> impl Future<Output = Handled<Result<(), sqlx::Error>>> + Send;
        }

        impl Sends for Service {
            #[idempotent(key = msg.order_no, store = db, scope = "send.deliver")]
            async fn deliver(&self, db: &mut Conn, msg: Message) -> Result<(), sqlx::Error> {
                credit(db, "a", 1).await?;
                drop(msg);
                Ok(())
            }
        }

        fn boxed<'a>(store: &'a Db, msg: &'a Message) -> Boxed<'a, Handled<Result<String, sqlx::Error>>> {
            Box::pin(borrowed(store, msg))
        }

        // Handlers by topic, as a consumer keeps them.
        fn registry() -> BTreeMap<&'static str, Registered<Db>> {
            let mut registry: BTreeMap<&'static str, Registered<Db>> = BTreeMap::new();
            registry.insert("owned", Box::new(|store, msg| Box::pin(async move {
                Ok(owned(&store, msg).await?.is_first())
            })));
            registry.insert("borrowed", Box::new(|store, msg| Box::pin(async move {
                Ok(borrowed(&store, &msg).await?.is_first())
            })));
            registry.insert("service", Box::new(|store, msg| Box::pin(async move {
                Ok(Arc::new(Service { store }).on_closed(msg).await?.is_first())
            })));
            registry
        }
    }

    async fn spawned_deliveries_of_one_action_run_it_once(lab: Lab) {
        let deliveries: Vec<_> = (0..8).map(|_| {
            let (store, service) = (lab.store.clone(), Service { store: lab.store.clone() });
            tokio::spawn(async move {
                [
                    owned(&store, message("o-1")).await.unwrap().is_first(),
                    borrowed(&store, &message("o-1")).await.unwrap().is_first(),
                    generic(&store, &message("o-1"), vec![1]).await.unwrap().is_first(),
                    service.handle(message("o-1")).await.unwrap().is_first(),
                    service.deliver(&store, message("o-1")).await.unwrap().is_first(),
                    Arc::new(service).on_closed(message("o-1")).await.unwrap().is_first(),
                ]
            })
        }).collect();
        let mut firsts = [0; 6];
        for delivery in deliveries {
            for (sum, first) in firsts.iter_mut().zip(delivery.await.unwrap()) {
                *sum += u8::from(first);
            }
        }
        assert_eq!(firsts, [1; 6]);
        assert_eq!((lab.balance("a").await, lab.claims().await), (6, 6));
    }

    async fn boxed_and_registered_handlers_are_sent_to_other_threads(lab: Lab) {
        let (store, msg) = (lab.store.clone(), message("o-1"));
        tokio::spawn(async move {
            assert_eq!(first(boxed(&store, &msg).await), "o-1");
            repeat(send(boxed(&store, &msg)).await);
        })
        .await
        .unwrap();
        let registry = Arc::new(registry());
        for is_first in [true, false] {
            for topic in ["owned", "borrowed", "service"] {
                let (registry, store) = (Arc::clone(&registry), lab.store.clone());
                let ran = tokio::spawn(async move { registry[topic](store, message("o-2")).await }).await.unwrap();
                assert_eq!(ran.unwrap(), is_first, "{topic}");
            }
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (4, 4));
    }

    async fn an_async_trait_sends_the_handlers_that_it_calls(lab: Lab) {
        let listener: Arc<dyn Listener> = Arc::new(Service { store: lab.store.clone() });
        for is_first in [true, false] {
            let listener = Arc::clone(&listener);
            let ran = tokio::spawn(async move { listener.on(&message("o-1")).await }).await.unwrap();
            assert_eq!(ran.unwrap(), is_first);
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }

    // A consumer over channels: outcome and error are sent to the task that acknowledges.
    async fn outcomes_are_sent_between_tasks(lab: Lab) {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<Result<Outcome<String>, Error<BoxedError>>>(4);
        for _ in 0..2 {
            let (store, sender) = (lab.store.clone(), sender.clone());
            tokio::spawn(async move { sender.send(owned(&store, message("o-1")).await).await });
        }
        drop(sender);
        let mut labels = Vec::new();
        while let Some(delivered) = receiver.recv().await {
            labels.push(delivered.unwrap().label());
        }
        labels.sort_unstable();
        assert_eq!(labels, ["duplicate", "first"]);
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_body_that_cannot_be_sent_runs_on_its_thread(lab: Lab) {
        let log = Rc::default();
        let local = tokio::task::LocalSet::new();
        let (store, kept) = (lab.store.clone(), Rc::clone(&log));
        let delivered = local.run_until(async move {
            tokio::task::spawn_local(async move {
                let value = first(on_one_thread(&store, &message("o-1"), Rc::clone(&kept)).await);
                repeat(on_one_thread(&store, &message("o-1"), kept).await);
                value
            })
            .await
            .unwrap()
        });
        assert_eq!(&*delivered.await, "o-1");
        assert_eq!(*log.borrow(), ["o-1"]);
        assert_eq!(lab.balance("a").await, 1);
    }
}
