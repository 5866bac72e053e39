//! Points: a flow table and balances in one unit. The flow's own unique index is the claim.

mod book;
mod handlers;
mod message;
mod unprotected;

use self::{
    book::{SCHEMA, SCHEMA_WITHOUT_INDEX, disagreements},
    message::Message,
};
use crate::story::{self, Answer, Options, Scene, StoryError, at_once, json_lines};
use idem_runtime::SqliteStore;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::Path,
    sync::Arc,
};
use tokio::sync::Barrier;

/// The acts: file, title, what happens.
const ACTS: [(&str, &str, &str); 4] = [
    (
        "1-redelivered.jsonl",
        "Redelivered",
        "Orders bring points, and a transfer moves some: one number, two accounts, two facts.",
    ),
    ("2-at-once.jsonl", "At once", "Ten orders of one member, each delivered twice, all at the same moment."),
    (
        "3-too-early.jsonl",
        "Too early",
        "Points for an account that is not open yet: the flow row goes back with the unit.",
    ),
    ("4-spent.jsonl", "Spent", "A coupon costs more than there is; after another order the same message runs."),
];

/// One book of points, and which handlers write it.
#[derive(Clone, Debug)]
struct Book {
    store: SqliteStore,
    guarded: bool,
}

impl Book {
    async fn open(file: &Path, guarded: bool) -> Result<Self, StoryError> {
        let schema = if guarded { SCHEMA } else { SCHEMA_WITHOUT_INDEX };
        Ok(Self { store: story::open(file, schema).await?, guarded })
    }

    async fn deliver(&self, msg: &Message, meet: &Barrier) -> Answer {
        match (self.guarded, msg) {
            (true, Message::Move(msg)) => handlers::move_points(&self.store, msg).await.into(),
            (true, Message::Open(msg)) => handlers::open(&self.store, msg).await.into(),
            (false, Message::Move(msg)) => Answer::plain(unprotected::move_points(self.store.pool(), msg, meet).await),
            (false, Message::Open(msg)) => Answer::plain(unprotected::open(self.store.pool(), msg).await),
        }
    }

    async fn deliver_at_once(&self, messages: &[Message]) -> Result<Vec<Answer>, StoryError> {
        let meet = Arc::new(Barrier::new(messages.len()));
        at_once(messages.iter().map(|msg| {
            let (book, msg, meet) = (self.clone(), msg.clone(), Arc::clone(&meet));
            async move { book.deliver(&msg, &meet).await }
        }))
        .await
    }

    async fn balances(&self) -> Result<BTreeMap<String, i64>, StoryError> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT account, points FROM points_balance").fetch_all(self.store.pool()).await?;
        Ok(rows.into_iter().collect())
    }

    async fn nightly_check(&self) -> Result<Vec<String>, StoryError> {
        Ok(disagreements(&mut *self.store.pool().acquire().await?).await?)
    }
}

/// Tells the story. True when idem's points are right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("points", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let with = Book::open(&folder.join("with-idem.db"), !options.unprotected).await?;
    let without = Book::open(&folder.join("without-idem.db"), false).await?;
    let says = ["The messages of a points topic go to two books: one with an INSERT guard, one without anything."];
    scene.opening("Points on embedded SQLite", &says)?;
    let alone = Barrier::new(1);
    let mut delivered = Vec::new();
    for (nth, (file, title, says)) in ACTS.into_iter().enumerate() {
        scene.act(title, says)?;
        let messages = json_lines::<Message>(&options.data.join(file))?;
        if nth == 1 {
            let (first, last) =
                (messages.first().map_or(0, Message::offset), messages.last().map_or(0, Message::offset));
            let (with, without) = (with.deliver_at_once(&messages).await?, without.deliver_at_once(&messages).await?);
            let what = format!("{} deliveries", messages.len());
            scene.delivery(format!("{first} to {last}"), what, Answer::sum(&with), Answer::sum(&without))?;
        } else {
            for msg in &messages {
                let (with, without) = (with.deliver(msg, &alone).await, without.deliver(msg, &alone).await);
                scene.delivery(format!("offset {}", msg.offset()), msg.fact(), with, without)?;
            }
        }
        delivered.extend(messages);
    }
    let named = nightly(&with, &without, scene).await?;

    let flow = "points_flow WHERE biz_no NOT LIKE 'ORDER:SO3%' ORDER BY account, biz_no";
    let title = "points_flow of the first book, without the ten orders; idem_records is empty";
    scene.table(&with.store, title, flow, &["account", "biz_no", "points"]).await?;
    scene.comparison("Points")?;
    let (in_with, in_without, none) = (with.balances().await?, without.balances().await?, 0);
    for (account, right) in &right(&delivered) {
        let what = format!("balance of {account}");
        let (with, without) = (in_with.get(account).unwrap_or(&none), in_without.get(account).unwrap_or(&none));
        scene.compare(&what, right, with, without)?;
    }
    scene.compare("accounts that the nightly check names", &0, &named.0, &named.1)?;
    let records: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM idem_records").fetch_one(with.store.pool()).await?;
    scene.compare("rows in idem_records", &0, &records, &0)?;
    scene.verdict("every balance is the sum of its flow, and every fact is in the flow once.")
}

/// Runs the nightly check on both, and shows that it notices.
async fn nightly<W: Write>(with: &Book, without: &Book, scene: &mut Scene<W>) -> Result<(usize, usize), StoryError> {
    scene.says("")?;
    scene.says("The nightly check: balances that are not the sum of their flow.")?;
    let (named_with, named_without) = (with.nightly_check().await?, without.nightly_check().await?);
    for (side, named) in [("with idem", &named_with), ("without", &named_without)] {
        let named_text = if named.is_empty() { "none".to_owned() } else { named.join("; ") };
        scene.says(&format!("   {side:24}{named_text}"))?;
    }
    let mut tx = with.store.pool().begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("UPDATE points_balance SET points = points + 1 WHERE account = 'M-7'").execute(&mut *tx).await?;
    let by_hand = disagreements(&mut tx).await?;
    tx.rollback().await?;
    scene.says(&format!("   {:24}{}", "after a change by hand", by_hand.join("; ")))?;
    Ok((named_with.len(), named_without.len()))
}

/// The balances that should come out, from the data alone: one account moves for one reason once.
fn right(delivered: &[Message]) -> BTreeMap<String, i64> {
    let mut balances = BTreeMap::new();
    let mut facts = BTreeSet::new();
    for msg in delivered {
        if let Message::Move(msg) = msg
            && facts.insert((&msg.account, &msg.biz_no))
        {
            *balances.entry(msg.account.clone()).or_insert(0) += msg.points;
        }
    }
    balances
}
