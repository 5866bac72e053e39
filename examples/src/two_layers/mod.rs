//! Redis in front of the database: the gate saves work, the database decides. And what happens where Redis decides alone.

mod counting;
mod coupon;

use self::{
    counting::Counting,
    coupon::{CouponError, Grant, SCHEMA, SCOPE, add, grant},
};
use crate::story::{self, Answer, Options, Scene, StoryError, json_lines};
use idem_runtime::{
    Advice, Key, SqliteStore,
    gate::{Finished, Gate, Look, MemoryGate, RedisGate},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    env,
    io::Write,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Where Redis is looked for, unless `IDEM_REDIS` says otherwise.
const REDIS: &str = "redis://127.0.0.1:6379";
/// Nobody listens there: Redis as it is when it is down.
const NOBODY: &str = "redis://127.0.0.1:1";
/// Nothing of a run stays in Redis for longer.
const KEEP: Duration = Duration::from_mins(5);
const NEAR: u64 = 10_000;

/// One side: its accounts, and what it remembers besides.
#[derive(Debug)]
struct Side {
    /// The accounts' database; with idem also the records'.
    database: SqliteStore,
    guarded: bool,
    /// The twin's only memory. A table in this process stands for Redis: `SET key NX` before the body.
    marks: Mutex<HashSet<String>>,
    hits: Arc<AtomicUsize>,
}

impl Side {
    async fn open(file: &Path, guarded: bool, accounts: &BTreeSet<&str>) -> Result<Self, StoryError> {
        let database = story::open(file, SCHEMA).await?;
        let side = Self { database, guarded, marks: Mutex::default(), hits: Arc::default() };
        for account in accounts {
            side.open_account(account).await?;
        }
        Ok(side)
    }

    async fn open_account(&self, account: &str) -> Result<(), StoryError> {
        let insert = sqlx::query("INSERT INTO accounts (account) VALUES (?)").bind(account);
        insert.execute(self.database.pool()).await?;
        Ok(())
    }

    /// A process that works on this side: a store over the same database, with a gate of its own in front.
    fn process(&self, gate: impl Gate) -> Result<SqliteStore, StoryError> {
        let gate = Counting { gate, hits: Arc::clone(&self.hits) };
        Ok(SqliteStore::builder().gate(gate).pool(self.database.pool().clone())?)
    }

    async fn deliver(&self, process: &SqliteStore, msg: &Grant) -> Answer {
        if self.guarded { grant(process, msg).await.into() } else { self.by_marks_alone(msg).await }
    }

    /// The twin: the mark is set first, and is all that there is.
    async fn by_marks_alone(&self, msg: &Grant) -> Answer {
        if !self.marks.lock().unwrap_or_else(PoisonError::into_inner).insert(msg.coupon_no.clone()) {
            return Answer { label: "duplicate", says: String::new(), advice: Advice::Ack };
        }
        Answer::plain(self.add(msg).await)
    }

    async fn add(&self, msg: &Grant) -> Result<i64, CouponError> {
        let mut tx = self.database.pool().begin_with("BEGIN IMMEDIATE").await?;
        let cents = add(&mut tx, msg).await?;
        tx.commit().await?;
        Ok(cents)
    }

    /// Reads the topic from its beginning. With idem it is said how many deliveries did not reach the database.
    async fn read_topic(&self, process: &SqliteStore, topic: &[Grant]) -> String {
        let before = self.hits.load(Ordering::Relaxed);
        let mut answers = Vec::new();
        for msg in topic {
            answers.push(self.deliver(process, msg).await);
        }
        let hits = self.hits.load(Ordering::Relaxed) - before;
        let by_gate = if hits > 0 { format!(" ({hits} by a gate)") } else { String::new() };
        Answer::sum(&answers) + &by_gate
    }

    /// Coupons and cents of each account.
    async fn accounts(&self) -> Result<BTreeMap<String, (i64, i64)>, StoryError> {
        let rows: Vec<(String, i64, i64)> =
            sqlx::query_as("SELECT account, coupons, cents FROM accounts").fetch_all(self.database.pool()).await?;
        Ok(rows.into_iter().map(|(account, coupons, cents)| (account, (coupons, cents))).collect())
    }
}

/// Tells the story. True when idem's coupons are right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("two-layers", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let topic: Vec<Grant> = json_lines(&options.data.join("1-topic.jsonl"))?;
    let later: Vec<Grant> = json_lines(&options.data.join("2-later.jsonl"))?;
    // The accounts of the last lines are opened after these were read first.
    let last = |messages: &[Grant]| messages.last().map(|msg| msg.account.clone()).unwrap_or_default();
    let (late, later_still) = (last(&topic), last(&later));
    let accounts = topic.iter().chain(&later).map(|msg| msg.account.as_str());
    let accounts = accounts.filter(|account| **account != late && **account != later_still).collect();
    let with = Side::open(&folder.join("with-idem.db"), !options.unprotected, &accounts).await?;
    let without = Side::open(&folder.join("without-idem.db"), false, &accounts).await?;
    let says = [
        "A coupon topic is read again and again: with gates in front of the database, and by a twin that trusts Redis alone.",
    ];
    scene.opening("Two layers: Redis and embedded SQLite", &says)?;
    let redis = far_gate(folder).await?;
    match &redis {
        Some(_) => scene.says("Redis answers: the gate is the memory of the process over Redis.")?,
        None => scene
            .says("No Redis answers (IDEM_REDIS says where to look): the gate is the memory of the process alone.")?,
    }
    let start = |far: &Option<RedisGate>| match far {
        Some(far) => with.process(MemoryGate::new(NEAR).over(far.clone())),
        None => with.process(MemoryGate::new(NEAR)),
    };
    let count = format!("{} messages", topic.len());
    let read = async |reading: &str, count: &str, process: &SqliteStore, topic: &[Grant], scene: &mut Scene<W>| {
        let (with, without) = (with.read_topic(process, topic).await, without.read_topic(process, topic).await);
        scene.delivery(reading, count, with, without)
    };

    scene.act(
        "Rewound",
        "The last account is not open yet, so its coupon fails. The offset is set back, and all is read again.",
    )?;
    let process = start(&redis)?;
    read("reading 1", &count, &process, &topic, scene).await?;
    with.open_account(&late).await?;
    without.open_account(&late).await?;
    for reading in ["reading 2", "reading 3"] {
        read(reading, &count, &process, &topic, scene).await?;
    }

    scene.act("A new process", "Its own memory is empty. Redis, where there is one, still knows.")?;
    let process = start(&redis)?;
    read("reading 4", &count, &process, &topic, scene).await?;

    scene.act(
        "Redis forgets",
        "It was flushed, or failed over, and the process is new as well. Only the database knows.",
    )?;
    forget(redis.as_ref(), &topic).await;
    without.marks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let process = start(&redis)?;
    read("reading 5", &count, &process, &topic, scene).await?;

    scene.act("Redis is down", "Nobody answers. The database decides: no error, nothing lost, new messages run.")?;
    let process = with.process(RedisGate::connect(NOBODY, "idem-story").await?)?;
    let longer = [topic.clone(), later].concat();
    let count = format!("{} messages", longer.len());
    read("reading 6", &count, &process, &longer, scene).await?;
    with.open_account(&later_still).await?;
    without.open_account(&later_still).await?;
    read("reading 7", &count, &process, &longer, scene).await?;
    forget(redis.as_ref(), &topic).await;

    let records: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM idem_records").fetch_one(with.database.pool()).await?;
    scene.says("")?;
    scene.says(&format!("idem_records of the first side has {records} rows, one for each coupon."))?;
    let (in_with, in_without) = (with.accounts().await?, without.accounts().await?);
    scene.comparison("Coupons and cents")?;
    for (account, right) in &right(&longer) {
        let text = |accounts: &BTreeMap<String, (i64, i64)>| {
            let (coupons, cents) = accounts.get(account).copied().unwrap_or_default();
            format!("{coupons} / {cents}")
        };
        let right = format!("{} / {}", right.0, right.1);
        scene.compare(&format!("coupons and cents of {account}"), &right, &text(&in_with), &text(&in_without))?;
    }
    scene.verdict("each coupon was granted once, whatever Redis knew.")
}

