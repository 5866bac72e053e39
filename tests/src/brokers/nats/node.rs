//! A NATS server of the test's own, that may be stopped and killed.

use crate::process::{Process, free_port};
use async_nats::jetstream::context::GetStreamErrorKind;
use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    time::Duration,
};

pub(super) struct Node {
    directory: tempfile::TempDir,
    port: u16,
    process: Option<Process>,
}

impl Node {
    pub(super) async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut node = Self { directory, port: free_port(), process: None };
        node.start().await;
        node
    }

    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(super) async fn start(&mut self) {
        let home = self.directory.path();
        let server = std::env::var("IDEM_NATS_SERVER").unwrap_or_else(|_| "nats-server".to_owned());
        let mut command = Command::new(&server);
        command
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"])
            .arg(home.join("store"))
            .arg("-l")
            .arg(home.join("output"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(Process::start(&mut command, "IDEM_NATS_SERVER"));
        for _ in 0..400 {
            if let Ok(client) = async_nats::connect(self.address().to_string()).await {
                // JetStream says that there is no such stream, when it is up.
                let answer = async_nats::jetstream::new(client).get_stream("none").await;
                if answer.is_err_and(|error| matches!(error.kind(), GetStreamErrorKind::JetStream(_))) {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the server does not answer: {}", std::fs::read_to_string(home.join("output")).unwrap_or_default());
    }

    pub(super) async fn end(&mut self, with: &str) {
        if let Some(process) = self.process.take() {
            process.end(with).await;
        }
    }
}
