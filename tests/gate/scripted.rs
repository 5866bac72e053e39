//! A gate of the tests' own: it writes down what it is asked, keeps marks and memories as a gate should, and misbehaves when
//! told to.

use idem_runtime::{
    Key,
    gate::{Begin, Finished, Gate, GateFuture, InFlight, Look},
};
use std::{
    collections::HashMap,
    fmt,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::yield_now;

/// What it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Look,
    Begin(String),
    Remember(Finished, Duration),
    Release(String),
    Forget,
}

/// How it behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Honest,
    /// Whatever it is asked about is this.
    Says(Look),
    /// It answers nothing at all.
    Hangs,
    PanicsWhenCalled,
    PanicsWhenPolled,
}

type Probe = Box<dyn Fn() -> GateFuture<'static, ()> + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    manner: Manner,
    calls: Vec<Call>,
    finished: HashMap<String, (Finished, Duration)>,
    marks: HashMap<String, InFlight>,
    at_remember: Option<Arc<Probe>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    pub(crate) fn behave(&self, manner: Manner) {
        self.0.lock().unwrap().manner = manner;
    }

    /// Runs something whenever the gate is told to remember, before it does.
    pub(crate) fn at_remember(&self, probe: impl Fn() -> GateFuture<'static, ()> + Send + Sync + 'static) {
        self.0.lock().unwrap().at_remember = Some(Arc::new(Box::new(probe)));
    }

    /// What it was asked since the last call.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    /// What was remembered since the last look at its calls, and for how long.
    pub(crate) fn remembered(&self) -> Vec<(Finished, Duration)> {
        let told = |call| if let Call::Remember(finished, keep) = call { Some((finished, keep)) } else { None };
        self.calls().into_iter().filter_map(told).collect()
    }

    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.0.lock().unwrap().finished.contains_key(&key.to_string())
    }

    pub(crate) fn mark_of(&self, key: &Key) -> Option<InFlight> {
        self.0.lock().unwrap().marks.get(&key.to_string()).cloned()
    }

    /// Puts a mark there, as another process would.
    pub(crate) fn put_mark(&self, key: &Key, mark: InFlight) {
        self.0.lock().unwrap().marks.insert(key.to_string(), mark);
    }

    /// Its mark expires.
    pub(crate) fn expire_mark(&self, key: &Key) {
        self.0.lock().unwrap().marks.remove(&key.to_string());
    }

    fn called(&self, call: Call) -> Manner {
        let mut script = self.0.lock().unwrap();
        script.calls.push(call);
        let manner = script.manner.clone();
        drop(script);
        assert_ne!(manner, Manner::PanicsWhenCalled, "a gate that panics");
        manner
    }
}

/// Waits before and after what is done, so that a future can be dropped on either side of it.
fn answer<'a, T: Send + 'a>(manner: Manner, act: impl FnOnce(Manner) -> T + Send + 'a) -> GateFuture<'a, T> {
    Box::pin(async move {
        match manner {
            Manner::Hangs => pending().await,
            Manner::PanicsWhenPolled => panic!("a gate that panics later"),
            Manner::PanicsWhenCalled | Manner::Honest | Manner::Says(_) => {}
        }
        yield_now().await;
        let answer = act(manner);
        yield_now().await;
        answer
    })
}

impl Gate for Scripted {
    fn look<'a>(&'a self, key: &'a Key) -> GateFuture<'a, Look> {
        answer(self.called(Call::Look), move |manner| match manner {
            Manner::Says(look) => look,
            _ => match self.0.lock().unwrap().finished.get(&key.to_string()) {
                Some((finished, left)) => Look::Finished { finished: finished.clone(), left: *left },
                None => Look::Unknown,
            },
        })
    }

    fn remember<'a>(&'a self, key: &'a Key, finished: &'a Finished, keep: Duration) -> GateFuture<'a, ()> {
        let remember = answer(self.called(Call::Remember(finished.clone(), keep)), move |_| {
            self.0.lock().unwrap().finished.insert(key.to_string(), (finished.clone(), keep));
        });
        let probe = self.0.lock().unwrap().at_remember.clone();
        Box::pin(async move {
            if let Some(probe) = probe {
                probe().await;
            }
            remember.await;
        })
    }

    fn begin<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, Begin> {
        answer(self.called(Call::Begin(mine.owner.clone())), move |_| {
            let mut script = self.0.lock().unwrap();
            if let Some(by) = script.marks.get(&key.to_string()) {
                return Begin::Taken { by: by.clone(), retry_after: Duration::from_secs(7) };
            }
            script.marks.insert(key.to_string(), mine.clone());
            Begin::Go
        })
    }

    fn release<'a>(&'a self, key: &'a Key, mine: &'a InFlight) -> GateFuture<'a, ()> {
        answer(self.called(Call::Release(mine.owner.clone())), move |_| {
            let mut script = self.0.lock().unwrap();
            if script.marks.get(&key.to_string()).is_some_and(|mark| mark.owner == mine.owner) {
                script.marks.remove(&key.to_string());
            }
        })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> GateFuture<'a, ()> {
        answer(self.called(Call::Forget), move |_| {
            self.0.lock().unwrap().finished.remove(&key.to_string());
        })
    }
}
