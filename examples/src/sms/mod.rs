//! An SMS that must not be sent twice: work outside the database, under a lease.

mod handlers;
mod message;
mod pause;
mod provider;

use self::{
    handlers::send_shipped,
    message::{Kind, Sms},
    pause::Pause,
    provider::{Provider, Sent},
};
use crate::story::{self, Answer, Options, Scene, StoryError, json_lines};
use idem_runtime::{Busy, Error, SqliteStore};
use std::{collections::BTreeMap, io::Write, path::Path, time::Duration};

/// Copies of one delivery that come while the first is at it.
const COPIES: usize = 7;
/// So often a delivery is sent away as busy before the broker gives up.
const MOST_DELIVERIES: usize = 20;

/// One side: the store that keeps its leases, and its provider.
#[derive(Debug)]
struct Side {
    store: SqliteStore,
    provider: Provider,
    guarded: bool,
}

impl Side {
    async fn open(folder: &Path, name: &str, guarded: bool) -> Result<Self, StoryError> {
        let store = story::open(&folder.join(format!("{name}.db")), "").await?;
        let provider = Provider::start(&folder.join(format!("{name}-phones.log"))).await;
        let provider = provider.map_err(|source| StoryError::Io { what: "starting the provider", source })?;
        Ok(Self { store, provider, guarded })
    }

    /// A delivery, and when to deliver it again where the handler says so.
    async fn deliver(&self, sms: &Sms, pause: &Pause) -> (Answer, Option<Duration>) {
        if !self.guarded {
            return (Answer::plain(self.unprotected(sms, pause).await), None);
        }
        let handled = send_shipped(&self.store, sms, &self.provider, pause).await;
        let again = match &handled {
            Err(Error::Busy(Busy::InProgress { retry_after })) => Some(*retry_after),
            _ => None,
        };
        (handled.into(), again)
    }

    async fn unprotected(&self, sms: &Sms, pause: &Pause) -> std::io::Result<&'static str> {
        let sent = self.provider.send(sms, None).await?;
        pause.after_sending().await;
        Ok(if sent == Sent::Now { "sent" } else { "known" })
    }

    async fn plainly(&self, sms: &Sms) -> Answer {
        self.deliver(sms, &Pause::none()).await.0
    }

    /// Delivers again when the handler says so, as a broker does, until it is not busy any more.
    async fn patiently(&self, sms: &Sms) -> Answer {
        let mut nth = 1;
        loop {
            let (answer, again) = self.deliver(sms, &Pause::none()).await;
            match again {
                Some(after) if nth < MOST_DELIVERIES => tokio::time::sleep(after).await,
                _ => return answer,
            }
            nth += 1;
        }
    }

    /// Cuts the worker off after the provider has the SMS: nobody writes down that it was sent.
    async fn cut_off(&self, sms: &Sms) {
        let pause = Pause::here();
        tokio::select! {
            _ = self.deliver(sms, &pause) => {}
            () = pause.reached() => {}
        }
    }

    /// One delivery, and copies of it while its body waits behind the sending.
    async fn crowd(&self, sms: &Sms) -> (Vec<Answer>, Answer) {
        let pause = Pause::here();
        let first = async { self.deliver(sms, &pause).await.0 };
        let others = async {
            pause.reached().await;
            let mut answers = Vec::new();
            for _ in 0..COPIES {
                answers.push(self.plainly(sms).await);
            }
            pause.go();
            answers
        };
        let (first, others) = tokio::join!(first, others);
        (others, first)
    }

    /// How many SMS went to phones for each order.
    fn phones(&self) -> Result<BTreeMap<String, usize>, StoryError> {
        let log =
            self.provider.log().map_err(|source| StoryError::Io { what: "reading the provider's log", source })?;
        let mut counts = BTreeMap::new();
        for line in log {
            *counts.entry(line.split(' ').next().unwrap_or_default().to_owned()).or_insert(0) += 1;
        }
        Ok(counts)
    }
}

