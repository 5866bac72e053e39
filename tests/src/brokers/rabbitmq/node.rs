//! A RabbitMQ of the test's own, that may be stopped and killed.

use crate::process::{Process, free_port};
use std::{net::SocketAddr, process::Command, time::Duration};

pub(super) struct Node {
    directory: tempfile::TempDir,
    port: u16,
    distribution: u16,
    arguments: String,
    process: Option<Process>,
}

impl Node {
    /// Starts a node. It closes channels that hold a delivery longer than `lease`.
    pub(super) async fn new(lease: Option<Duration>) -> Self {
        let arguments = lease.map_or_else(String::new, |lease| {
            format!("-rabbit consumer_timeout {} -rabbit channel_tick_interval 250", lease.as_millis())
        });
        let directory = tempfile::tempdir().expect("a directory");
        let mut node = Self { directory, port: free_port(), distribution: free_port(), arguments, process: None };
        node.start().await;
        node
    }

    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(super) async fn start(&mut self) {
        let home = self.directory.path();
        let server = std::env::var("IDEM_RABBITMQ_SERVER")
            .unwrap_or_else(|_| "/usr/lib/rabbitmq/bin/rabbitmq-server".to_owned());
        let log = std::fs::File::create(home.join("output")).expect("a log");
        let mut command = Command::new(&server);
        command
            .env("HOME", home)
            // The system's own settings name the system's own port.
            .env("RABBITMQ_CONF_ENV_FILE", home.join("none"))
            .env("RABBITMQ_CONFIG_FILE", home.join("none"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", home.join("none"))
            .env("RABBITMQ_NODENAME", format!("idem{}@localhost", self.port))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", home.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", home.join("log"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("plugins"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", &self.arguments)
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_FLAGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            // Not into the tree that is being tested.
            .env("ERL_CRASH_DUMP", home.join("crash"))
            .stdout(log.try_clone().expect("a log"))
            .stderr(log);
        self.process = Some(Process::start(&mut command, "IDEM_RABBITMQ_SERVER"));
        let url = format!("amqp://{}", self.address());
        for _ in 0..400 {
            // One that meets the node while it starts may never end.
            let connecting = lapin::Connection::connect(&url, lapin::ConnectionProperties::default());
            if let Ok(Ok(connection)) = tokio::time::timeout(Duration::from_secs(5), connecting).await {
                let _ = connection.close(200, "seen".into()).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the node does not answer: {}", std::fs::read_to_string(home.join("output")).unwrap_or_default());
    }

    pub(super) async fn end(&mut self, with: &str) {
        if let Some(process) = self.process.take() {
            process.end(with).await;
        }
    }
}
