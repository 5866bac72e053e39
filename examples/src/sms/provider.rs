//! An SMS provider in small: a server on a port of this machine, which writes down in a log file what went to phones.
//!
//! It is reached under two paths. `/keyed/sms` recognises repeats by the header `Idempotency-Key`, as many providers do;
//! `/plain/sms` does not know the header. Phones whose number ends in 503 are refused once.

use super::message::{Kind, Sms};
use std::{
    collections::HashSet,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// The provider.
#[derive(Debug)]
pub(crate) struct Provider {
    address: SocketAddr,
    log: PathBuf,
    server: JoinHandle<()>,
}

/// What the provider answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It goes to the phone.
    Now,
    /// The provider recognised it: it went to the phone before.
    Before,
}

#[derive(Debug, Default)]
struct Memory {
    keys: HashSet<String>,
    refused: HashSet<String>,
}

impl Provider {
    /// Starts the server. `log` gets a line for each SMS that goes to a phone.
    pub(crate) async fn start(log: &Path) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (memory, file) = (Arc::new(Mutex::new(Memory::default())), log.to_owned());
        let server = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                // A client that went away is no concern of the provider's.
                let _ = serve(connection, &memory, &file).await;
            }
        });
        Ok(Self { address, log: log.to_owned(), server })
    }

    /// The client: asks the provider to send an SMS.
    pub(crate) async fn send(&self, sms: &Sms, idempotency_key: Option<&str>) -> io::Result<Sent> {
        let path = match sms.provider {
            Kind::Keyed => "keyed",
            Kind::Plain => "plain",
        };
        let key = idempotency_key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let body = format!("{} {} {}", sms.order_no, sms.phone, sms.text);
        let length = body.len();
        let request = format!("POST /{path}/sms HTTP/1.1\r\nHost: sms\r\n{key}Content-Length: {length}\r\n\r\n{body}");
        let mut connection = TcpStream::connect(self.address).await?;
        connection.write_all(request.as_bytes()).await?;
        connection.shutdown().await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        match answer.lines().next() {
            Some("HTTP/1.1 202 Accepted") => Ok(Sent::Now),
            Some("HTTP/1.1 200 OK") => Ok(Sent::Before),
            _ => Err(io::Error::other("the provider refused")),
        }
    }

    /// What went to phones, a line each.
    pub(crate) fn log(&self) -> io::Result<Vec<String>> {
        match std::fs::read_to_string(&self.log) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(mut connection: TcpStream, memory: &Mutex<Memory>, log: &Path) -> io::Result<()> {
    let mut request = String::new();
    connection.read_to_string(&mut request).await?;
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((&request, ""));
    let key = head.lines().find_map(|line| line.strip_prefix("Idempotency-Key: "));
    let key = key.filter(|_| head.starts_with("POST /keyed/"));
    let status = answer(memory, key, body);
    if status == "202 Accepted" {
        append(log, body)?;
    }
    connection.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await
}

fn answer(memory: &Mutex<Memory>, key: Option<&str>, body: &str) -> &'static str {
    let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
    let phone = body.split(' ').nth(1).unwrap_or_default();
    if phone.ends_with("503") && memory.refused.insert(phone.to_owned()) {
        return "503 Service Unavailable";
    }
    match key {
        Some(key) if !memory.keys.insert(key.to_owned()) => "200 OK",
        _ => "202 Accepted",
    }
}

fn append(log: &Path, line: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
    writeln!(file, "{line}")
}
