//! Which Redis, and how to get a connection to it.

use crate::error::ConfigurationError;
use redis::{AsyncConnectionConfig, Client, Pipeline, RedisResult, aio::MultiplexedConnection};
#[cfg(any(feature = "redis-cluster", feature = "redis-sentinel"))]
use std::sync::Arc;
use std::{fmt, time::Duration};

/// How long a connection may take to be made, in the background.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Where connections come from.
#[derive(Clone)]
pub(super) enum Server {
    Single(Client),
    #[cfg(feature = "redis-cluster")]
    Cluster(Arc<redis::cluster::ClusterClient>),
    #[cfg(feature = "redis-sentinel")]
    Sentinel(Arc<tokio::sync::Mutex<redis::sentinel::SentinelClient>>),
}

impl fmt::Debug for Server {
    // Clients show their URLs, which may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "single",
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(_) => "cluster",
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(_) => "sentinel",
        })
    }
}

/// A connection that many commands share.
#[derive(Clone)]
pub(super) enum Wire {
    Single(MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

impl Wire {
    pub(super) async fn query<T: redis::FromRedisValue>(&mut self, commands: &Pipeline) -> RedisResult<T> {
        match self {
            Self::Single(connection) => commands.query_async(connection).await,
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => commands.query_async(connection).await,
        }
    }
}

impl Server {
    pub(super) fn single(url: &str) -> Result<Self, ConfigurationError> {
        Client::open(url).map(Self::Single).map_err(|error| unusable(&error))
    }

    #[cfg(feature = "redis-cluster")]
    pub(super) fn cluster(urls: Vec<String>) -> Result<Self, ConfigurationError> {
        // A command that fails is not worth a second try: the store decides.
        let client = redis::cluster::ClusterClient::builder(urls)
            .retries(1)
            .connection_timeout(CONNECT_LIMIT)
            .response_timeout(CONNECT_LIMIT)
            .build();
        client.map(|client| Self::Cluster(Arc::new(client))).map_err(|error| unusable(&error))
    }

    #[cfg(feature = "redis-sentinel")]
    pub(super) fn sentinel(urls: Vec<String>, master: &str) -> Result<Self, ConfigurationError> {
        use redis::{
            ConnectionAddr, IntoConnectionInfo as _, TlsMode,
            sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
        };

        let info = master.into_connection_info().map_err(|error| unusable(&error))?;
        let mut node = SentinelNodeConnectionInfo::default().set_redis_connection_info(info.redis_settings().clone());
        let name = match info.addr() {
            ConnectionAddr::Tcp(name, _) => name.clone(),
            ConnectionAddr::TcpTls { host, insecure, .. } => {
                node = node.set_tls_mode(if *insecure { TlsMode::Insecure } else { TlsMode::Secure });
                host.clone()
            }
            _ => return Err(ConfigurationError::Gate("the master's URL has no name in the host's place".to_owned())),
        };
        let client = SentinelClient::build(urls, name, Some(node), SentinelServerType::Master);
        client.map(|client| Self::Sentinel(Arc::new(tokio::sync::Mutex::new(client)))).map_err(|error| unusable(&error))
    }

    pub(super) async fn connect(&self) -> Result<Wire, String> {
        match tokio::time::timeout(CONNECT_LIMIT, self.try_connect()).await {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no connection within {CONNECT_LIMIT:?}")),
        }
    }

    async fn try_connect(&self) -> RedisResult<Wire> {
        // How long a command may take is for the one who sends it.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        match self {
            Self::Single(client) => {
                client.get_multiplexed_async_connection_with_config(&config).await.map(Wire::Single)
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(client) => client.get_async_connection().await.map(Wire::Cluster),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(client) => {
                let mut client = client.lock().await;
                client.get_async_connection_with_config(&config).await.map(Wire::Single)
            }
        }
    }
}

fn unusable(error: &redis::RedisError) -> ConfigurationError {
    ConfigurationError::Gate(format!("the URL of Redis is refused: {error}"))
}