/// The gate in Redis, when one answers: it has to remember something to be believed.
async fn far_gate(folder: &Path) -> Result<Option<RedisGate>, StoryError> {
    let url = env::var("IDEM_REDIS").unwrap_or_else(|_| REDIS.to_owned());
    // Each run has a namespace of its own: it must not know what another run's database has done.
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("idem-story");
    let namespace: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    let gate = RedisGate::connect(&url, &namespace).await?.keep(KEEP).timeout(Duration::from_millis(500));
    let Ok(probe) = Key::scope(SCOPE).part("probe").finish() else { return Ok(None) };
    gate.remember(&probe, &Finished::default(), KEEP).await;
    let answers = gate.look(&probe).await != Look::Unknown;
    gate.forget(&probe).await;
    Ok(answers.then_some(gate))
}

/// Takes what this run knows out of Redis, and nothing else.
async fn forget(redis: Option<&RedisGate>, topic: &[Grant]) {
    let Some(redis) = redis else { return };
    for msg in topic {
        if let Ok(key) = Key::scope(SCOPE).part(&msg.coupon_no).finish() {
            redis.forget(&key).await;
        }
    }
}

/// Coupons and cents that each account should have, from the data alone: a coupon counts once.
fn right(messages: &[Grant]) -> BTreeMap<String, (i64, i64)> {
    let mut accounts: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut coupons = BTreeSet::new();
    for msg in messages {
        if coupons.insert(&msg.coupon_no) {
            let (coupons, cents) = accounts.entry(msg.account.clone()).or_default();
            *coupons += 1;
            *cents += msg.cents;
        }
    }
    accounts
}
