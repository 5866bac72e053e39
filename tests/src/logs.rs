//! Listening to the events of one thread.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};

/// An event: its level, and its fields as text.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The level.
    pub level: Level,
    /// The fields, `message` among them.
    pub fields: BTreeMap<String, String>,
}

impl Heard {
    /// A field's text, or nothing.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// Hears the events with the target `idem` that the current thread emits while this lives.
#[derive(Debug)]
pub struct Listener {
    heard: Arc<Mutex<Vec<Heard>>>,
    _guard: DefaultGuard,
}

impl Listener {
    /// Starts to listen.
    #[must_use]
    pub fn start() -> Self {
        // While there is but one listener, tracing asks the thread that comes to an event first whether anybody wants it,
        // for all threads. A second one, which nobody listens to, makes it ask all listeners.
        static ELSEWHERE: OnceLock<Dispatch> = OnceLock::new();
        ELSEWHERE.get_or_init(|| Dispatch::new(Ear(Arc::default())));
        let heard = Arc::default();
        let guard = tracing::subscriber::set_default(Ear(Arc::clone(&heard)));
        Self { heard, _guard: guard }
    }

    /// All events since the last call: one a delivery, and what is said on the way, restarts for example.
    #[must_use]
    pub fn events(&self) -> Vec<Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// The events that say how a delivery came out, since the last call.
    #[must_use]
    pub fn outcomes(&self) -> Vec<Heard> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.drain(..).filter(|event| event.fields.contains_key("idem.outcome")).collect()
    }
}

/// The events with the target `idem` of all threads that no [`Listener`] sits on, since the first call. A test picks out its
/// own by a field, since others run beside it.
#[must_use]
pub fn everywhere(field: &str, value: &str) -> Vec<Heard> {
    static HEARD: OnceLock<Arc<Mutex<Vec<Heard>>>> = OnceLock::new();
    let heard = HEARD.get_or_init(|| {
        let heard = Arc::default();
        // Another one would be another test's: there is none in this laboratory.
        let _ = tracing::subscriber::set_global_default(Ear(Arc::clone(&heard)));
        heard
    });
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    heard.iter().filter(|event| event.field(field) == Some(value)).cloned().collect()
}

struct Ear(Arc<Mutex<Vec<Heard>>>);

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "idem"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let heard = Heard { level: *event.metadata().level(), fields: fields.0 };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
