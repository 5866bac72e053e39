//! The heartbeat: a lease is renewed while its work goes on.
//!
//! The time comes from a thread of its own, and each renewal is a task that this thread hands to the runtime. A task that
//! slept in the runtime would not do: a body that blocks its worker may hold the task, or the runtime's own clock, with it.

use super::ledger::{Ledger, Owned};
use crate::{log, unit::within};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::watch};

/// What is known of a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Until when the lease is ours for certain, by this machine's own clock: counted from before it was asked for.
    pub(super) valid_until: Instant,
    /// It is somebody else's, or it was ended.
    pub(super) over: bool,
}

/// A lease that is held. It beats until it is dropped.
pub(super) struct Heart {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) owned: Owned,
    pub(super) standing: watch::Sender<Standing>,
    /// Its end is being written down, so that a renewal which finds no owner says nothing.
    ending: AtomicBool,
}

impl Heart {
    pub(super) fn start(ledger: Arc<dyn Ledger>, owned: Owned, asked: Instant) -> Arc<Self> {
        let standing = Standing { valid_until: asked + owned.lease, over: false };
        let heart =
            Arc::new(Self { ledger, owned, standing: watch::Sender::new(standing), ending: AtomicBool::new(false) });
        // On another runtime of sqlx's there is nobody to renew: the lease then has to be as long as the work.
        if let Ok(runtime) = Handle::try_current() {
            call_at(asked + heart.beat(), runtime, Arc::downgrade(&heart));
        }
        heart
    }

    fn beat(&self) -> Duration {
        self.owned.lease / 3
    }

    pub(super) fn set_ending(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    pub(super) fn set_over(&self) {
        self.standing.send_modify(|standing| standing.over = true);
    }

    /// Renews once. The moment of the next time, unless there is none.
    async fn renew(&self) -> Option<Instant> {
        let asked = Instant::now();
        let key = &self.owned.key;
        let trouble = match within(self.beat(), self.ledger.renew(&self.owned)).await {
            Some(Ok(true)) => {
                self.standing.send_modify(|standing| standing.valid_until = asked + self.owned.lease);
                return Some(asked + self.beat());
            }
            Some(Ok(false)) => {
                if !self.ending.load(Ordering::SeqCst) {
                    log::lease_taken(key);
                }
                self.set_over();
                return None;
            }
            Some(Err(error)) => error.to_string(),
            None => "no answer in time".to_owned(),
        };
        log::lease_not_renewed(key, &trouble, self.standing.borrow().valid_until <= Instant::now());
        // It goes on after the lease ran out: while nobody took over, it is not too late.
        Some(Instant::now() + (self.owned.lease / 20).clamp(Duration::from_millis(50), Duration::from_secs(2)))
    }
}

/// A renewal that is due at some time.
struct Call {
    at: Instant,
    runtime: Handle,
    heart: Weak<Heart>,
}

impl Call {
    fn make(self) {
        let Some(heart) = self.heart.upgrade() else { return };
        let runtime = self.runtime.clone();
        self.runtime.spawn(async move {
            if let Some(next) = heart.renew().await {
                call_at(next, runtime, Arc::downgrade(&heart));
            }
        });
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Call {}

impl PartialOrd for Call {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Call {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// Has a lease renewed at some time.
fn call_at(at: Instant, runtime: Handle, heart: Weak<Heart>) {
    static CLOCK: OnceLock<Option<mpsc::Sender<Call>>> = OnceLock::new();
    let clock = CLOCK.get_or_init(|| {
        let (sender, receiver) = mpsc::channel();
        let clock = std::thread::Builder::new().name("idem-leases".to_owned());
        clock.spawn(move || keep_time(&receiver)).ok().map(|_| sender)
    });
    // The clock's thread never ends.
    if clock.as_ref().is_none_or(|clock| clock.send(Call { at, runtime, heart }).is_err()) {
        log::no_heartbeat();
    }
}

fn keep_time(calls: &mpsc::Receiver<Call>) {
    let mut due = BinaryHeap::<Reverse<Call>>::new();
    loop {
        let next = due.peek().map(|Reverse(call)| call.at);
        let wait = next.map_or(Duration::from_hours(1), |at| at.saturating_duration_since(Instant::now()));
        match calls.recv_timeout(wait) {
            Ok(call) => due.push(Reverse(call)),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        while let Some(Reverse(call)) = due.pop() {
            if call.at > Instant::now() {
                due.push(Reverse(call));
                break;
            }
            call.make();
        }
    }
}
