//! Servers of a test's own.

use std::{
    net::TcpListener,
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
};

/// A port that is free for now.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// A server and the processes that it started, until it is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts one, in a process group of its own. `variable` names the program where it is elsewhere.
    ///
    /// # Panics
    /// When there is no such program.
    pub fn start(command: &mut Command, variable: &str) -> Self {
        let started = command.stdin(Stdio::null()).process_group(0).spawn();
        Self(started.unwrap_or_else(|error| {
            let program = command.get_program().display();
            panic!("`{program}` does not start: {error}. Install it, or name it in {variable}")
        }))
    }

    fn signal(&self, signal: &str) -> std::io::Result<ExitStatus> {
        Command::new("kill").args([signal, "--", &format!("-{}", self.0.id())]).status()
    }

    /// Ends it with a signal, and waits until it is gone.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub async fn end(mut self, with: &str) {
        assert!(self.signal(with).expect("kill").success());
        tokio::task::spawn_blocking(move || self.0.wait()).await.expect("waiting").expect("it ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended is no group any more.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.signal("-KILL");
            let _ = self.0.wait();
        }
    }
}
