//! How far a partition is done.

use std::collections::BTreeMap;

/// The offsets of one partition that were taken since it was assigned, and which of them are done.
///
/// Kafka keeps one number for a group and a partition: everything before it is done. So it may only ever be the first
/// offset that is not. Offsets have gaps (compaction, the marks of transactions), which nobody waits for.
#[derive(Debug, Default)]
pub(super) struct Watermark {
    /// From the first that is not done on: whether it is done.
    window: BTreeMap<i64, bool>,
    /// The first offset that has not been taken. `None` before the first is.
    next: Option<i64>,
}

impl Watermark {
    /// Notes that an offset was taken. `false` when it, or a later one, was taken before: the log began anew.
    pub(super) fn take(&mut self, offset: i64) -> bool {
        if self.next.is_some_and(|next| offset < next) {
            return false;
        }
        self.window.insert(offset, false);
        self.next = Some(offset.saturating_add(1));
        true
    }

    /// Notes that an offset is done. `false` when it was not taken, or was done before.
    pub(super) fn done(&mut self, offset: i64) -> bool {
        match self.window.get_mut(&offset) {
            Some(done) if !*done => *done = true,
            _ => return false,
        }
        while let Some(first) = self.window.first_entry()
            && *first.get()
        {
            first.remove();
        }
        true
    }

    /// What may be committed: the first offset that is not done. `None` before any was taken.
    pub(super) fn position(&self) -> Option<i64> {
        self.window.first_key_value().map(|(offset, _)| *offset).or(self.next)
    }

    /// How many offsets lie between what is done and what was taken.
    pub(super) fn len(&self) -> usize {
        self.window.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Watermark;

    #[test]
    fn what_is_done_out_of_order_waits_for_what_is_not() {
        let mut watermark = Watermark::default();
        assert_eq!(watermark.position(), None);
        for offset in [7, 8, 12] {
            assert!(watermark.take(offset));
        }
        assert!(watermark.done(8));
        assert!(watermark.done(12));
        assert_eq!((watermark.position(), watermark.len()), (Some(7), 3));
        assert!(watermark.done(7));
        assert_eq!((watermark.position(), watermark.len()), (Some(13), 0));
    }

    #[test]
    fn nothing_is_done_twice_or_before_it_was_taken() {
        let mut watermark = Watermark::default();
        assert!(!watermark.done(1));
        assert!(watermark.take(1));
        assert!(watermark.done(1));
        assert!(!watermark.done(1));
        assert!(!watermark.take(1), "the log began anew");
        assert_eq!(watermark.position(), Some(2));
    }

    /// Against the plain definition, over every order in which six offsets can be done, and every moment in it.
    #[test]
    fn the_position_is_the_first_that_is_not_done() {
        fn orders(left: &[i64], order: &mut Vec<i64>, check: &mut impl FnMut(&[i64])) {
            if left.is_empty() {
                return check(order);
            }
            for (at, offset) in left.iter().enumerate() {
                order.push(*offset);
                orders(&[&left[..at], &left[at + 1..]].concat(), order, check);
                order.pop();
            }
        }
        let offsets = [0, 1, 2, 5, 6, 9];
        let mut checked = 0;
        orders(&offsets, &mut Vec::new(), &mut |order| {
            for taken in 1..=offsets.len() {
                let mut watermark = Watermark::default();
                for offset in &offsets[..taken] {
                    assert!(watermark.take(*offset));
                }
                let mut done = Vec::new();
                for offset in order.iter().filter(|offset| offsets[..taken].contains(offset)) {
                    assert!(watermark.done(*offset));
                    done.push(*offset);
                    let first = offsets[..taken].iter().find(|offset| !done.contains(offset)).copied();
                    assert_eq!(watermark.position(), first.or(Some(offsets[taken - 1] + 1)), "{order:?}");
                    checked += 1;
                }
            }
        });
        assert_eq!(checked, 720 * (1 + 2 + 3 + 4 + 5 + 6));
    }
}
