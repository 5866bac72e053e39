//! Events out of order: a body that declines, a state machine, and versions.

mod event;
mod handlers;
mod unprotected;

use self::{
    event::{Event, Kind},
    handlers::{SCHEMA, on_address, on_created, on_paid, on_wait_pay},
};
use crate::story::{self, Answer, Options, Scene, StoryError, json_lines};
use idem_runtime::{Advice, SqliteStore};
use std::{
    collections::{BTreeMap, VecDeque},
    io::Write,
    path::Path,
};

/// A broker gives up after so many deliveries.
const MOST_DELIVERIES: usize = 5;

/// The acts: file, title, what happens.
const ACTS: [(&str, &str, &str); 3] = [
    (
        "1-paid-before-created.jsonl",
        "Paid before created",
        "The payment is faster than the order. The body declines, and the broker delivers it again.",
    ),
    (
        "2-late-wait-pay.jsonl",
        "Late WAIT_PAY",
        "The payment page was opened before the order was paid, and the event comes after it.",
    ),
    ("3-versions.jsonl", "Versions", "The address changes: v7 arrives, then v5, v7 once more, v8, and v5 once more."),
];

/// The orders of one side.
#[derive(Clone, Debug)]
struct Orders {
    store: SqliteStore,
    guarded: bool,
}

impl Orders {
    async fn open(file: &Path, guarded: bool) -> Result<Self, StoryError> {
        Ok(Self { store: story::open(file, SCHEMA).await?, guarded })
    }

    async fn deliver(&self, event: &Event) -> Answer {
        let Event { offset, order_no, kind, .. } = event;
        let store = &self.store;
        match kind {
            _ if !self.guarded => Answer::plain(unprotected::apply(store.pool(), event).await),
            Kind::Created => on_created(store, order_no, *offset).await.into(),
            Kind::WaitPay => on_wait_pay(store, order_no, *offset).await.into(),
            Kind::Paid => on_paid(store, order_no, *offset).await.into(),
            Kind::Address { version, address } => on_address(store, order_no, *version, address, *offset).await.into(),
        }
    }

    /// Status and address of each order.
    async fn all(&self) -> Result<BTreeMap<String, (String, String)>, StoryError> {
        let rows: Vec<(String, String, String)> =
            sqlx::query_as("SELECT order_no, status, address FROM orders").fetch_all(self.store.pool()).await?;
        Ok(rows.into_iter().map(|(order_no, status, address)| (order_no, (status, address))).collect())
    }
}

/// Tells the story. True when idem's orders are right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("order-events", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let with = Orders::open(&folder.join("with-idem.db"), !options.unprotected).await?;
    let without = Orders::open(&folder.join("without-idem.db"), false).await?;
    let says = [
        "The events of an order topic, as they arrive, go to two sets of handlers. What idem asks to see again comes again.",
    ];
    scene.opening("Events out of order on embedded SQLite", &says)?;
    let mut delivered = Vec::new();
    for (file, title, says) in ACTS {
        scene.act(title, says)?;
        let events = json_lines::<Event>(&options.data.join(file))?;
        play(&with, &without, &events, scene).await?;
        delivered.extend(events);
    }

    let records = "idem_records ORDER BY scope, action_key";
    scene
        .table(&with.store, "idem_records of the first side", records, &["scope", "action_key", "delivery_id"])
        .await?;
    let orders = ["order_no", "status", "address", "address_version"];
    scene.table(&with.store, "orders next to it", "orders ORDER BY order_no", &orders).await?;
    let (in_with, in_without) = (with.all().await?, without.all().await?);
    scene.comparison("Orders")?;
    let none = (String::new(), String::new());
    for (order_no, (status, address)) in &right(&delivered) {
        let with = in_with.get(order_no).unwrap_or(&none);
        let without = in_without.get(order_no).unwrap_or(&none);
        scene.compare(&format!("status of {order_no}"), status, &with.0, &without.0)?;
        if !address.is_empty() {
            scene.compare(&format!("address of {order_no}"), address, &with.1, &without.1)?;
        }
    }
    scene.verdict("every order is where its last event left it, whatever came first.")
}

/// A broker in small: what is to be retried comes again behind the rest.
async fn play<W: Write>(
    with: &Orders,
    without: &Orders,
    events: &[Event],
    scene: &mut Scene<W>,
) -> Result<(), StoryError> {
    let mut queue: VecDeque<(&Event, usize)> = events.iter().map(|event| (event, 1)).collect();
    while let Some((event, nth)) = queue.pop_front() {
        let answer = with.deliver(event).await;
        if answer.advice == Advice::RetryLater && nth < MOST_DELIVERIES {
            queue.push_back((event, nth + 1));
        }
        let at = format!("offset {}", event.offset);
        if nth == 1 {
            scene.delivery(at, event.fact(), answer, without.deliver(event).await)?;
        } else {
            // The other side said that all was well, so nobody delivers it there again.
            scene.delivery(at, format!("{} again", event.fact()), answer, "(acked before)")?;
        }
    }
    Ok(())
}

/// Where the orders should be, from the data alone: where the last event of each kind left them, as the sender counted.
fn right(events: &[Event]) -> BTreeMap<String, (String, String)> {
    let mut in_order: Vec<&Event> = events.iter().collect();
    in_order.sort_by_key(|event| event.seq);
    let mut orders: BTreeMap<String, (String, String)> = BTreeMap::new();
    for event in in_order {
        let (status, at) = orders.entry(event.order_no.clone()).or_default();
        match &event.kind {
            Kind::Created => *status = "NEW".into(),
            Kind::WaitPay => *status = "WAIT_PAY".into(),
            Kind::Paid => *status = "PAID".into(),
            Kind::Address { address, .. } => at.clone_from(address),
        }
    }
    orders
}
