//! A payment callback from HTTP through a queue to a consumer.

mod handlers;

use self::handlers::{Paid, SCHEMA, on_paid, on_paid_unprotected, read, router};
use crate::{
    broker::{Publisher, Queue},
    money::Cents,
    story::{self, Options, Scene, StoryError},
};
use axum::{body::Body, http::Request};
use idem_runtime::{Error, Outcome, SqliteStore};
use std::{fs, io::Write, path::Path};
use tower::ServiceExt as _;

/// One shop: its endpoint, its queue and its books.
#[derive(Debug)]
struct Shop {
    books: SqliteStore,
    queue: Queue,
    guarded: bool,
}

impl Shop {
    async fn open(folder: &Path, side: &str, guarded: bool) -> Result<Self, StoryError> {
        let queue = Queue::create(side).await?;
        Ok(Self { books: story::open(&folder.join(format!("{side}.db")), SCHEMA).await?, queue, guarded })
    }

    /// The platform calls. It is told what the endpoint answers.
    async fn call(&self, publisher: &Publisher, body: &str) -> Result<String, StoryError> {
        let request = Request::post("/notify/alipay").body(Body::from(body.to_owned()));
        let request = request.map_err(|_| StoryError::Request("the callback is none"))?;
        let Ok(response) = router(publisher.clone(), self.guarded).oneshot(request).await;
        Ok(response.status().as_u16().to_string())
    }

    /// The consumer takes what is in the queue.
    async fn consume(&self, deliveries: usize) -> Result<String, StoryError> {
        if deliveries == 0 {
            return Ok("nothing in the queue".into());
        }
        let handle = async |paid: &Paid| -> Result<Outcome<()>, Error<sqlx::Error>> {
            if self.guarded {
                on_paid(&self.books, paid).await
            } else {
                on_paid_unprotected(self.books.pool(), paid).await.map(Outcome::First).map_err(Error::Body)
            }
        };
        let answers = self.queue.consume(&self.books, deliveries, 0, handle).await?.join(", ");
        Ok(if self.guarded { answers } else { answers.replace("first", "done") })
    }

    /// Both calls come through, and both messages are consumed.
    async fn called_twice(&self, calls: &[String; 2]) -> Result<[String; 3], StoryError> {
        let publisher = self.queue.publisher().await?;
        let answers = [self.call(&publisher, &calls[0]).await?, self.call(&publisher, &calls[1]).await?];
        publisher.close().await?;
        let [first, second] = answers;
        Ok([first, second, self.consume(publisher.confirmed()).await?])
    }

    /// The shop has lost its broker at the first call. The platform calls again unless it was told 200.
    async fn broker_away(&self, calls: &[String; 2]) -> Result<[String; 3], StoryError> {
        let away = self.queue.publisher().await?;
        away.close().await?;
        let first = self.call(&away, &calls[0]).await?;
        let back = self.queue.publisher().await?;
        let second = if first == "200" { "no call".into() } else { self.call(&back, &calls[1]).await? };
        back.close().await?;
        Ok([first, second, self.consume(away.confirmed() + back.confirmed()).await?])
    }

    async fn credited(&self, paid: &Paid) -> Result<Cents, StoryError> {
        let sum = sqlx::query_scalar("SELECT COALESCE(SUM(cents), 0) FROM credits WHERE out_trade_no = ?");
        Ok(Cents::new(sum.bind(&paid.out_trade_no).fetch_one(self.books.pool()).await?))
    }
}

/// Tells the story. True when the credits with idem are right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("payment-callback", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let sent = calls(&options.data, ["1-paid.form", "1-paid-sent-again.form"])?;
    let away = calls(&options.data, ["2-paid.form", "2-paid-sent-again.form"])?;
    let with = Shop::open(folder, "with-idem", !options.unprotected).await?;
    let without = Shop::open(folder, "without-idem", false).await?;
    let told = acts(scene, &with, &without, (&sent.1, &away.1)).await;
    let deleted = with.queue.delete().await.and(without.queue.delete().await);
    told.and(deleted)?;

    let columns = ["scope", "action_key"];
    scene.table(&with.books, "idem_records of the first shop", "idem_records ORDER BY action_key", &columns).await?;
    scene.comparison("Credits")?;
    for paid in [&sent.0, &away.0] {
        let (in_with, in_without) = (with.credited(paid).await?, without.credited(paid).await?);
        scene.compare(&paid.out_trade_no, &Cents::new(paid.cents), &in_with, &in_without)?;
    }
    scene.verdict("each payment was credited once.")
}

async fn acts<W: Write>(
    scene: &mut Scene<W>,
    with: &Shop,
    without: &Shop,
    (sent, away): (&[String; 2], &[String; 2]),
) -> Result<(), StoryError> {
    scene.opening(
        "A callback: HTTP, RabbitMQ, consumer",
        &["The endpoint puts a message into the queue and answers."],
    )?;
    scene.act("The answer is lost", "The platform does not read the 200 and calls again, with another notify_id.")?;
    show(scene, with.called_twice(sent).await?, without.called_twice(sent).await?)?;
    scene.act(
        "The broker is away",
        "With idem the endpoint says 200 when RabbitMQ has confirmed the message; the other one says so anyway.",
    )?;
    show(scene, with.broker_away(away).await?, without.broker_away(away).await?)
}

fn show<W: Write>(scene: &mut Scene<W>, with: [String; 3], without: [String; 3]) -> Result<(), StoryError> {
    let steps = [("callback", "the first call"), ("callback", "and once more"), ("consumer", "what is in the queue")];
    steps
        .into_iter()
        .zip(with.into_iter().zip(without))
        .try_for_each(|((delivery, what), (answer, other))| scene.delivery(delivery, what, answer, other))
}

/// The bodies of two calls about one payment.
fn calls(data: &Path, files: [&str; 2]) -> Result<(Paid, [String; 2]), StoryError> {
    let body = |file: &str| {
        let path = data.join(file);
        let body = fs::read_to_string(&path).map_err(|source| StoryError::Read { path: path.clone(), source })?;
        let paid = read(&body).ok_or(StoryError::Data { path, says: "no callback of a paid order".into() })?;
        Ok::<_, StoryError>((paid, body.trim_end().to_owned()))
    };
    let (first, again) = (body(files[0])?, body(files[1])?);
    if first.0.out_trade_no != again.0.out_trade_no {
        return Err(StoryError::Data { path: data.join(files[1]), says: "this is another payment".into() });
    }
    Ok((first.0, [first.1, again.1]))
}
