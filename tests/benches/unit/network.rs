//! A network with a delay, which counts round trips.
//!
//! It runs on threads of its own: tokio's timer rounds to milliseconds, and the measured runtime is to be left alone.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A way to a server on which each direction takes `delay`. It stays open until the process ends.
pub(crate) struct Network {
    address: SocketAddr,
    trips: Arc<AtomicU64>,
}

impl Network {
    pub(crate) fn to(server: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let trips = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&trips);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client whose way cannot be opened sees its connection closed.
                let _ = connect(client, server, delay, &counter);
            }
        });
        Ok(Self { address, trips })
    }

    /// Round trips so far, on all connections: what the client sends while it has no answer yet counts once.
    pub(crate) fn trips(&self) -> u64 {
        self.trips.load(Ordering::SeqCst)
    }

    /// A database URL that leads through this network.
    pub(crate) fn in_url(&self, url: &str) -> Option<String> {
        let (start, end) = authority(url)?;
        Some(format!("{}{}{}", &url[..start], self.address, &url[end..]))
    }
}

/// Where a database URL leads to.
pub(crate) fn server(url: &str, default_port: u16) -> Option<SocketAddr> {
    let (start, end) = authority(url)?;
    let place = &url[start..end];
    let mut addresses = match place.to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(_) => (place, default_port).to_socket_addrs().ok()?,
    };
    addresses.next()
}

/// The range of host and port in a URL.
fn authority(url: &str) -> Option<(usize, usize)> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?']).map_or(url.len(), |length| start + length);
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    Some((start, end))
}

fn connect(client: TcpStream, server: SocketAddr, delay: Duration, trips: &Arc<AtomicU64>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let asked = Arc::new(AtomicBool::new(false));
    let answered = Arc::clone(&asked);
    let trips = Arc::clone(trips);
    forward(client.try_clone()?, server.try_clone()?, delay, move || {
        if !asked.swap(true, Ordering::SeqCst) {
            trips.fetch_add(1, Ordering::SeqCst);
        }
    });
    forward(server, client, delay, move || answered.store(false, Ordering::SeqCst));
    Ok(())
}

fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration, seen: impl Fn() + Send + 'static) {
    let (sender, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            seen();
            if sender.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, bytes) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The other end is to learn that this one is closed; it may be gone already.
        let _ = to.shutdown(Shutdown::Both);
    });
}
