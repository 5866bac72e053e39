//! A worker in a process of its own, so that it can be killed for real: no destructor runs, no connection is closed.
//!
//! The process says on its standard output how far it got, one line: `halted` when it is ready to be killed, else what
//! became of the delivery.

use super::{
    endpoint::{Answer, Endpoint, Kind},
    error::StoryError,
    notification::Notification,
    trouble::Trouble,
};
use crate::money::Cents;
use std::{
    ffi::{OsStr, OsString},
    io::{self, BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};
use tokio::sync::Notify;

/// The argument that makes this program a worker.
pub(crate) const COMMAND: &str = "payment-worker";

const HALTED: &str = "halted";

/// Where a worker is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// Nowhere.
    Never,
    /// In the middle of the body.
    InTheBody,
    /// After the commit, before the platform hears of it.
    BeforeTheAck,
}

/// What a worker does: one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The handlers.
    pub(crate) kind: Kind,
    /// The database file.
    pub(crate) database: PathBuf,
    /// The notification's file.
    pub(crate) notification: PathBuf,
    /// Where the worker is killed.
    pub(crate) kill: Kill,
}

impl Job {
    /// The arguments for [`COMMAND`].
    fn to_args(&self) -> [OsString; 4] {
        let kind = match self.kind {
            Kind::WithIdem => "with-idem",
            Kind::WithoutIdem => "without-idem",
        };
        let kill = match self.kill {
            Kill::Never => "never",
            Kill::InTheBody => "in-the-body",
            Kill::BeforeTheAck => "before-the-ack",
        };
        [kind.into(), kill.into(), self.database.clone().into(), self.notification.clone().into()]
    }

    /// The job of the arguments behind [`COMMAND`].
    pub(crate) fn from_args(args: &[OsString]) -> Option<Self> {
        let [kind, kill, database, notification] = args else { return None };
        let kind = match kind.to_str()? {
            "with-idem" => Kind::WithIdem,
            "without-idem" => Kind::WithoutIdem,
            _ => return None,
        };
        let kill = match kill.to_str()? {
            "never" => Kill::Never,
            "in-the-body" => Kill::InTheBody,
            "before-the-ack" => Kill::BeforeTheAck,
            _ => return None,
        };
        Some(Self { kind, database: database.into(), notification: notification.into(), kill })
    }

    /// In the worker: does the job and says how far it got.
    pub(crate) async fn work(&self) -> Result<(), StoryError> {
        let notification = Notification::read(&self.notification)?;
        let endpoint = Endpoint::open(self.kind, &self.database).await?;
        let reached = Arc::new(Notify::new());
        let trouble = match self.kill {
            Kill::InTheBody => Trouble::Halt(Arc::clone(&reached)),
            Kill::Never | Kill::BeforeTheAck => Trouble::None,
        };
        let mut handling = std::pin::pin!(endpoint.deliver(&notification, &trouble));
        let answer = tokio::select! {
            answer = &mut handling => answer,
            () = reached.notified() => return wait_for_the_end(),
        };
        if self.kill == Kill::BeforeTheAck && answer.reason().is_none() {
            return wait_for_the_end();
        }
        endpoint.close().await;
        say(&to_line(&answer))
    }

    /// In the parent: starts a worker, kills it where the job says so, and tells what became of the delivery.
    pub(crate) fn run(&self) -> Result<Answer, StoryError> {
        let io = |what| move |source| StoryError::Io { what, source };
        let program = std::env::current_exe().map_err(io("finding this program"))?;
        let mut child = Command::new(program)
            .arg(OsStr::new(COMMAND))
            .args(self.to_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io("starting a worker process"))?;
        let answer = watch(&mut child);
        if answer.is_err() {
            // It may sit there waiting to be killed. The first error is the one to tell.
            let _ = child.kill();
            let _ = child.wait();
        }
        answer
    }
}

/// Listens to a worker, and kills it when it is ready for that.
fn watch(child: &mut Child) -> Result<Answer, StoryError> {
    let io = |what| move |source| StoryError::Io { what, source };
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(io("listening to a worker process"))?;
    }
    let line = line.trim_end();
    if line == HALTED {
        child.kill().map_err(io("killing a worker process"))?;
        let status = child.wait().map_err(io("waiting for a worker process"))?;
        if status.success() {
            return Err(StoryError::Worker("was to be killed and ended by itself".into()));
        }
        return Ok(Answer::Killed);
    }
    drop(child.stdin.take());
    let mut complaint = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut complaint).map_err(io("listening to a worker process"))?;
    }
    let status = child.wait().map_err(io("waiting for a worker process"))?;
    if !status.success() {
        return Err(StoryError::Worker(format!("failed ({status}): {}", complaint.trim_end())));
    }
    from_line(line).ok_or_else(|| StoryError::Worker(format!("said {line:?}")))
}

/// Says that the worker is ready to be killed, and waits for it. Nothing is dropped while it waits.
fn wait_for_the_end() -> Result<(), StoryError> {
    say(HALTED)?;
    // The parent holds the other end: if it is gone, nobody is left to kill this process.
    let _ = io::stdin().read(&mut [0]);
    Err(StoryError::Worker("outlived its parent".into()))
}

fn say(line: &str) -> Result<(), StoryError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|source| StoryError::Io { what: "answering the parent", source })
}

fn to_line(answer: &Answer) -> String {
    let detail = match answer {
        Answer::First(amount) => amount.get().to_string(),
        other => other.reason().unwrap_or_default().replace('\n', " "),
    };
    format!("{} {detail}", answer.label())
}

fn from_line(line: &str) -> Option<Answer> {
    let (label, detail) = line.split_once(' ').unwrap_or((line, ""));
    match label {
        "first" => detail.parse().ok().map(|cents| Answer::First(Cents::new(cents))),
        "duplicate" => Some(Answer::Duplicate),
        "ignored" => Some(Answer::Ignored),
        "busy" => Some(Answer::Busy(detail.into())),
        "failed" => Some(Answer::Failed(detail.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Job, Kill, Kind, from_line, to_line};
    use crate::money::Cents;

    #[test]
    fn answers_survive_the_pipe() {
        for answer in [
            Answer::First(Cents::new(-2000)),
            Answer::Duplicate,
            Answer::Ignored,
            Answer::Busy("come back later".into()),
            Answer::Failed("the body failed: no".into()),
        ] {
            assert_eq!(from_line(to_line(&answer).trim_end()), Some(answer));
        }
        for line in ["", "first", "first 88.88", "killed", "thread 'main' panicked"] {
            assert_eq!(from_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn jobs_survive_the_command_line() {
        for kind in [Kind::WithIdem, Kind::WithoutIdem] {
            for kill in [Kill::Never, Kill::InTheBody, Kill::BeforeTheAck] {
                let job = Job { kind, database: "a b.db".into(), notification: "n.json".into(), kill };
                assert_eq!(Job::from_args(&job.to_args()), Some(job));
            }
        }
        assert_eq!(Job::from_args(&[]), None);
        assert_eq!(Job::from_args(&["with-idem".into(), "now".into(), "a".into(), "b".into()]), None);
    }
}
