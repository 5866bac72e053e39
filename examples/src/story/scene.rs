//! What a story prints, and what it found wrong.

use super::StoryError;
use crate::paper::{Paper, Tone};
use idem_runtime::SqliteStore;
use sqlx::{AssertSqlSafe, Row as _};
use std::{fmt::Display, io::Write};

const DELIVERY: usize = 12;
const WHAT: usize = 27;
const WITH: usize = 46;
const CHECKED: usize = 44;
const NUMBER: usize = 14;

/// Where a story is told.
#[derive(Debug)]
pub(crate) struct Scene<W> {
    paper: Paper<W>,
    acts: usize,
    /// What was compared.
    checks: usize,
    /// What is not as it should be with idem.
    wrong: Vec<String>,
    /// Whether anything is wrong without.
    shows_a_difference: bool,
}

impl<W: Write> Scene<W> {
    /// A scene on this output.
    pub(crate) const fn new(out: W, colour: bool) -> Self {
        Self { paper: Paper::new(out, colour), acts: 0, checks: 0, wrong: Vec::new(), shows_a_difference: false }
    }

    /// What the whole story is about.
    pub(crate) fn opening(&mut self, title: &str, says: &[&str]) -> Result<(), StoryError> {
        self.painted(Tone::Strong, title)?;
        says.iter().try_for_each(|says| self.says(says))
    }

    /// What an act is about.
    pub(crate) fn act(&mut self, title: &str, says: &str) -> Result<(), StoryError> {
        self.acts += 1;
        self.says("")?;
        self.painted(Tone::Strong, &format!("{}. {title}", self.acts))?;
        self.says(&format!("   {says}"))?;
        let heads = format!("   {:DELIVERY$}{:WHAT$}{:WITH$}{}", "delivery", "what", "with idem", "without");
        self.painted(Tone::Quiet, &heads)
    }

    /// One delivery, or several at once.
    pub(crate) fn delivery(
        &mut self,
        delivery: impl Display,
        what: impl Display,
        with: impl Display,
        without: impl Display,
    ) -> Result<(), StoryError> {
        let (delivery, what, with) = (delivery.to_string(), what.to_string(), with.to_string());
        self.says(&format!("   {delivery:DELIVERY$}{what:WHAT$}{with:WITH$}{without}"))
    }

    /// The rows of a table at the end, as text. A column is a name, or a name and the SQL that shows it: `key: substr(key, 1, 6)`.
    pub(crate) async fn table(
        &mut self,
        store: &SqliteStore,
        title: &str,
        from: &str,
        columns: &[&str],
    ) -> Result<(), StoryError> {
        let columns: Vec<(&str, &str)> =
            columns.iter().map(|column| column.split_once(": ").unwrap_or((column, column))).collect();
        let texts: Vec<_> = columns.iter().map(|(_, sql)| format!("COALESCE(CAST({sql} AS TEXT), 'NULL')")).collect();
        // The words are the story's own.
        let sql = AssertSqlSafe(format!("SELECT {} FROM {from}", texts.join(", ")));
        let mut rows = vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()];
        for row in sqlx::query(sql).fetch_all(store.pool()).await? {
            rows.push((0..columns.len()).map(|nth| row.try_get(nth)).collect::<Result<_, _>>()?);
        }
        let width = |nth: usize| rows.iter().map(|row| row[nth].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        self.says("")?;
        self.painted(Tone::Strong, title)?;
        for (nth, row) in rows.iter().enumerate() {
            let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            let tone = if nth == 0 { Tone::Quiet } else { Tone::Odd };
            let line = format!("   {}", cells.join("  ").trim_end());
            if nth == 0 { self.painted(tone, &line)? } else { self.says(&line)? }
        }
        Ok(())
    }

    /// The heads of the closing comparison.
    pub(crate) fn comparison(&mut self, title: &str) -> Result<(), StoryError> {
        self.says("")?;
        self.painted(Tone::Strong, title)?;
        let heads =
            format!("   {:CHECKED$}{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}", "", "right", "with idem", "without idem");
        self.painted(Tone::Quiet, &heads)
    }

    /// One line of the comparison.
    pub(crate) fn compare<T: PartialEq + Display>(
        &mut self,
        what: &str,
        right: &T,
        with: &T,
        without: &T,
    ) -> Result<(), StoryError> {
        self.checks += 1;
        self.shows_a_difference |= without != right;
        if with != right {
            self.wrong.push(format!("{what}: {with}, and {right} is right"));
        }
        let tone = |value: &T| if value == right { Tone::Good } else { Tone::Bad };
        let with_text = self.paper.paint(tone(with), &format!("{:>NUMBER$}", with.to_string()));
        let without_text = self.paper.paint(tone(without), &format!("{:>NUMBER$}", without.to_string()));
        self.says(&format!("   {what:CHECKED$}{:>NUMBER$}{with_text}{without_text}", right.to_string()))
    }

    /// The last words.
    pub(crate) fn verdict(&mut self, right: &str) -> Result<(), StoryError> {
        self.says("")?;
        if self.is_right() {
            self.painted(Tone::Good, &format!("Right: {right}"))?;
        } else {
            self.painted(Tone::Bad, "WRONG with idem:")?;
            for wrong in std::mem::take(&mut self.wrong) {
                self.says(&format!("   {wrong}"))?;
                self.wrong.push(wrong);
            }
        }
        if !self.shows_a_difference {
            self.warn("The handlers without idem are right as well: this data proves nothing.")?;
        }
        Ok(())
    }

    /// Whether all that was compared is right with idem. Nothing compared is not right.
    pub(crate) const fn is_right(&self) -> bool {
        self.checks > 0 && self.wrong.is_empty()
    }

    /// A line.
    pub(crate) fn says(&mut self, text: &str) -> Result<(), StoryError> {
        self.paper.line(text).map_err(|source| StoryError::Io { what: "printing", source })
    }

    /// A line that nobody should miss.
    pub(crate) fn warn(&mut self, text: &str) -> Result<(), StoryError> {
        self.painted(Tone::Bad, text)
    }

    fn painted(&mut self, tone: Tone, text: &str) -> Result<(), StoryError> {
        let text = self.paper.paint(tone, text);
        self.says(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::Scene;

    fn compared(with: i64, without: i64) -> (bool, String) {
        let mut out = Vec::new();
        let mut scene = Scene::new(&mut out, false);
        scene.comparison("Stock").unwrap();
        scene.compare("cups", &7, &with, &without).unwrap();
        scene.verdict("counted once.").unwrap();
        let right = scene.is_right();
        (right, String::from_utf8(out).unwrap())
    }

    #[test]
    fn only_what_is_equal_is_right() {
        let (right, text) = compared(7, 4);
        assert!(right && text.contains("Right: counted once.") && !text.contains("proves nothing"), "{text}");
        let (right, text) = compared(4, 4);
        assert!(!right && text.contains("WRONG with idem:\n   cups: 4, and 7 is right\n"), "{text}");
        let (right, text) = compared(7, 7);
        assert!(right && text.contains("proves nothing"), "{text}");
    }

    #[test]
    fn nothing_compared_is_not_right() {
        assert!(!Scene::new(Vec::new(), false).is_right());
    }
}
