//! A Kafka-compatible broker of the test's own, that may be stopped and killed.

use super::answers;
use std::{
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    time::Duration,
};

pub(super) struct Node {
    directory: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

impl Node {
    pub(super) async fn new() -> Self {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        let mut node = Self { directory: tempfile::tempdir().expect("a directory"), port, process: None };
        node.start().await;
        node
    }

    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(super) async fn start(&mut self) {
        let home = self.directory.path();
        let server = std::env::var("IDEM_KAFKA_SERVER").unwrap_or_else(|_| "tansu".to_owned());
        let log = std::fs::File::create(home.join("output")).expect("a log");
        let url = format!("tcp://{}", self.address());
        let process = Command::new(&server)
            .args(["broker", "--listener-url", &url, "--advertised-listener-url", &url])
            .args(["--storage-engine", "sqlite:///tansu.db"])
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "no Kafka-compatible broker that keeps its data to start at {server} (IDEM_KAFKA_SERVER): {error}"
                )
            });
        self.process = Some(process);
        for _ in 0..60 {
            if answers(self.address()).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the node does not answer: {}", std::fs::read_to_string(home.join("output")).unwrap_or_default());
    }

    pub(super) async fn end(&mut self, with: &str) {
        if let Some(mut process) = self.process.take() {
            let sent = Command::new("kill").args([with, &process.id().to_string()]).status().expect("kill");
            assert!(sent.success());
            tokio::task::spawn_blocking(move || process.wait()).await.expect("waiting").expect("it ends");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
