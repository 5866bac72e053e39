//! A Redis of a test's own, which can be stopped, held, emptied and started again.

use idem_tests::process::free_port;
use std::{
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A server on a port of its own, until it is dropped.
pub(crate) struct RedisServer {
    pub(crate) port: u16,
    options: Vec<String>,
    directory: tempfile::TempDir,
    process: Option<Child>,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With options of its command line.
    pub(crate) fn with(options: &[&str]) -> Self {
        let port = free_port();
        let directory = tempfile::tempdir().unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Self { port, options, directory, process: None };
        server.run();
        server
    }

    /// A sentinel, over a file of its own.
    pub(crate) fn sentinel(file: &std::path::Path) -> Self {
        let port = free_port();
        let directory = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .arg(file)
            .args(["--sentinel", "--port", &port.to_string(), "--bind", "127.0.0.1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server");
        let server = Self { port, options: Vec::new(), directory, process: Some(process) };
        server.wait_until_it_listens();
        server
    }

    /// Starts the server, again, on the same port. It has forgotten everything.
    pub(crate) fn run(&mut self) {
        assert!(self.process.is_none(), "it is running");
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.directory.path())
            .args(&self.options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server, which these tests start (Debian: apt-get install redis-server)");
        self.process = Some(process);
        self.wait_until_it_listens();
    }

    fn wait_until_it_listens(&self) {
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not answer on port {}", self.port);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it, as a crash does.
    pub(crate) fn stop(&mut self) {
        let mut process = self.process.take().expect("it is not running");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// The process stops in its tracks: connections stay open, and nothing is answered.
    pub(crate) fn hold(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it is not running").id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    }

    /// Runs one command.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(10)).unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
