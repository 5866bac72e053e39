//! Where notifications arrive: the handlers with idem, or those without.

use super::{
    error::{PayError, StoryError},
    ledger::{self, Books},
    notification::Notification,
    protected,
    trouble::Trouble,
    unprotected,
};
use crate::money::Cents;
use idem_runtime::{Error, Outcome, SqliteStore};
use sqlx::SqlitePool;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    sync::{Barrier, Notify},
    task::JoinSet,
};

/// Which handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Those with the attribute.
    WithIdem,
    /// Those without.
    WithoutIdem,
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The body ran and is durable. It booked this much.
    First(Cents),
    /// A repeat; the body did not run.
    Duplicate,
    /// Not called for; the body did not run.
    Ignored,
    /// Somebody else was in the way; deliver again later.
    Busy(String),
    /// Nothing is booked.
    Failed(String),
    /// The handler's future was dropped.
    Cancelled,
    /// The handler's process was killed.
    Killed,
}

impl Answer {
    /// The word for the report.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::First(_) => "first",
            Self::Duplicate => "duplicate",
            Self::Ignored => "ignored",
            Self::Busy(_) => "busy",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
            Self::Killed => "killed",
        }
    }

    /// What is known to be booked.
    pub(crate) const fn booked(&self) -> Option<Cents> {
        match self {
            Self::First(amount) => Some(*amount),
            _ => None,
        }
    }

    /// Why it did not work.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Busy(reason) | Self::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

impl From<Result<Outcome<Cents>, Error<PayError>>> for Answer {
    fn from(handled: Result<Outcome<Cents>, Error<PayError>>) -> Self {
        match handled {
            Ok(Outcome::First(amount)) => Self::First(amount),
            Ok(Outcome::Duplicate(_)) => Self::Duplicate,
            Ok(Outcome::Ignored(_)) => Self::Ignored,
            Err(Error::Busy(busy)) => Self::Busy(busy.to_string()),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

impl From<Result<Cents, PayError>> for Answer {
    fn from(handled: Result<Cents, PayError>) -> Self {
        match handled {
            Ok(amount) => Self::First(amount),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

#[derive(Clone, Debug)]
enum Database {
    Store(SqliteStore),
    Pool(SqlitePool),
}

/// One set of handlers over one database file.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    database: Database,
    kind: Kind,
    file: PathBuf,
}

impl Endpoint {
    /// Opens the database file and creates what is missing.
    pub(crate) async fn open(kind: Kind, file: &Path) -> Result<Self, StoryError> {
        let pool = ledger::open(file).await?;
        let database = match kind {
            Kind::WithIdem => {
                let store = SqliteStore::new(pool);
                store.migrate().await?;
                Database::Store(store)
            }
            Kind::WithoutIdem => Database::Pool(pool),
        };
        Ok(Self { database, kind, file: file.into() })
    }

    /// Which handlers these are.
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The database file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Takes one delivery.
    pub(crate) async fn deliver(&self, notification: &Notification, trouble: &Trouble) -> Answer {
        match (&self.database, notification) {
            (Database::Store(db), Notification::AlipayTrade(msg)) => {
                protected::on_alipay_trade(db, msg, trouble).await.into()
            }
            (Database::Store(db), Notification::AlipayRefund(msg)) => {
                protected::on_alipay_refund(db, msg, trouble).await.into()
            }
            (Database::Store(db), Notification::WechatTransaction(msg)) => {
                protected::on_wechat_transaction(db, msg, trouble).await.into()
            }
            (Database::Store(db), Notification::WechatRefund(msg)) => {
                protected::on_wechat_refund(db, msg, trouble).await.into()
            }
            (Database::Pool(db), Notification::AlipayTrade(msg)) => {
                unprotected::on_alipay_trade(db, msg, trouble).await.into()
            }
            (Database::Pool(db), Notification::AlipayRefund(msg)) => {
                unprotected::on_alipay_refund(db, msg, trouble).await.into()
            }
            (Database::Pool(db), Notification::WechatTransaction(msg)) => {
                unprotected::on_wechat_transaction(db, msg, trouble).await.into()
            }
            (Database::Pool(db), Notification::WechatRefund(msg)) => {
                unprotected::on_wechat_refund(db, msg, trouble).await.into()
            }
        }
    }

    /// Takes one delivery and drops the handler's future in the middle of the body.
    pub(crate) async fn deliver_and_cancel(&self, notification: &Notification) -> Answer {
        let reached = Arc::new(Notify::new());
        let trouble = Trouble::Halt(Arc::clone(&reached));
        tokio::select! {
            answer = self.deliver(notification, &trouble) => answer,
            () = reached.notified() => Answer::Cancelled,
        }
    }

    /// Takes many copies of one delivery at the same moment. The answers are in the order of the copies.
    pub(crate) async fn deliver_at_once(
        &self,
        notification: &Notification,
        copies: usize,
    ) -> Result<Vec<Answer>, StoryError> {
        let start = Arc::new(Barrier::new(copies));
        let mut tasks = JoinSet::new();
        for copy in 0..copies {
            let (endpoint, notification, start) = (self.clone(), notification.clone(), Arc::clone(&start));
            tasks.spawn(async move {
                start.wait().await;
                (copy, endpoint.deliver(&notification, &Trouble::None).await)
            });
        }
        let mut answers = BTreeMap::new();
        while let Some(done) = tasks.join_next().await {
            let (copy, answer) = done?;
            answers.insert(copy, answer);
        }
        Ok(answers.into_values().collect())
    }

    /// What the books say.
    pub(crate) async fn books(&self) -> Result<BTreeMap<(String, String), Books>, StoryError> {
        Ok(ledger::books(self.pool()).await?)
    }

    /// Closes the database.
    pub(crate) async fn close(&self) {
        self.pool().close().await;
    }

    fn pool(&self) -> &SqlitePool {
        match &self.database {
            Database::Store(store) => store.pool(),
            Database::Pool(pool) => pool,
        }
    }
}
