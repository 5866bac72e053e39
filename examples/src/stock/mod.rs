//! Stock deduction: a conditional update and a flow record in one unit, recognised by order line.

mod handlers;
mod message;
mod warehouse;

use self::{
    message::{Deduct, Message},
    warehouse::{Left, SCHEMA, StockError, put, put_back, take},
};
use crate::story::{self, Answer, Options, Scene, StoryError, at_once, json_lines};
use idem_runtime::SqliteStore;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::Path,
};

const COPIES: usize = 8;

/// The acts: file, title, what happens.
const ACTS: [(&str, &str, &str); 5] = [
    (
        "1-two-sizes.jsonl",
        "Two sizes",
        "One order takes a shirt in two sizes, another the same mug twice. All lines come again.",
    ),
    ("2-at-once.jsonl", "At once", "8 copies of one order line arrive at the same moment."),
    (
        "3-out-of-stock.jsonl",
        "Out of stock",
        "The caps do not suffice: nothing is claimed. After a delivery truck the same message runs.",
    ),
    ("4-returned.jsonl", "Returned", "One shirt comes back: a fact with a number of its own. The notice comes twice."),
    (
        "5-another-quantity.jsonl",
        "Another quantity",
        "A known order line arrives with another quantity: a mistake, and no repeat.",
    ),
];

/// What lies in the warehouse at first.
#[derive(Debug, Deserialize)]
struct Article {
    sku: String,
    count: i64,
}

/// One warehouse, and which handlers work in it.
#[derive(Clone, Debug)]
struct Warehouse {
    store: SqliteStore,
    guarded: bool,
}

impl Warehouse {
    async fn open(file: &Path, guarded: bool, articles: &[Article]) -> Result<Self, StoryError> {
        let store = story::open(file, SCHEMA).await?;
        for Article { sku, count } in articles {
            let insert = sqlx::query("INSERT INTO stock (sku, count) VALUES (?, ?)");
            insert.bind(sku).bind(count).execute(store.pool()).await?;
        }
        Ok(Self { store, guarded })
    }

    async fn deliver(&self, msg: &Message) -> Answer {
        match msg {
            _ if !self.guarded => Answer::plain(self.unprotected(msg).await),
            Message::Deduct(msg) => handlers::deduct(&self.store, msg).await.into(),
            Message::Return(msg) => handlers::give_back(&self.store, msg).await.into(),
            Message::Receive(msg) => handlers::receive(&self.store, msg).await.into(),
        }
    }

    /// The same bodies, each in a plain transaction.
    async fn unprotected(&self, msg: &Message) -> Result<Left, StockError> {
        let mut tx = self.store.pool().begin_with("BEGIN IMMEDIATE").await?;
        let left = match msg {
            Message::Deduct(msg) => take(&mut tx, msg).await?,
            Message::Return(msg) => put_back(&mut tx, msg).await?,
            Message::Receive(msg) => put(&mut tx, &msg.sku, msg.quantity, &msg.receipt_no).await?,
        };
        tx.commit().await?;
        Ok(left)
    }

    async fn deliver_at_once(&self, msg: &Message) -> Result<Vec<Answer>, StoryError> {
        at_once((0..COPIES).map(|_| {
            let (warehouse, msg) = (self.clone(), msg.clone());
            async move { warehouse.deliver(&msg).await }
        }))
        .await
    }

    async fn counts(&self) -> Result<BTreeMap<String, i64>, StoryError> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT sku, count FROM stock").fetch_all(self.store.pool()).await?;
        Ok(rows.into_iter().collect())
    }

    /// What the journal adds up to.
    async fn flow(&self) -> Result<i64, StoryError> {
        Ok(sqlx::query_scalar("SELECT COALESCE(SUM(change), 0) FROM stock_flow").fetch_one(self.store.pool()).await?)
    }
}

