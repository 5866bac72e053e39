//! The acts: each a folder of notifications and a way to deliver them.

use super::{
    endpoint::{Answer, Endpoint},
    error::StoryError,
    notification::{self, Notification},
    trouble::Trouble,
    worker::{Job, Kill},
};
use std::path::Path;

/// How many copies arrive at once.
const COPIES: usize = 16;

/// One act.
#[derive(Debug)]
pub(crate) struct Act {
    /// The folder of its notifications.
    pub(crate) folder: &'static str,
    /// Its name.
    pub(crate) title: &'static str,
    /// What happens.
    pub(crate) says: &'static str,
    way: Way,
}

/// How the notifications of an act are delivered: in order, and ..
#[derive(Clone, Copy, Debug)]
enum Way {
    /// .. nothing goes wrong.
    Quietly,
    /// .. each in many copies at the same moment.
    AtOnce,
    /// .. the body fails at the first.
    FirstFails,
    /// .. the handler's future is dropped in the middle of the body at the first.
    FirstCancelled,
    /// .. each to a process of its own, and the first is killed.
    FirstKilled(Kill),
}

/// The acts, in order.
pub(crate) const ACTS: [Act; 6] = [
    Act {
        folder: "1-redelivered",
        title: "Redelivered",
        says: "The platforms send payments and refunds again: under the same id, under another, late, out of order.",
        way: Way::Quietly,
    },
    Act {
        folder: "2-at-once",
        title: "At once",
        says: "16 copies of one payment arrive at the same moment, at 16 tasks.",
        way: Way::AtOnce,
    },
    Act {
        folder: "3-fails-once",
        title: "Fails once",
        says: "The body fails after it has changed the balance; the platform retries, and later sends it once more.",
        way: Way::FirstFails,
    },
    Act {
        folder: "4-cancelled",
        title: "Cancelled",
        says: "The worker's future is dropped in the middle of the body; the refund is delivered again, twice.",
        way: Way::FirstCancelled,
    },
    Act {
        folder: "5-killed-before-ack",
        title: "Killed before the ack",
        says: "The process is killed after the commit, before it could answer; new processes get the redeliveries.",
        way: Way::FirstKilled(Kill::BeforeTheAck),
    },
    Act {
        folder: "6-killed-in-the-body",
        title: "Killed in the body",
        says: "The process is killed in the middle of the body; new processes get the redeliveries.",
        way: Way::FirstKilled(Kill::InTheBody),
    },
];

/// One delivery and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The delivery's id, with the number of the copy when there are several.
    pub(crate) id: String,
    /// The key of the business fact.
    pub(crate) key: String,
    /// With idem.
    pub(crate) with: Answer,
    /// Without.
    pub(crate) without: Answer,
}

impl Act {
    /// Delivers the act's notifications to both endpoints and shows each delivery as it is done.
    pub(crate) async fn run(
        &self,
        data: &Path,
        with: &Endpoint,
        without: &Endpoint,
        mut show: impl FnMut(&Delivery) -> Result<(), StoryError>,
    ) -> Result<(), StoryError> {
        let folder = data.join(self.folder);
        let files = notification::files(&folder)?;
        if files.is_empty() {
            return Err(StoryError::Empty(folder));
        }
        for (nth, file) in files.iter().enumerate() {
            let notification = Notification::read(file)?;
            let (id, key) = (notification.delivery_id(), notification.key());
            if let Way::AtOnce = self.way {
                let with = with.deliver_at_once(&notification, COPIES).await?;
                let without = without.deliver_at_once(&notification, COPIES).await?;
                for (copy, (with, without)) in with.into_iter().zip(without).enumerate() {
                    show(&Delivery { id: format!("{id} #{:02}", copy + 1), key: key.clone(), with, without })?;
                }
            } else {
                let first = nth == 0;
                let with = self.deliver(with, &notification, file, first).await?;
                let without = self.deliver(without, &notification, file, first).await?;
                show(&Delivery { id: id.into(), key, with, without })?;
            }
        }
        Ok(())
    }

    async fn deliver(
        &self,
        endpoint: &Endpoint,
        notification: &Notification,
        file: &Path,
        first: bool,
    ) -> Result<Answer, StoryError> {
        match self.way {
            Way::FirstFails if first => Ok(endpoint.deliver(notification, &Trouble::Fail).await),
            Way::FirstCancelled if first => Ok(endpoint.deliver_and_cancel(notification).await),
            Way::FirstKilled(kill) => {
                let job = Job {
                    kind: endpoint.kind(),
                    database: endpoint.file().into(),
                    notification: file.into(),
                    kill: if first { kill } else { Kill::Never },
                };
                tokio::task::spawn_blocking(move || job.run()).await?
            }
            Way::Quietly | Way::AtOnce | Way::FirstFails | Way::FirstCancelled => {
                Ok(endpoint.deliver(notification, &Trouble::None).await)
            }
        }
    }
}
