//! What the run prints.

use super::{
    act::{Act, Delivery},
    endpoint::Answer,
    error::StoryError,
    ledger::Books,
    notification::Notification,
    verdict::{Row, Verdict},
};
use crate::{
    money::Cents,
    paper::{Paper, Tone},
};
use std::{io::Write, path::Path};

const ANSWER: usize = 9;
const AMOUNT: usize = 8;
const WITHOUT: usize = 9;

/// Writes the report. Colour only where a person looks.
#[derive(Debug)]
pub(crate) struct Report<W> {
    paper: Paper<W>,
    columns: Columns,
}

/// The widths of the columns that depend on the data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Columns {
    id: usize,
    key: usize,
}

impl Columns {
    /// Wide enough for these notifications.
    pub(crate) fn of<'a>(notifications: impl IntoIterator<Item = &'a Notification>) -> Self {
        notifications.into_iter().fold(Self::default(), |columns, notification| Self {
            id: columns.id.max(notification.delivery_id().len()),
            key: columns.key.max(notification.key().len()),
        })
    }
}

impl<W: Write> Report<W> {
    /// A report on this output.
    pub(crate) const fn new(out: W, colour: bool, columns: Columns) -> Self {
        Self { paper: Paper::new(out, colour), columns }
    }

    /// What the whole run is about.
    pub(crate) fn opening(&mut self, files: usize, sabotaged: bool) -> Result<(), StoryError> {
        let title = self.paint(Tone::Strong, "Payment callbacks on embedded SQLite");
        self.line(&title)?;
        self.line(&format!(
            "{files} notifications of Alipay and WeChat Pay go to the same handlers twice: with #[idempotent],"
        ))?;
        self.line("and without it, each in a plain transaction. One line a delivery.")?;
        if sabotaged {
            let warning = "--unprotected: the handlers without idem stand in for those with it. The check must fail.";
            let warning = self.paint(Tone::Bad, warning);
            self.line(&warning)?;
        }
        Ok(())
    }

    /// What an act is about, and the heads of its columns.
    pub(crate) fn act(&mut self, nth: usize, act: &Act) -> Result<(), StoryError> {
        let title = self.paint(Tone::Strong, &format!("{}. {}", nth + 1, act.title));
        self.line("")?;
        self.line(&title)?;
        self.line(&format!("   {}", act.says))?;
        let Columns { id, key } = self.columns;
        let heads = format!(
            "   {:id$}  {:key$}  {:ANSWER$} {:AMOUNT$}  {:>WITHOUT$}",
            "delivery", "key", "with idem", "", "without"
        );
        let heads = self.paint(Tone::Quiet, &heads);
        self.line(&heads)
    }

    /// One delivery.
    pub(crate) fn delivery(&mut self, delivery: &Delivery) -> Result<(), StoryError> {
        let Delivery { id, key, with, without } = delivery;
        let amount = with.booked().map(Cents::signed).unwrap_or_default();
        let with_tone = match with {
            Answer::First(_) => Tone::Good,
            Answer::Duplicate | Answer::Ignored => Tone::Quiet,
            Answer::Busy(_) | Answer::Failed(_) | Answer::Cancelled | Answer::Killed => Tone::Odd,
        };
        let with_text = self.paint(with_tone, &format!("{:ANSWER$} {amount:>AMOUNT$}", with.label()));
        // Without idem each delivery is a first one, so the amount says it all.
        let without_text = without.booked().map_or_else(|| without.label().to_owned(), Cents::signed);
        let again = matches!(with, Answer::Duplicate) && without.booked().is_some_and(|amount| amount != Cents::ZERO);
        let without_tone = match without {
            Answer::First(_) if again => Tone::Bad,
            Answer::First(_) => Tone::Quiet,
            _ => Tone::Odd,
        };
        let without_text = self.paint(without_tone, &format!("{without_text:>WITHOUT$}"));
        let Columns { id: id_width, key: key_width } = self.columns;
        self.line(&format!("   {id:id_width$}  {key:key_width$}  {with_text}  {without_text}"))?;
        if let Some(reason) = with.reason().or_else(|| without.reason()) {
            let reason = self.paint(Tone::Odd, &format!("     {reason}"));
            self.line(&reason)?;
        }
        Ok(())
    }

