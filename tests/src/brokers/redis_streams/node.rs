//! A Redis of the test's own that keeps what it was told, and may be stopped and killed.

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
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let directory = tempfile::tempdir().expect("a directory");
        let mut node = Self { directory, port, process: None };
        node.start().await;
        node
    }

    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(super) async fn start(&mut self) {
        let home = self.directory.path();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .arg("--dir")
            .arg(home)
            .arg("--logfile")
            .arg(home.join("output"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server, which these tests start (Debian: apt-get install redis-server)");
        self.process = Some(process);
        for _ in 0..400 {
            let client = redis::Client::open(format!("redis://{}", self.address())).expect("a URL");
            if let Ok(mut connection) = client.get_multiplexed_async_connection().await
                && redis::cmd("PING").query_async::<String>(&mut connection).await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server does not answer: {}", std::fs::read_to_string(home.join("output")).unwrap_or_default());
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
