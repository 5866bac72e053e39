//! A consumer's network: clients ask the name server where the broker is, so that answer leads to a proxy.

use idem_tests::{
    brokers::Line,
    proxy::{Cut, Proxy},
};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// In the head of the request that stores how far a group has come.
const ACK: &str = "\"code\":15,";

pub(crate) struct Wire {
    broker: Proxy,
    pub(crate) name_server: SocketAddr,
    task: AbortHandle,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    pub(crate) async fn new(name_server: SocketAddr, broker: SocketAddr) -> Self {
        let proxy = Proxy::start(broker, Duration::ZERO).await.expect("a proxy");
        let (told, instead) = (format!("\"{broker}\""), format!("\"{}\"", proxy.address()));
        assert_eq!(told.len(), instead.len(), "frames keep their lengths");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let task = tokio::spawn(async move {
            // They end with this task.
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                clients.spawn(between(client, name_server, told.clone(), instead.clone()));
            }
        });
        Self { broker: proxy, name_server: address, task: task.abort_handle() }
    }
}

/// Passes on what the client asks, and frame by frame what the name server answers.
async fn between(client: TcpStream, server: SocketAddr, told: String, instead: String) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await?.into_split();
    let asking = tokio::io::copy(&mut from_client, &mut to_server);
    let answering = async {
        loop {
            let length = from_server.read_u32().await?;
            let mut frame = vec![0; length as usize];
            from_server.read_exact(&mut frame).await?;
            while let Some(at) = frame.windows(told.len()).position(|found| found == told.as_bytes()) {
                frame[at..at + told.len()].copy_from_slice(instead.as_bytes());
            }
            to_client.write_u32(length).await?;
            to_client.write_all(&frame).await?;
        }
    };
    tokio::select! {
        asked = asking => asked.map(|_| ()),
        answered = answering => answered,
    }
}

impl Line for Wire {
    async fn cut(&self) {
        self.broker.refuse(true);
        self.broker.break_all();
    }

    async fn lose_next_ack(&self) {
        self.broker.cut_once(ACK, Cut::Before).await;
    }

    async fn crash_with_it(&self) {
        while self.broker.cuts() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