/// Tells the story. True when what came to the phones is as promised.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("sms", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let with = Side::open(folder, "with-idem", !options.unprotected).await?;
    let without = Side::open(folder, "without-idem", false).await?;
    let says =
        ["\"Your order is on its way\" goes to customers through a provider: under a lease, and without anything."];
    scene.opening("An SMS, with leases on embedded SQLite", &says)?;
    let at = |sms: &Sms| format!("offset {}", sms.offset);
    let read = |file: &str| json_lines::<Sms>(&options.data.join(file));
    let mut all = Vec::new();

    scene.act("Redelivered", "The same messages come again, one after the other.")?;
    let messages = read("1-redelivered.jsonl")?;
    for sms in &messages {
        scene.delivery(at(sms), &sms.order_no, with.plainly(sms).await, without.plainly(sms).await)?;
    }
    all.extend(messages);

    scene.act(
        "At once",
        "Copies arrive while the first is at the provider. They are sent away as busy, and come again.",
    )?;
    let messages = read("2-at-once.jsonl")?;
    for sms in &messages {
        let ((others, first), (other_others, other_first)) = (with.crowd(sms).await, without.crowd(sms).await);
        scene.delivery(at(sms), &sms.order_no, first, other_first)?;
        let copies = format!("{COPIES} copies");
        scene.delivery(copies, &sms.order_no, Answer::sum(&others), Answer::sum(&other_others))?;
        let again = with.patiently(sms).await;
        scene.delivery("again", &sms.order_no, again, "(acked before)")?;
    }
    all.extend(messages);

    scene.act("Refused", "The provider does not take it. The body failed, so the next delivery may begin at once.")?;
    let messages = read("3-refused.jsonl")?;
    for sms in &messages {
        scene.delivery(at(sms), &sms.order_no, with.plainly(sms).await, without.plainly(sms).await)?;
    }
    all.extend(messages);

    scene.act(
        "Cut off",
        "The worker is gone after the provider took the SMS, and before that was written down. Who knows?",
    )?;
    let messages = read("4-cut-off.jsonl")?;
    for sms in &messages {
        with.cut_off(sms).await;
        without.cut_off(sms).await;
        scene.delivery(at(sms), format!("{} {:?}", sms.order_no, sms.provider), "(cut off)", "(cut off)")?;
        // Its lease still runs.
        scene.delivery("at once", &sms.order_no, with.plainly(sms).await, without.plainly(sms).await)?;
        scene.delivery("later", &sms.order_no, with.patiently(sms).await, "(acked before)")?;
        scene.delivery("once more", &sms.order_no, with.plainly(sms).await, without.plainly(sms).await)?;
    }

    scene.act("Reconciled", "Cut off once more. Nobody delivers it again; the list of unfinished work has it.")?;
    let left = read("5-reconciled.jsonl")?;
    for sms in &left {
        with.cut_off(sms).await;
        without.cut_off(sms).await;
        scene.delivery(at(sms), &sms.order_no, "(cut off)", "(cut off)")?;
    }
    reconcile(&with, &left, scene).await?;

    let columns = ["scope", "action_key", "fence", "attempts", "done: done_at IS NOT NULL"];
    scene
        .table(
            &with.store,
            "idem_records_leases of the first side",
            "idem_records_leases ORDER BY action_key",
            &columns,
        )
        .await?;
    compare(&with, &without, [all, left].concat(), &messages, scene)
}

/// Asks what became of unfinished work, and settles it: the provider's log says that it was sent.
async fn reconcile<W: Write>(side: &Side, left: &[Sms], scene: &mut Scene<W>) -> Result<(), StoryError> {
    if !side.guarded {
        return Ok(());
    }
    let mut unfinished = side.store.unfinished(Duration::ZERO).await?;
    for _ in 0..100 {
        if unfinished.len() >= left.len() {
            break;
        }
        // It is listed when its lease has run out: a second, and nobody tells when.
        tokio::time::sleep(Duration::from_millis(50)).await;
        unfinished = side.store.unfinished(Duration::ZERO).await?;
    }
    let phones = side.phones()?;
    for work in unfinished {
        let order_no = work.key.split(':').next().unwrap_or_default().to_owned();
        let sent = phones.contains_key(&order_no);
        let resolution = if sent { idem_runtime::Resolution::Done } else { idem_runtime::Resolution::GiveBack };
        let settled = side.store.resolve(&work, resolution).await?;
        let says = format!("unfinished: on the phone {sent}, settled {settled}");
        scene.delivery("reconciled", &order_no, says, "")?;
    }
    for sms in left {
        scene.delivery("and later", &sms.order_no, side.plainly(sms).await, "")?;
    }
    Ok(())
}

/// What came to the phones. `cut` are the orders whose worker was cut off and that came again.
fn compare<W: Write>(
    with: &Side,
    without: &Side,
    others: Vec<Sms>,
    cut: &[Sms],
    scene: &mut Scene<W>,
) -> Result<(), StoryError> {
    let (on_with, on_without) = (with.phones()?, without.phones()?);
    scene.comparison("SMS on phones")?;
    // Each order once; and where the provider knows no keys, once more for each cut: at least once is what a lease promises.
    let mut right: BTreeMap<String, usize> = others.into_iter().map(|sms| (sms.order_no, 1)).collect();
    for sms in cut {
        right.insert(sms.order_no.clone(), if sms.provider == Kind::Keyed { 1 } else { 2 });
    }
    for (order_no, right) in &right {
        let note = if *right > 1 { " (no keys: twice)" } else { "" };
        let count = |phones: &BTreeMap<String, usize>| phones.get(order_no).copied().unwrap_or_default();
        scene.compare(&format!("{order_no}{note}"), right, &count(&on_with), &count(&on_without))?;
    }
    scene
        .verdict("one SMS an order; after a crash that cut the sending off, one more where the provider knows no keys.")
}
