//! What the consumer has of each partition, between the thread that polls and the engine.

use super::{message::Record, watermark::Watermark};
use crate::consume::AckOutcome;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::{sync::Notify, time::Instant};

pub(super) type Place = (String, i32);

/// A record that waits for the engine.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) record: Arc<Record>,
    /// Which assignment of its partition it came by.
    pub(super) generation: u64,
    /// How many of its deliveries have counted, where that is known.
    pub(super) attempts: Option<u32>,
    pub(super) first_at: Option<SystemTime>,
}

/// A partition that is ours.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) generation: u64,
    pub(super) watermark: Watermark,
    /// What was sent to be committed, and not refused since.
    pub(super) committed: Option<i64>,
    pub(super) paused: bool,
    /// It has a copy that is not due before.
    pub(super) not_before: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) partitions: HashMap<Place, Owned>,
    pub(super) ready: VecDeque<Waiting>,
    /// What comes again, or is not due yet.
    later: Vec<(Instant, Waiting)>,
    generation: u64,
    /// The last assignment that was lost and not given up in order.
    lost: u64,
    /// Nothing is handed out any more.
    pub(super) stopping: bool,
    /// The thread is to end.
    pub(super) ending: bool,
    /// Nothing is committed any more.
    pub(super) ended: bool,
    pub(super) failed: Option<rdkafka::error::KafkaError>,
}

/// The state, and who waits for it to change.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// For the engine: there may be something to hand out.
    pub(super) arrived: Notify,
    /// For the thread: there may be room.
    room: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for less than so many that wait for the engine, or for that long.
    pub(super) fn wait_for_room(&self, most: usize, at_most: Duration) {
        let full = |state: &mut State| state.ready.len() >= most && !state.ending && !state.stopping;
        drop(self.room.wait_timeout_while(self.lock(), at_most, full));
    }

    pub(super) fn made_room(&self) {
        self.room.notify_one();
    }

    pub(super) fn end(&self) {
        self.lock().ending = true;
        self.room.notify_one();
    }
}

impl State {
    pub(super) fn assigned(&mut self, places: Vec<Place>) {
        self.generation += 1;
        for place in places {
            let generation = self.generation;
            let watermark = Watermark::default();
            let owned = Owned { generation, watermark, committed: None, paused: false, not_before: None };
            self.partitions.insert(place, owned);
        }
    }

    /// Forgets partitions, and says what of them is done and not committed yet.
    pub(super) fn revoked(&mut self, places: &[Place], lost: bool) -> Vec<(Place, i64)> {
        let positions = self.uncommitted().into_iter().filter(|(place, _)| places.contains(place)).collect();
        for place in places {
            self.partitions.remove(place);
        }
        if lost {
            self.lost = self.generation;
        }
        let Self { partitions, ready, later, .. } = self;
        ready.retain(|waiting| owns(partitions, waiting));
        later.retain(|(_, waiting)| owns(partitions, waiting));
        positions
    }

    /// The positions that are not committed.
    pub(super) fn uncommitted(&self) -> Vec<(Place, i64)> {
        let moved = self.partitions.iter().filter_map(|(place, owned)| {
            let position = owned.watermark.position()?;
            (owned.committed != Some(position)).then(|| (place.clone(), position))
        });
        moved.collect()
    }

    pub(super) fn sent(&mut self, positions: &[(Place, i64)]) {
        for (place, position) in positions {
            if let Some(owned) = self.partitions.get_mut(place) {
                owned.committed = Some(*position);
            }
        }
    }

    /// A commit that was refused is made again.
    pub(super) fn refused(&mut self, place: &Place) {
        if let Some(owned) = self.partitions.get_mut(place) {
            owned.committed = None;
        }
    }

    /// Takes a record in. One of a partition that is not ours any more is nobody's here.
    pub(super) fn take(&mut self, record: Record, longest_pause: Duration) {
        let place = (record.topic.clone(), record.partition);
        let Some(owned) = self.partitions.get_mut(&place) else { return };
        if !owned.watermark.take(record.offset) {
            // The log began anew: what was taken of the old one is as good as revoked.
            self.revoked(std::slice::from_ref(&place), false);
            self.assigned(vec![place]);
            return self.take(record, longest_pause);
        }
        // Where it began there is nothing to be committed.
        owned.committed = owned.committed.or(owned.watermark.position());
        // A sender's clock that is wrong makes nobody wait for longer than a step.
        let due = record.due_in().map(|due| Instant::now() + due.min(longest_pause));
        owned.not_before = due;
        let waiting = Waiting {
            generation: owned.generation,
            attempts: record.attempts(),
            first_at: None,
            record: record.into(),
        };
        match due {
            Some(due) => self.later.push((due, waiting)),
            None => self.ready.push_back(waiting),
        }
    }

    /// What is to be handed out now; else, when to look again.
    pub(super) fn next(&mut self) -> Result<Waiting, Option<Instant>> {
        if self.stopping {
            return Err(None);
        }
        let first = self.later.iter().enumerate().min_by_key(|(_, (due, waiting))| (*due, waiting.record.offset));
        let first = first.map(|(at, (due, _))| (at, *due));
        match first {
            Some((at, due)) if due <= Instant::now() => Ok(self.later.swap_remove(at).1),
            first => self.ready.pop_front().ok_or(first.map(|(_, due)| due)),
        }
    }

