//! Asks for the addresses of names: /etc/hosts, then the system's resolvers or those of the configuration.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig},
    net::{NetError, runtime::TokioRuntimeProvider},
};

/// Names that are asked for at once, at most.
const AT_ONCE: usize = 16;

/// What is known of one name.
pub type Answer = Result<(Vec<IpAddr>, Duration), String>;

/// Asks for all of them. A resolver is made each time, so that a changed /etc/hosts or /etc/resolv.conf counts.
pub async fn ask(names: Vec<String>, servers: &[SocketAddr]) -> Vec<(String, Answer)> {
    let resolver = match resolver(servers) {
        Ok(resolver) => resolver,
        Err(error) => {
            let why = format!("no resolver: {error}; see /etc/resolv.conf, or set network.resolver.servers");
            return names.into_iter().map(|name| (name, Err(why.clone()))).collect();
        }
    };
    let mut answers = Vec::with_capacity(names.len());
    for some in names.chunks(AT_ONCE) {
        let asked = some.iter().map(|name| one(&resolver, name));
        answers.extend(futures_util::future::join_all(asked).await);
    }
    answers
}

fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, NetError> {
    let mut builder = if servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let server = |server: &SocketAddr| {
            let with_port = |mut connection: ConnectionConfig| {
                connection.port = server.port();
                connection
            };
            let connections = vec![with_port(ConnectionConfig::udp()), with_port(ConnectionConfig::tcp())];
            NameServerConfig::new(server.ip(), true, connections)
        };
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // Answers are kept by who asks.
    options.cache_size = 0;
    builder.build()
}

async fn one(resolver: &TokioResolver, name: &str) -> (String, Answer) {
    let answer = match resolver.lookup_ip(name).await {
        Ok(found) => {
            let ttl = found.valid_until().saturating_duration_since(Instant::now());
            Ok((found.iter().collect(), ttl))
        }
        Err(error) => Err(error.to_string()),
    };
    (name.to_owned(), answer)
}