/// Tells the story. True when idem's stock is right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("stock", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let articles: Vec<Article> = json_lines(&options.data.join("0-opening-stock.jsonl"))?;
    let with = Warehouse::open(&folder.join("with-idem.db"), !options.unprotected, &articles).await?;
    let without = Warehouse::open(&folder.join("without-idem.db"), false, &articles).await?;
    let says = ["The messages of a warehouse topic go to the same bodies twice: with #[idempotent], and without it."];
    scene.opening("Stock deduction on embedded SQLite", &says)?;
    let mut delivered = Vec::new();
    for (nth, (file, title, says)) in ACTS.into_iter().enumerate() {
        scene.act(title, says)?;
        for msg in json_lines::<Message>(&options.data.join(file))? {
            let at = format!("offset {}", msg.offset());
            if nth == 1 {
                let (with, without) = (with.deliver_at_once(&msg).await?, without.deliver_at_once(&msg).await?);
                scene.delivery(at, msg.fact(), Answer::sum(&with), Answer::sum(&without))?;
            } else {
                let (with, without) = (with.deliver(&msg).await, without.deliver(&msg).await);
                scene.delivery(at, msg.fact(), with, without)?;
            }
            delivered.push(msg);
        }
    }
    too_short(&folder.join("too-short.db"), &articles, &delivered, scene).await?;

    let records = "idem_records ORDER BY scope, action_key";
    scene
        .table(&with.store, "idem_records of the first warehouse", records, &["scope", "action_key", "delivery_id"])
        .await?;
    scene.table(&with.store, "stock_flow next to it", "stock_flow ORDER BY id", &["sku", "change", "cause"]).await?;
    let right = right(&articles, &delivered);
    let (in_with, in_without) = (with.counts().await?, without.counts().await?);
    scene.comparison("In stock")?;
    let none = 0;
    for (sku, right) in &right {
        scene.compare(sku, right, in_with.get(sku).unwrap_or(&none), in_without.get(sku).unwrap_or(&none))?;
    }
    let opening: i64 = articles.iter().map(|article| article.count).sum();
    let total: i64 = right.values().sum();
    let flow = (with.flow().await?, without.flow().await?);
    scene.compare("all, by the flow", &total, &(opening + flow.0), &(opening + flow.1))?;
    scene.verdict("every line took once, whatever came again, and the flow explains the stock.")
}

/// What a key without the line does: it takes the second size for a repeat of the first.
async fn too_short<W: Write>(
    file: &Path,
    articles: &[Article],
    delivered: &[Message],
    scene: &mut Scene<W>,
) -> Result<(), StoryError> {
    let shop = Warehouse::open(file, true, articles).await?;
    scene.act(
        "A key that is too short",
        "The first order again, elsewhere, with `key = msg.order_no`: the second size is lost.",
    )?;
    let lines: Vec<&Deduct> =
        delivered.iter().filter_map(|msg| if let Message::Deduct(msg) = msg { Some(msg) } else { None }).collect();
    let Some(first) = lines.first() else { return Ok(()) };
    let mut seen = BTreeSet::new();
    for msg in lines.iter().filter(|msg| msg.order_no == first.order_no && seen.insert(msg.line_no)) {
        let answer: Answer = handlers::deduct_by_order(&shop.store, msg).await.into();
        let fact = Message::Deduct((*msg).clone()).fact();
        scene.delivery(format!("offset {}", msg.offset), fact, answer, "")?;
    }
    Ok(())
}

/// What should be in stock, from the data alone: each fact counts once, as it came first.
fn right(articles: &[Article], delivered: &[Message]) -> BTreeMap<String, i64> {
    let mut counts: BTreeMap<String, i64> = articles.iter().map(|a| (a.sku.clone(), a.count)).collect();
    let mut facts = BTreeSet::new();
    for msg in delivered {
        let (fact, sku, change) = msg.change();
        if facts.insert(fact) {
            *counts.entry(sku.into()).or_default() += change;
        }
    }
    counts
}