    /// The closing table.
    pub(crate) fn verdict(&mut self, verdict: &Verdict) -> Result<(), StoryError> {
        let title = self.paint(Tone::Strong, "Balances in CNY");
        self.line("")?;
        self.line(&title)?;
        let heads = format!(
            "   {:<8}{:<18}{:>12}{:>14}{:>16}{:>14}",
            "", "merchant", "expected", "with idem", "without idem", "off by"
        );
        let heads = self.paint(Tone::Quiet, &heads);
        self.line(&heads)?;
        for row in &verdict.rows {
            self.balance(&row.channel, &row.merchant, row.expected, row.with.balance, row.without.balance)?;
        }
        self.balance("total", "", verdict.expected, verdict.with, verdict.without)?;
        self.line("")?;
        if verdict.is_right() {
            let says = "Right: with idem every balance is what the data files add up to, each fact counted once.";
            let says = self.paint(Tone::Good, says);
            self.line(&says)?;
        } else {
            let says = self.paint(Tone::Bad, "WRONG: the money with idem is not what the data files add up to.");
            self.line(&says)?;
            for row in verdict.rows.iter().filter(|row| !row.is_right()) {
                let Books { balance, flow } = row.with;
                let Row { channel, merchant, expected, .. } = row;
                self.line(&format!(
                    "   {channel} {merchant}: expected {expected}, balance {balance}, movements {flow}"
                ))?;
            }
        }
        if !verdict.shows_a_difference() {
            let warning = self.paint(Tone::Bad, "The handler without idem is right as well: this data proves nothing.");
            self.line(&warning)?;
        }
        Ok(())
    }

    /// Where the databases were kept.
    pub(crate) fn kept(&mut self, folder: &Path) -> Result<(), StoryError> {
        self.line(&format!("kept: {}", folder.display()))
    }

    fn balance(
        &mut self,
        channel: &str,
        merchant: &str,
        expected: Cents,
        with: Cents,
        without: Cents,
    ) -> Result<(), StoryError> {
        let tone = |amount| if amount == expected { Tone::Good } else { Tone::Bad };
        let off = without.minus(expected).ok_or(StoryError::OutOfRange)?;
        let off = if off == Cents::ZERO { String::new() } else { off.signed() };
        let with_text = self.paint(tone(with), &format!("{with:>14}"));
        let without_text = self.paint(tone(without), &format!("{without:>16}"));
        self.line(&format!("   {channel:<8}{merchant:<18}{expected:>12}{with_text}{without_text}{off:>14}"))
    }

    fn line(&mut self, text: &str) -> Result<(), StoryError> {
        self.paper.line(text).map_err(|source| StoryError::Io { what: "printing", source })
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        self.paper.paint(tone, text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Cents, Columns, Delivery, Report};

    fn printed(colour: bool, delivery: &Delivery) -> String {
        let mut out = Vec::new();
        Report::new(&mut out, colour, Columns { id: 34, key: 37 }).delivery(delivery).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn delivery(with: Answer, without: Answer) -> Delivery {
        Delivery { id: "EV-1".into(), key: "W1:SUCCESS".into(), with, without }
    }

    #[test]
    fn a_delivery_is_one_line_in_columns() {
        let first = printed(false, &delivery(Answer::First(Cents::new(8888)), Answer::First(Cents::new(8888))));
        let again = printed(false, &delivery(Answer::Duplicate, Answer::First(Cents::new(8888))));
        assert_eq!(first.lines().count(), 1);
        assert_eq!(first.find("first"), again.find("duplicate"));
        assert_eq!(first.rfind("+88.88"), again.rfind("+88.88"));
        assert!(!first.contains('\u{1b}'), "no colour unless asked for");
        assert!(first.trim_end().len() <= 110, "{}", first.len());
    }

    #[test]
    fn a_failure_has_its_reason_below() {
        let failed = printed(false, &delivery(Answer::Failed("no stock".into()), Answer::Killed));
        let lines: Vec<_> = failed.lines().collect();
        assert!(lines[0].contains("failed") && lines[0].ends_with("killed"), "{failed}");
        assert!(lines[1].ends_with("no stock"), "{failed}");
    }

    #[test]
    fn a_second_booking_is_red() {
        let again = printed(true, &delivery(Answer::Duplicate, Answer::First(Cents::new(8888))));
        assert!(again.contains("\u{1b}[31m   +88.88\u{1b}[0m"), "{again:?}");
    }
}
