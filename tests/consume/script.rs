//! A broker in memory that does what the test tells it, and writes down what it is told.

use idem_runtime::consume::{
    AckOutcome, Adapter, Attempt, BrokerError, BrokerId, Capabilities, DeadLetter, Envelope, Holding, Horizon, Plan,
    Redelivery, Settle, StartError, Subscription, Taken,
};
use std::{
    collections::VecDeque,
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};
use tokio::sync::Notify;

/// What is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Ack,
    Retry,
    DeadLetter,
}

/// What goes wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is answered like this, and the broker did not take it.
    Says(AckOutcome),
    /// It fails.
    Fails,
    /// It never ends.
    Hangs,
}

#[derive(Clone, Debug)]
struct Message {
    number: u64,
    payload: String,
    /// How often it has been delivered.
    delivered: u32,
    /// Whether this copy of it was delivered before.
    redelivered: bool,
    /// How many of these count.
    counted: u32,
    since: Option<SystemTime>,
}

type Hook = Box<dyn Fn(String) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

#[derive(Default)]
struct State {
    queue: VecDeque<Message>,
    dead: Vec<(String, DeadLetter)>,
    log: Vec<String>,
    faults: VecDeque<(Op, Fault)>,
    held: usize,
    most_held: usize,
    sent: u64,
    stopped: bool,
    finished: bool,
    broken: bool,
    plan: Option<Plan>,
    redeliveries: Vec<Redelivery>,
    extended: u64,
}

/// The broker. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Broker {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    before_ack: Arc<Option<Hook>>,
    pub(crate) attempts: Counting,
    pub(crate) holding: Holding,
    pub(crate) horizon: Option<Horizon>,
    pub(crate) refuses: Option<&'static str>,
}

/// How the broker counts deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Those that count, as a header would, and a flag.
    Header,
    /// Every delivery.
    Exact,
    /// Not at all.
    Nothing,
}

