//! A network that can be slow, or break at the worst moment.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex, Notify, mpsc},
    time::Instant,
};

/// When the proxy breaks a connection on which the client sends the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before the server hears of it.
    Before,
    /// After the server has answered, without passing the answer on.
    After,
    /// Never: the server's answers are swallowed, and the connection stays open.
    Silent,
}

/// A proxy in front of a server on this machine, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    delay: Duration,
    cut: Mutex<Option<(Vec<u8>, Cut)>>,
    cuts: AtomicUsize,
    refusing: AtomicBool,
    pieces: AtomicUsize,
    broken: Notify,
}

impl Proxy {
    /// Starts a proxy to `target` that holds back each direction for `delay`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(target: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            delay,
            cut: Mutex::default(),
            cuts: AtomicUsize::new(0),
            refusing: AtomicBool::new(false),
            pieces: AtomicUsize::new(1),
            broken: Notify::new(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// Where clients connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A database URL with the proxy in the server's place.
    #[must_use]
    pub fn in_url(&self, url: &str) -> String {
        url.replace(&self.shared.target.to_string(), &self.address.to_string())
    }

    /// Breaks the next connection on which the client sends `pattern`, once.
    pub async fn cut_once(&self, pattern: &str, cut: Cut) {
        *self.shared.cut.lock().await = Some((pattern.as_bytes().to_vec(), cut));
    }

    /// Accepts no further connection, or accepts again.
    pub fn refuse(&self, refuse: bool) {
        self.shared.refusing.store(refuse, Ordering::SeqCst);
    }

    /// Gives every answer in so many pieces, with pauses between, so that a client has to wait in the middle of one.
    pub fn answer_in_pieces(&self, pieces: usize) {
        self.shared.pieces.store(pieces, Ordering::SeqCst);
    }

    /// Breaks every connection there is.
    pub fn break_all(&self) {
        self.shared.broken.notify_waiters();
    }

    /// How many connections it broke on a pattern.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if !shared.refusing.load(Ordering::SeqCst) {
            tokio::spawn(connect(client, Arc::clone(&shared)));
        }
    }
}

async fn connect(client: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let server = TcpStream::connect(shared.target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Set to what becomes of the answers from now on.
    let swallow = Arc::new(OnceLock::new());
    let up = tokio::spawn(forward_up(from_client, delayed(to_server, shared.delay), shared.clone(), swallow.clone()));
    let down = tokio::spawn(forward_down(from_server, delayed(to_client, shared.delay), shared.clone(), swallow));
    // Either end that stops takes the other with it: that is what a broken network is to both.
    let (up_stop, down_stop) = (up.abort_handle(), down.abort_handle());
    tokio::select! { _ = up => {}, _ = down => {}, () = shared.broken.notified() => {} }
    up_stop.abort();
    down_stop.abort();
    Ok(())
}

async fn forward_up(
    mut client: OwnedReadHalf,
    server: mpsc::UnboundedSender<Vec<u8>>,
    shared: Arc<Shared>,
    swallow: Arc<OnceLock<Cut>>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = client.read(&mut buffer).await {
        let bytes = &buffer[..read];
        let mut cut = shared.cut.lock().await;
        let hit = cut.as_ref().is_some_and(|(pattern, _)| bytes.windows(pattern.len()).any(|part| part == pattern));
        if hit && let Some((_, cut)) = cut.take() {
            shared.cuts.fetch_add(1, Ordering::SeqCst);
            if cut == Cut::Before {
                return;
            }
            let _ = swallow.set(cut);
        }
        drop(cut);
        if server.send(bytes.to_vec()).is_err() {
            return;
        }
    }
}

async fn forward_down(
    mut server: OwnedReadHalf,
    client: mpsc::UnboundedSender<Vec<u8>>,
    shared: Arc<Shared>,
    swallow: Arc<OnceLock<Cut>>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = server.read(&mut buffer).await {
        let size = read.div_ceil(shared.pieces.load(Ordering::SeqCst).max(1));
        for (number, piece) in buffer[..read].chunks(size).enumerate() {
            if number > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            match swallow.get() {
                None if client.send(piece.to_vec()).is_ok() => {}
                Some(Cut::Silent) => {}
                None | Some(Cut::Before | Cut::After) => return,
            }
        }
    }
}

/// A writer that passes each piece on when its time has come, without holding up the reading of the next.
fn delayed(mut to: OwnedWriteHalf, delay: Duration) -> mpsc::UnboundedSender<Vec<u8>> {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Vec<u8>>();
    let (timed, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some(bytes) = receiver.recv().await {
            if timed.send((Instant::now() + delay, bytes)).is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    sender
}
