//! A name server and a broker of the test's own. The broker may be stopped and killed.

use std::{
    ffi::OsStr,
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

pub(crate) struct Node {
    directory: tempfile::TempDir,
    names: Child,
    name_port: u16,
    broker: Option<Child>,
    port: u16,
}

/// A port that is free, and so is the one two below it: a broker takes both.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).expect("a free port").port();
        if TcpListener::bind(("127.0.0.1", port - 2)).is_ok() {
            return port;
        }
    }
}

fn program(name: &str) -> PathBuf {
    let directory = std::env::var("IDEM_ROCKETMQ_BIN")
        .unwrap_or_else(|_| panic!("IDEM_ROCKETMQ_BIN names no directory with {name}: ./scripts/services finds it"));
    PathBuf::from(directory).join(name)
}

impl Node {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (name_port, port, copies) = (free_port(), free_port(), free_port());
        let home = directory.path().display();
        // Any delay of the table is a second.
        let delays = ["1s"; 18].join(" ");
        let settings = format!(
            "[broker]\nnamesrvAddr = \"127.0.0.1:{name_port}\"\nbrokerIp1 = \"127.0.0.1\"\nlistenPort = {port}\n\
             storePathRootDir = \"{home}/store\"\n\
             [broker.brokerServerConfig]\nbindAddress = \"127.0.0.1\"\n\
             [broker.brokerIdentity]\nbrokerName = \"idem\"\nbrokerClusterName = \"DefaultCluster\"\nbrokerId = 0\n\
             [store]\nstoreType = \"LocalFile\"\nbrokerRole = \"ASYNC_MASTER\"\nstorePathRootDir = \"{home}/store\"\n\
             haListenAddress = \"127.0.0.1\"\nhaListenPort = {copies}\nmessageDelayLevel = \"{delays}\"\n"
        );
        std::fs::write(directory.path().join("broker.toml"), settings).expect("settings");
        let names = start(
            &directory,
            "rocketmq-namesrv-rust",
            ["--bindAddress", "127.0.0.1", "--listenPort", &name_port.to_string(), "--rocketmqHome", &home.to_string()],
        );
        let mut node = Self { names, name_port, broker: None, port, directory };
        node.answers(node.name_server()).await;
        node.start().await;
        node
    }

    pub(crate) fn name_server(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.name_port).into()
    }

    pub(crate) fn broker(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(crate) async fn start(&mut self) {
        let settings = self.directory.path().join("broker.toml");
        self.broker = Some(start(&self.directory, "rocketmq-broker-rust", [OsStr::new("-c"), settings.as_os_str()]));
        self.answers(self.broker()).await;
    }

    async fn answers(&self, address: SocketAddr) {
        for _ in 0..300 {
            if TcpStream::connect(address).is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let said = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
        panic!("no answer at {address}: {}{}", said("rocketmq-namesrv-rust"), said("rocketmq-broker-rust"));
    }

    pub(crate) async fn end(&mut self, signal: &str) {
        if let Some(mut broker) = self.broker.take() {
            let sent = Command::new("kill").args([signal, &broker.id().to_string()]).status().expect("kill");
            assert!(sent.success());
            tokio::task::spawn_blocking(move || broker.wait()).await.expect("waiting").expect("it ends");
        }
    }
}

fn start(directory: &tempfile::TempDir, name: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Child {
    let home = directory.path();
    let log = std::fs::File::options().append(true).create(true).open(home.join(name)).expect("a log");
    let program = program(name);
    Command::new(&program)
        .args(arguments)
        .env("HOME", home)
        .env("ROCKETMQ_HOME", home)
        .env("ROCKETMQ_SECURITY_PROFILE", "development-insecure-loopback")
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()))
}

impl Drop for Node {
    fn drop(&mut self) {
        for process in self.broker.iter_mut().chain([&mut self.names]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
