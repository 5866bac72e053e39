use super::{
    entry::{self, Entry},
    scripts,
    settle::{Place, Ticket, millis},
};
use crate::consume::{BrokerError, Holding, Horizon, Settle as _, Subscription, Taken};
use redis::{AsyncConnectionConfig, Client, RedisError, Value, aio::MultiplexedConnection};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::JoinHandle,
    time::{Instant, timeout},
};

/// How long Redis waits for new entries before it answers that there are none. A shutdown waits for that.
const BLOCK: Duration = Duration::from_millis(500);
/// How often is looked for what is due, and for what others left.
const LOOK: Duration = Duration::from_millis(500);
/// How long Redis may be silent beyond that.
const SILENCE: Duration = Duration::from_secs(10);
/// Pauses between tries to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long what is on its way at the end is waited for.
const DRAIN: Duration = Duration::from_secs(5);

/// A consumer of a group at work.
#[derive(Debug)]
pub struct Reading {
    pub(super) place: Arc<Place>,
    pub(super) horizon: Horizon,
    /// Whether the consumer's name is of this start only.
    pub(super) leaves: bool,
    entries: mpsc::UnboundedReceiver<Result<Taken<Ticket>, BrokerError>>,
    stop: watch::Sender<bool>,
    reader: Option<JoinHandle<()>>,
}

impl Reading {
    pub(super) fn start(reader: Reader, horizon: Horizon, leaves: bool, places: usize) -> Self {
        let (out, entries) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let place = Arc::clone(&reader.place);
        let room = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        let reader = tokio::spawn(reader.run(room, out, stopped));
        Self { place, horizon, leaves, entries, stop, reader: Some(reader) }
    }
}

impl Subscription for Reading {
    type Settle = Ticket;

    fn holding(&self) -> Holding {
        Holding { lease: Some(self.place.lease), longest: None }
    }

    fn horizon(&self) -> Option<Horizon> {
        Some(self.horizon.clone())
    }

    async fn next(&mut self) -> Result<Option<Taken<Ticket>>, BrokerError> {
        self.entries.recv().await.transpose()
    }

    async fn stop(&mut self) {
        self.stop.send_replace(true);
        let draining = async {
            if let Some(reader) = self.reader.take() {
                let _ = reader.await;
            }
            while let Some(entry) = self.entries.recv().await {
                if let Ok(Taken { mut settle, .. }) = entry {
                    settle.give_back().await;
                }
            }
        };
        // What does not go back now comes again when its lease is over.
        let _ = timeout(DRAIN, draining).await;
    }

    async fn finish(&mut self) {
        if self.leaves {
            let mut commands = self.place.commands.clone();
            let mut leave = scripts::LEAVE.key(&self.place.stream);
            leave.arg(&self.place.group).arg(&self.place.consumer);
            // A name that stays is untidy and no harm.
            let _ = leave.invoke_async::<i64>(&mut commands).await;
        }
    }
}

/// The task that reads. Its reads are never cancelled: Redis would carry them out all the same, and their entries would be
/// pending with nobody who knows of them.
pub(super) struct Reader {
    pub(super) client: Client,
    pub(super) place: Arc<Place>,
    pub(super) source: String,
    pub(super) declares: bool,
    pub(super) delivery_limit: Option<u32>,
}

/// Where a reader is.
struct At {
    connection: Option<MultiplexedConnection>,
    /// Where to look on for what others left.
    cursor: String,
    looked: Option<Instant>,
    due: Option<Duration>,
}

type Out = mpsc::UnboundedSender<Result<Taken<Ticket>, BrokerError>>;

impl Reader {
    async fn run(self, room: Arc<Semaphore>, out: Out, mut stop: watch::Receiver<bool>) {
        let mut at = At { connection: None, cursor: "-".to_owned(), looked: None, due: None };
        let mut pause: Option<Duration> = None;
        while !*stop.borrow() && !out.is_closed() {
            let mut places = Vec::new();
            let Ok(Ok(place)) = timeout(LOOK, Arc::clone(&room).acquire_owned()).await else { continue };
            places.push(place);
            while let Ok(place) = Arc::clone(&room).try_acquire_owned() {
                places.push(place);
            }
            let Err(error) = self.round(&mut at, places, &out).await else {
                if pause.take().is_some() {
                    tracing::info!(target: "idem", { idem.source = self.source }, "Redis answers again");
                }
                continue;
            };
            at.connection = None;
            if let Err(error) = self.judge(error, pause.is_none()).await {
                let _ = out.send(Err(error));
                return;
            }
            let now = pause.map_or(PAUSES.0, |pause| (pause * 2).min(PAUSES.1));
            pause = Some(now);
            let _ = timeout(now, stop.wait_for(|stop| *stop)).await;
        }
    }

