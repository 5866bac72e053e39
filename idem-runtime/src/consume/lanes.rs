use std::collections::{HashMap, VecDeque};
use tokio::sync::oneshot;

/// Who may run: at most so many at once, and of each lane one after the other.
///
/// A message waits for its turn on a channel. When the other end is dropped it is to be given back.
#[derive(Debug)]
pub(super) struct Lanes {
    running: usize,
    at_once: usize,
    ready: VecDeque<oneshot::Sender<()>>,
    /// Who waits behind the one that has the lane.
    waiting: HashMap<String, VecDeque<oneshot::Sender<()>>>,
}

impl Lanes {
    pub(super) fn new(at_once: usize) -> Self {
        Self { running: 0, at_once, ready: VecDeque::new(), waiting: HashMap::new() }
    }

    /// A place for a message; the receiver tells it when its turn has come.
    pub(super) fn admit(&mut self, lane: Option<&str>) -> oneshot::Receiver<()> {
        let (turn, its_turn) = oneshot::channel();
        match lane {
            Some(lane) => {
                if let Some(waiting) = self.waiting.get_mut(lane) {
                    waiting.push_back(turn);
                } else {
                    self.waiting.insert(lane.to_owned(), VecDeque::new());
                    self.ready.push_back(turn);
                }
            }
            None => self.ready.push_back(turn),
        }
        self.start();
        its_turn
    }

    /// A message that had its turn has left. `returned`: it went back to the broker, so those behind it go too.
    pub(super) fn leave(&mut self, lane: Option<&str>, returned: bool) {
        self.running = self.running.saturating_sub(1);
        if let Some(lane) = lane {
            let next = if returned { None } else { self.waiting.get_mut(lane).and_then(next_that_waits) };
            match next {
                Some(turn) => self.ready.push_back(turn),
                None => drop(self.waiting.remove(lane)),
            }
        }
        self.start();
    }

    fn start(&mut self) {
        while self.running < self.at_once
            && let Some(turn) = self.ready.pop_front()
        {
            // One that stopped waiting has been given back.
            if turn.send(()).is_ok() {
                self.running += 1;
            }
        }
    }
}

fn next_that_waits(waiting: &mut VecDeque<oneshot::Sender<()>>) -> Option<oneshot::Sender<()>> {
    while let Some(turn) = waiting.pop_front() {
        if !turn.is_closed() {
            return Some(turn);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Lanes;
    use tokio::sync::oneshot::error::TryRecvError;

    #[test]
    fn so_many_at_once() {
        let mut lanes = Lanes::new(2);
        let mut places: Vec<_> = (0..4).map(|_| lanes.admit(None)).collect();
        let may_run = |place: &mut tokio::sync::oneshot::Receiver<()>| place.try_recv().is_ok();
        assert_eq!(places.iter_mut().map(may_run).collect::<Vec<_>>(), [true, true, false, false]);
        lanes.leave(None, false);
        assert_eq!(places[2..].iter_mut().map(may_run).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_lane_is_one_after_the_other_and_no_other_lane_waits_for_it() {
        let mut lanes = Lanes::new(8);
        let (mut a, mut a2, mut b) = (lanes.admit(Some("a")), lanes.admit(Some("a")), lanes.admit(Some("b")));
        assert!(a.try_recv().is_ok() && b.try_recv().is_ok());
        assert_eq!(a2.try_recv(), Err(TryRecvError::Empty));
        lanes.leave(Some("b"), false);
        assert_eq!(a2.try_recv(), Err(TryRecvError::Empty));
        lanes.leave(Some("a"), false);
        assert!(a2.try_recv().is_ok());
        lanes.leave(Some("a"), false);
        assert!(lanes.waiting.is_empty());
    }

    #[test]
    fn who_waits_behind_one_that_went_back_goes_back_too() {
        let mut lanes = Lanes::new(8);
        let (_a, mut a2) = (lanes.admit(Some("a")), lanes.admit(Some("a")));
        lanes.leave(Some("a"), true);
        assert_eq!(a2.try_recv(), Err(TryRecvError::Closed));
        assert!(lanes.admit(Some("a")).try_recv().is_ok());
    }
}
