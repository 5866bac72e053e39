//! What a report is written on: lines, with colour where a person looks.

use std::io::{self, Write};

/// An output for people.
#[derive(Debug)]
pub(crate) struct Paper<W> {
    out: W,
    colour: bool,
}

/// The colours, by what they mean.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// Wrong.
    Bad,
    /// Out of the ordinary.
    Odd,
    /// In the background.
    Quiet,
    /// A title.
    Strong,
}

impl<W: Write> Paper<W> {
    /// Writes to this output.
    pub(crate) const fn new(out: W, colour: bool) -> Self {
        Self { out, colour }
    }

    /// Writes a line, without blanks at its end.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", text.trim_end()).or_else(closed_pipe)
    }

    /// The text in this tone. Colour adds no width: pad before.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Odd => "33",
            Tone::Quiet => "2",
            Tone::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// A reader that has seen enough (`| head`) is no failure of the run: the check goes on.
fn closed_pipe(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}