    /// What a failure asks for: an error ends the consumer.
    async fn judge(&self, error: RedisError, first: bool) -> Result<(), BrokerError> {
        let text = error.to_string();
        let Place { stream, group, .. } = &*self.place;
        if text.contains("NOGROUP") {
            if !self.declares {
                return Err(BrokerError::new(format!("consuming `{}`", self.source), error));
            }
            tracing::warn!(
                target: "idem",
                { idem.source = self.source },
                "the group is gone, and is made anew: Redis lost its data, or somebody deleted the stream"
            );
            let mut commands = self.place.commands.clone();
            let mut create = redis::cmd("XGROUP");
            create.arg("CREATE").arg(stream).arg(group).arg("0").arg("MKSTREAM");
            // Another consumer may have been faster; and what else is wrong shows at the next read.
            let _: Result<(), _> = create.query_async(&mut commands).await;
            return Ok(());
        }
        if ["WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS"].iter().any(|code| text.contains(code)) {
            return Err(BrokerError::new(format!("consuming `{}`", self.source), error));
        }
        if first {
            tracing::warn!(target: "idem", { idem.source = self.source, error = text }, "Redis does not answer: trying on");
        }
        Ok(())
    }

    async fn connection(&self, at: &mut At) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = &at.connection {
            return Ok(connection.clone());
        }
        // The client's default gives a blocking read up before Redis does.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(BLOCK + SILENCE))
            .set_connection_timeout(Some(SILENCE));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        at.looked = None;
        Ok(at.connection.insert(connection).clone())
    }

    /// First what is due and what others left, then what is new.
    async fn round(&self, at: &mut At, mut places: Vec<OwnedSemaphorePermit>, out: &Out) -> Result<(), RedisError> {
        let mut connection = self.connection(at).await?;
        let due = at.due.zip(at.looked).is_some_and(|(due, looked)| looked.elapsed() >= due);
        if due || at.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            let taken = self.take(at, &mut connection, places.len()).await?;
            self.hand_over(taken, &mut places, out).await;
        }
        if places.is_empty() {
            return Ok(());
        }
        let block = at.due.map_or(BLOCK, |due| due.clamp(Duration::from_millis(1), BLOCK));
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(&self.place.group).arg(&self.place.consumer).arg("COUNT").arg(places.len());
        read.arg("BLOCK").arg(millis(block)).arg("STREAMS").arg(&self.place.stream).arg(">");
        let answer: Value = read.query_async(&mut connection).await?;
        self.hand_over(entry::read(answer)?, &mut places, out).await;
        Ok(())
    }

    async fn take(
        &self,
        at: &mut At,
        connection: &mut MultiplexedConnection,
        most: usize,
    ) -> Result<Vec<Entry>, RedisError> {
        type Found = (Vec<(String, u32, Vec<Vec<u8>>)>, Vec<String>, String, i64);
        let Place { stream, retries, group, consumer, lease, .. } = &*self.place;
        let mut take = scripts::TAKE.key(stream);
        take.key(retries).arg(group).arg(consumer).arg(millis(*lease)).arg(&at.cursor).arg(most);
        let (taken, gone, cursor, due): Found = take.invoke_async(connection).await?;
        at.cursor = cursor;
        at.due = u64::try_from(due).ok().map(Duration::from_millis);
        // There may be more.
        at.looked = (taken.len() < most).then(Instant::now);
        for id in gone {
            tracing::warn!(
                target: "idem",
                { idem.source = self.source, delivery.id = id },
                "deleted from the stream before it was handled: is the stream trimmed?"
            );
        }
        Ok(taken.into_iter().map(|(id, delivered, fields)| Entry { id, delivered, fields }).collect())
    }

    async fn hand_over(&self, entries: Vec<Entry>, places: &mut Vec<OwnedSemaphorePermit>, out: &Out) {
        for entry in entries {
            let Some(room) = places.pop() else { return };
            let mut envelope = entry.envelope(&self.place.stream, &self.place.body);
            if self.delivery_limit.is_some_and(|most| entry.delivered > most) {
                envelope.given_up = Some(format!("delivered {} times, and not dealt with", entry.delivered));
            }
            let Entry { id, delivered, fields } = entry;
            let settle = Ticket { id, delivered, fields, place: Arc::clone(&self.place), _room: room };
            if let Err(mpsc::error::SendError(Ok(Taken { mut settle, .. }))) = out.send(Ok(Taken { envelope, settle }))
            {
                // Nobody is there any more.
                settle.give_back().await;
            }
        }
    }
}