    /// Lets a record come again, when its partition is still ours.
    pub(super) fn again(&mut self, waiting: Waiting, after: Duration) -> AckOutcome {
        let ours = self.ours(&waiting);
        if ours.is_settled() {
            self.later.push((Instant::now() + after, waiting));
        }
        ours
    }

    pub(super) fn done(&mut self, waiting: &Waiting) -> AckOutcome {
        let ours = self.ours(waiting);
        if ours.is_settled() {
            let place = (waiting.record.topic.clone(), waiting.record.partition);
            if let Some(owned) = self.partitions.get_mut(&place) {
                owned.watermark.done(waiting.record.offset);
            }
        }
        ours
    }

    /// Whether what is done with a record now can still be committed.
    pub(super) fn ours(&self, waiting: &Waiting) -> AckOutcome {
        if self.ended {
            AckOutcome::Lost
        } else if owns(&self.partitions, waiting) {
            AckOutcome::Sent
        } else if waiting.generation <= self.lost {
            AckOutcome::Lost
        } else {
            AckOutcome::NotOwner
        }
    }
}

fn owns(partitions: &HashMap<Place, Owned>, waiting: &Waiting) -> bool {
    let place = (waiting.record.topic.clone(), waiting.record.partition);
    partitions.get(&place).is_some_and(|owned| owned.generation == waiting.generation)
}

#[cfg(test)]
mod tests {
    use super::{Place, State, Waiting};
    use crate::{consume::AckOutcome, kafka::message::Record};
    use std::time::Duration;

    fn place() -> Place {
        ("deduct".to_owned(), 0)
    }

    fn taken(offsets: impl IntoIterator<Item = i64>) -> (State, Vec<Waiting>) {
        let mut state = State::default();
        state.assigned(vec![place()]);
        let taken = offsets.into_iter().map(|offset| take(&mut state, offset)).collect();
        (state, taken)
    }

    fn take(state: &mut State, offset: i64) -> Waiting {
        state.take(Record::bare("deduct", offset), Duration::ZERO);
        state.next().expect("what was taken")
    }

    #[test]
    fn a_partition_that_was_taken_away_takes_no_more_acks() {
        let (mut state, taken) = taken(0..3);
        assert_eq!(state.done(&taken[0]), AckOutcome::Sent);
        assert_eq!(state.revoked(&[place()], false), [(place(), 1)]);
        assert_eq!(state.done(&taken[1]), AckOutcome::NotOwner);
        // It comes back, from where it was committed: a ticket of before is no ticket of now.
        state.assigned(vec![place()]);
        let again = take(&mut state, 1);
        assert_eq!(state.done(&taken[1]), AckOutcome::NotOwner);
        assert_eq!(state.uncommitted(), []);
        assert_eq!(state.done(&again), AckOutcome::Sent);
        assert_eq!(state.uncommitted(), [(place(), 2)]);
    }

    #[test]
    fn acks_after_a_lost_assignment_or_the_end_are_lost() {
        let (mut state, taken) = taken(0..2);
        state.revoked(&[place()], true);
        assert_eq!(state.done(&taken[0]), AckOutcome::Lost);
        state.assigned(vec![place()]);
        let again = take(&mut state, 0);
        state.ended = true;
        assert_eq!(state.done(&again), AckOutcome::Lost);
        assert_eq!(state.uncommitted(), []);
    }

    #[test]
    fn what_waits_goes_with_its_partition() {
        let (mut state, taken) = taken(0..1);
        state.take(Record::bare("deduct", 1), Duration::ZERO);
        assert_eq!(state.again(taken[0].clone(), Duration::ZERO), AckOutcome::Sent);
        state.revoked(&[place()], false);
        assert!(state.next().is_err());
        assert_eq!(state.again(taken[0].clone(), Duration::ZERO), AckOutcome::NotOwner);
        assert!(state.next().is_err());
    }

    #[test]
    fn a_retry_holds_the_position_and_comes_before_new_ones() {
        let (mut state, taken) = taken(0..2);
        state.take(Record::bare("deduct", 2), Duration::ZERO);
        assert_eq!(state.again(taken[0].clone(), Duration::ZERO), AckOutcome::Sent);
        assert_eq!(state.done(&taken[1]), AckOutcome::Sent);
        assert_eq!(state.uncommitted(), []);
        assert_eq!(state.next().expect("the retry").record.offset, 0);
        assert_eq!(state.done(&taken[0]), AckOutcome::Sent);
        assert_eq!(state.uncommitted(), [(place(), 2)]);
    }

    #[test]
    fn a_refused_commit_is_made_again() {
        let (mut state, taken) = taken(0..1);
        state.done(&taken[0]);
        let positions = state.uncommitted();
        state.sent(&positions);
        assert!(state.uncommitted().is_empty());
        state.refused(&place());
        assert_eq!(state.uncommitted(), positions);
    }

    /// The topic was deleted and made again, or the offset was out of its range.
    #[test]
    fn a_log_that_began_anew_is_followed() {
        let (mut state, taken) = taken(10..12);
        let anew = take(&mut state, 0);
        assert_eq!(state.done(&taken[0]), AckOutcome::NotOwner);
        assert_eq!(state.done(&anew), AckOutcome::Sent);
        assert_eq!(state.uncommitted(), [(place(), 1)]);
    }
}
