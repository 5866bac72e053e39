//! A network that loses one ack, and the connection with it.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
};

/// Class and method of `basic.ack` in AMQP 0-9-1.
const ACK: &[u8] = &[0, 60, 0, 80];

/// A proxy in front of RabbitMQ, until it is dropped.
#[derive(Debug)]
pub(crate) struct Thief {
    address: SocketAddr,
    stolen: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Thief {
    /// Stands in front of `broker`, and steals so many acks.
    pub(crate) async fn start(broker: String, acks: usize) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stolen = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(accept(listener, broker, acks, Arc::clone(&stolen)));
        Ok(Self { address, stolen, task })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many acks never reached the broker.
    pub(crate) fn stolen(&self) -> usize {
        self.stolen.load(Ordering::Relaxed)
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, broker: String, acks: usize, stolen: Arc<AtomicUsize>) {
    while let Ok((client, _)) = listener.accept().await {
        let (broker, stolen) = (broker.clone(), Arc::clone(&stolen));
        tokio::spawn(async move {
            // A broken connection is what the client is here to live with.
            let _ = pass(client, &broker, acks, &stolen).await;
        });
    }
}

/// Passes on what both sides say, until one of them leaves or an ack is stolen: then both connections end.
async fn pass(client: TcpStream, broker: &str, acks: usize, stolen: &AtomicUsize) -> io::Result<()> {
    let (from_client, mut to_client) = client.into_split();
    let (mut from_broker, to_broker) = TcpStream::connect(broker).await?.into_split();
    tokio::select! {
        ended = copy(&mut from_broker, &mut to_client) => ended.map(drop),
        ended = to_the_broker(from_client, to_broker, acks, stolen) => ended,
    }
}

async fn to_the_broker(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    acks: usize,
    stolen: &AtomicUsize,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let said = &buffer[..length];
        if said.windows(ACK.len()).any(|window| window == ACK) && stolen.load(Ordering::Relaxed) < acks {
            stolen.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        to.write_all(said).await?;
    }
}