impl Broker {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::default(),
            changed: Arc::default(),
            before_ack: Arc::new(None),
            attempts: Counting::Header,
            holding: Holding::default(),
            horizon: None,
            refuses: None,
        }
    }

    /// Runs before an ack is taken, with the payload.
    pub(crate) fn before_ack<F>(mut self, hook: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.before_ack = Arc::new(Some(Box::new(move |payload| Box::pin(hook(payload)))));
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn send(&self, payload: impl Into<String>) {
        let mut state = self.state();
        state.sent += 1;
        let number = state.sent;
        state.queue.push_back(Message {
            number,
            payload: payload.into(),
            delivered: 0,
            redelivered: false,
            counted: 0,
            since: None,
        });
        drop(state);
        self.changed.notify_waiters();
    }

    /// What goes wrong with the next ack, retry or dead letter, and so on.
    pub(crate) fn fault(&self, op: Op, fault: Fault) {
        self.state().faults.push_back((op, fault));
    }

    /// `next` fails from now on.
    pub(crate) fn break_down(&self) {
        self.state().broken = true;
        self.changed.notify_waiters();
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, mut so: impl FnMut(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if so(self) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until nothing is queued or held, and so many were acked.
    pub(crate) async fn until_acked(&self, acks: usize) {
        self.until(|broker| broker.count("ack ") >= acks).await;
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    pub(crate) fn note(&self, line: impl Into<String>) {
        self.state().log.push(line.into());
        self.changed.notify_waiters();
    }

    /// How many lines of the log begin like this.
    pub(crate) fn count(&self, beginning: &str) -> usize {
        self.state().log.iter().filter(|line| line.starts_with(beginning)).count()
    }

    pub(crate) fn dead(&self) -> Vec<(String, DeadLetter)> {
        self.state().dead.clone()
    }

    pub(crate) fn queued(&self) -> usize {
        self.state().queue.len()
    }

    pub(crate) fn most_held(&self) -> usize {
        self.state().most_held
    }

    pub(crate) fn plan(&self) -> Plan {
        self.state().plan.clone().unwrap()
    }

    pub(crate) fn redeliveries(&self) -> Vec<Redelivery> {
        self.state().redeliveries.clone()
    }

    pub(crate) fn extended(&self) -> u64 {
        self.state().extended
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state().finished
    }

    fn next_fault(&self, op: Op) -> Option<Fault> {
        let mut state = self.state();
        if state.faults.front().is_some_and(|(of, _)| *of == op) {
            return state.faults.pop_front().map(|(_, fault)| fault);
        }
        None
    }
}

impl Adapter for Broker {
    type Subscription = Reading;

    const BROKER: &'static str = "script";
    const CAPABILITIES: Capabilities = Capabilities {
        native_delay: true,
        native_dead_letter: true,
        fenced_ack: false,
        ordered: true,
        exact_attempts: false,
    };

    fn source(&self) -> String {
        "script".to_owned()
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        if let Some(reason) = self.refuses {
            return Err(StartError::Unsafe { from: self.source(), reason: reason.to_owned() });
        }
        self.state().plan = Some(plan.clone());
        Ok(Reading { broker: self })
    }
}

pub(crate) struct Reading {
    broker: Broker,
}

impl Subscription for Reading {
    type Settle = Ticket;

    fn holding(&self) -> Holding {
        self.broker.holding
    }

    fn horizon(&self) -> Option<Horizon> {
        self.broker.horizon.clone()
    }

    async fn next(&mut self) -> Result<Option<Taken<Ticket>>, BrokerError> {
        let broker = self.broker.clone();
        let mut message = None;
        broker
            .until(|broker| {
                let mut state = broker.state();
                assert!(!state.stopped, "asked after the stop");
                message = state.queue.pop_front();
                message.is_some() || state.broken
            })
            .await;
        let Some(mut message) = message else { return Err(BrokerError::new("reading", "the broker is gone")) };
        message.delivered += 1;
        let mut state = broker.state();
        state.held += 1;
        state.most_held = state.most_held.max(state.held);
        state.log.push(format!("take {}", message.payload));
        drop(state);
        let id = format!("{}#{}", message.number, message.delivered);
        let mut envelope = Envelope::new(BrokerId::new(id), message.payload.clone());
        envelope.attempt = match broker.attempts {
            Counting::Header if message.counted == 0 => Attempt::FlagOnly(message.redelivered),
            Counting::Header => Attempt::AtLeast(message.counted + 1 + u32::from(message.redelivered)),
            Counting::Exact => Attempt::Exact(message.delivered),
            Counting::Nothing => Attempt::Unknown,
        };
        envelope.first_at = message.since;
        message.redelivered = true;
        Ok(Some(Taken { envelope, settle: Ticket { broker, message: Some(message) } }))
    }

    async fn stop(&mut self) {
        let mut state = self.broker.state();
        state.stopped = true;
        state.log.push("stop".to_owned());
    }

    async fn finish(&mut self) {
        self.broker.state().finished = true;
    }
}

pub(crate) struct Ticket {
    broker: Broker,
    message: Option<Message>,
}

impl Ticket {
    /// The message is gone from here.
    fn settled(&mut self, line: &str) -> Message {
        let message = self.message.take().expect("settled twice");
        let mut state = self.broker.state();
        state.held -= 1;
        state.log.push(format!("{line} {}", message.payload));
        drop(state);
        self.broker.changed.notify_waiters();
        message
    }

    /// What goes wrong, if anything: the answer.
    async fn fault(&mut self, op: Op) -> Option<Result<AckOutcome, BrokerError>> {
        match self.broker.next_fault(op)? {
            Fault::Says(outcome) => {
                // The broker did not hear it, so the message comes again.
                let message = self.settled(&format!("{op:?} {outcome:?}"));
                self.broker.back(message, Duration::ZERO);
                Some(Ok(outcome))
            }
            Fault::Fails => {
                self.broker.note(format!("{op:?} fails"));
                Some(Err(BrokerError::new("settling", "the script says no")))
            }
            Fault::Hangs => {
                self.broker.note(format!("{op:?} hangs"));
                pending().await
            }
        }
    }
}

impl Broker {
    fn back(&self, message: Message, after: Duration) {
        if after.is_zero() {
            self.state().queue.push_front(message);
            return self.changed.notify_waiters();
        }
        let broker = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            broker.state().queue.push_back(message);
            broker.changed.notify_waiters();
        });
    }
}

impl Settle for Ticket {
    async fn ack(&mut self) -> AckOutcome {
        if let Some(hook) = self.broker.before_ack.as_ref() {
            let payload = self.message.as_ref().expect("settled twice").payload.clone();
            hook(payload).await;
        }
        match self.fault(Op::Ack).await {
            None => {
                self.settled("ack");
                AckOutcome::Confirmed
            }
            Some(answer) => answer.unwrap_or(AckOutcome::Lost),
        }
    }

    async fn retry(&mut self, _: &Envelope, redelivery: &Redelivery) -> Result<AckOutcome, BrokerError> {
        if let Some(answer) = self.fault(Op::Retry).await {
            return answer;
        }
        let mut message = self.settled("retry");
        message.counted = redelivery.attempts;
        // It is a new message to a broker that sets a flag.
        message.redelivered = false;
        message.since = Some(redelivery.first_at);
        self.broker.state().redeliveries.push(*redelivery);
        self.broker.back(message, redelivery.after);
        Ok(AckOutcome::Confirmed)
    }

    async fn dead_letter(&mut self, _: &Envelope, letter: &DeadLetter) -> Result<AckOutcome, BrokerError> {
        if let Some(answer) = self.fault(Op::DeadLetter).await {
            return answer;
        }
        let message = self.settled("dead-letter");
        self.broker.state().dead.push((message.payload, letter.clone()));
        self.broker.changed.notify_waiters();
        Ok(AckOutcome::Confirmed)
    }

    async fn give_back(&mut self) -> AckOutcome {
        let message = self.settled("give-back");
        self.broker.back(message, Duration::ZERO);
        AckOutcome::Sent
    }

    async fn extend(&mut self) -> AckOutcome {
        self.broker.state().extended += 1;
        self.broker.changed.notify_waiters();
        AckOutcome::Confirmed
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A connection that ends gives back what was not settled.
        if let Some(message) = self.message.take() {
            let mut state = self.broker.state.lock().unwrap();
            state.held -= 1;
            state.log.push(format!("drop {}", message.payload));
            state.queue.push_front(message);
            drop(state);
            self.broker.changed.notify_waiters();
        }
    }
}

impl Broker {
    /// A future that is ready when something is so: for shutdowns.
    pub(crate) fn when(
        &self,
        so: impl FnMut(&Self) -> bool + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let broker = self.clone();
        async move { broker.until(so).await }
    }

    /// A future that is ready when so many messages were acked.
    pub(crate) fn when_acked(&self, acks: usize) -> impl Future<Output = ()> + Send + 'static {
        self.when(move |broker| broker.count("ack ") >= acks)
    }

    /// A future that is ready when so many are among the dead letters.
    pub(crate) fn when_dead(&self, letters: usize) -> impl Future<Output = ()> + Send + 'static {
        self.when(move |broker| broker.dead().len() >= letters)
    }
}
