//! The double deduction: a consumer of RabbitMQ commits, its ack is lost, and the message comes again.

mod handlers;

use self::handlers::{Deduct, DeductError, SCHEMA, on_deduct, on_deduct_checking, on_deduct_trusting};
use crate::{
    broker::Queue,
    money::Cents,
    story::{self, Options, Scene, StoryError, json_lines},
};
use idem_runtime::{Error, Outcome, SqliteStore};
use serde::Deserialize;
use std::{collections::BTreeMap, io::Write, path::Path};
use tokio::sync::Barrier;

/// What an account holds when the story begins.
#[derive(Debug, Deserialize)]
struct Opening {
    account: String,
    cents: i64,
}

/// Which handler takes the messages.
#[derive(Clone, Copy, Debug)]
enum Handler {
    WithIdem,
    Trusting,
    Checking,
}

/// One bank: its books, and its queue.
#[derive(Debug)]
struct Bank {
    books: SqliteStore,
    queue: Queue,
    guarded: bool,
}

impl Bank {
    async fn open(folder: &Path, side: &str, guarded: bool, accounts: &[Opening]) -> Result<Self, StoryError> {
        let queue = Queue::create(side).await?;
        let books = story::open(&folder.join(format!("{side}.db")), SCHEMA).await?;
        for Opening { account, cents } in accounts {
            let insert = sqlx::query("INSERT INTO accounts (name, cents) VALUES (?, ?)").bind(account).bind(cents);
            insert.execute(books.pool()).await?;
        }
        Ok(Self { books, queue, guarded })
    }

    /// Sends the messages, and consumes until two deliveries were handled. So many acks get lost on the way.
    /// Tells what the deliveries came to.
    async fn consume(&self, messages: &[Deduct], without: Handler, lost: usize) -> Result<String, StoryError> {
        let handler = if self.guarded { Handler::WithIdem } else { without };
        self.queue.send(messages).await?;
        let moment = Barrier::new(2);
        let handle = async |message: &Deduct| self.handle(handler, message, &moment).await;
        let answers = self.queue.consume(&self.books, 2, lost, handle).await?.join(", ");
        // A handler without idem knows no first time.
        Ok(if self.guarded { answers } else { answers.replace("first", "done") })
    }

    async fn handle(
        &self,
        handler: Handler,
        message: &Deduct,
        moment: &Barrier,
    ) -> Result<Outcome<()>, Error<DeductError>> {
        let books = self.books.pool();
        let done = match handler {
            Handler::WithIdem => return on_deduct(&self.books, message).await,
            Handler::Trusting => on_deduct_trusting(books, message).await,
            Handler::Checking => on_deduct_checking(books, message, moment).await,
        };
        // The consumer acks what is done.
        done.map(Outcome::First).map_err(Error::Body)
    }

    async fn balance(&self, account: &str) -> Result<Cents, StoryError> {
        let cents = sqlx::query_scalar("SELECT cents FROM accounts WHERE name = ?").bind(account);
        Ok(Cents::new(cents.fetch_one(self.books.pool()).await?))
    }

    async fn deductions(&self) -> Result<i64, StoryError> {
        Ok(sqlx::query_scalar("SELECT COUNT(*) FROM deductions").fetch_one(self.books.pool()).await?)
    }
}

/// Tells the story. True when the balances with idem are right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("double-deduction", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let accounts: Vec<Opening> = json_lines(&options.data.join("0-accounts.jsonl"))?;
    let lost: Vec<Deduct> = json_lines(&options.data.join("1-ack-lost.jsonl"))?;
    let twice: Vec<Deduct> = json_lines(&options.data.join("2-sent-twice.jsonl"))?;
    let with = Bank::open(folder, "with-idem", !options.unprotected, &accounts).await?;
    let without = Bank::open(folder, "without-idem", false, &accounts).await?;
    let told = acts(scene, &with, &without, (&lost, &twice)).await;
    let deleted = with.queue.delete().await.and(without.queue.delete().await);
    told.and(deleted)?;

    let columns = ["scope", "action_key"];
    scene.table(&with.books, "idem_records of the first bank", "idem_records ORDER BY action_key", &columns).await?;
    let meant: BTreeMap<&str, &Deduct> =
        lost.iter().chain(&twice).map(|message| (&*message.order_no, message)).collect();
    scene.comparison("Balances")?;
    for Opening { account, cents } in &accounts {
        let taken: i64 =
            meant.values().filter(|message| message.account == *account).map(|message| message.cents).sum();
        let (in_with, in_without) = (with.balance(account).await?, without.balance(account).await?);
        scene.compare(account, &Cents::new(cents - taken), &in_with, &in_without)?;
    }
    let right = i64::try_from(meant.len()).unwrap_or(i64::MAX);
    scene.compare("deductions", &right, &with.deductions().await?, &without.deductions().await?)?;
    scene.verdict("each order was paid once.")
}

async fn acts<W: Write>(
    scene: &mut Scene<W>,
    with: &Bank,
    without: &Bank,
    (lost, twice): (&[Deduct], &[Deduct]),
) -> Result<(), StoryError> {
    scene.opening(
        "Deductions from a RabbitMQ queue",
        &["The same consumer runs both handlers, over the same network."],
    )?;
    scene.act(
        "The ack is lost",
        "The handler commits, the connection breaks on the ack, and RabbitMQ delivers the message again.",
    )?;
    for message in lost {
        let message = std::slice::from_ref(message);
        let answers =
            (with.consume(message, Handler::Trusting, 1).await?, without.consume(message, Handler::Trusting, 1).await?);
        show(scene, "redelivered", &message[0], answers, (with, without)).await?;
    }
    scene.act(
        "Check, then insert",
        "The handler without idem has learnt to look first. A producer sends twice: both deliveries look, and see nothing.",
    )?;
    let answers =
        (with.consume(twice, Handler::Checking, 0).await?, without.consume(twice, Handler::Checking, 0).await?);
    show(scene, "at once", &twice[0], answers, (with, without)).await
}

async fn show<W: Write>(
    scene: &mut Scene<W>,
    delivery: &str,
    message: &Deduct,
    (answer, other): (String, String),
    (with, without): (&Bank, &Bank),
) -> Result<(), StoryError> {
    let what = format!("{} takes {}", message.order_no, Cents::new(message.cents));
    let left = (with.balance(&message.account).await?, without.balance(&message.account).await?);
    scene.delivery(delivery, what, format!("{answer}: {}", left.0), format!("{other}: {}", left.1))
}
