//! Asks for the addresses of names: /etc/hosts, then the system's resolvers or those of the configuration.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig},
    net::{NetError, runtime::TokioRuntimeProvider},
};

/// Names that are asked for at once, at most.
const AT_ONCE: usize = 64;
/// How long one name may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of one name.
#[derive(Debug)]
pub struct Found {
    /// What it has.
    pub addresses: Vec<IpAddr>,
    /// For how long.
    pub ttl: Duration,
    /// Whether nobody answered for IPv4, and for IPv6.
    pub silent: [bool; 2],
}

/// What is known of one name, or why nothing is.
pub type Answer = Result<Found, String>;

/// Asks for all of them. Resolvers are made each time, so that a changed /etc/hosts or /etc/resolv.conf counts.
pub async fn resolve(names: Vec<String>, servers: &[SocketAddr]) -> Vec<(String, Answer)> {
    let families = [LookupIpStrategy::Ipv4Only, LookupIpStrategy::Ipv6Only];
    let made: Result<Vec<_>, _> = families.into_iter().map(|family| resolver(servers, family)).collect();
    let resolvers = match made.as_deref() {
        Ok([four, six]) => [four, six],
        other => {
            let error = other.err().map_or_else(String::new, ToString::to_string);
            let why = format!("no resolver: {error}; see /etc/resolv.conf, or set network.resolver.servers");
            return names.into_iter().map(|name| (name, Err(why.clone()))).collect();
        }
    };
    let lookups = names.into_iter().map(|name| one(resolvers, name));
    futures_util::stream::iter(lookups).buffer_unordered(AT_ONCE).collect().await
}

fn resolver(servers: &[SocketAddr], family: LookupIpStrategy) -> Result<TokioResolver, NetError> {
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
    options.ip_strategy = family;
    // Answers are kept by who asks.
    options.cache_size = 0;
    builder.build()
}

/// Asks for both families, each by itself: where one fails, the other still counts.
async fn one(resolvers: [&TokioResolver; 2], name: String) -> (String, Answer) {
    let [four, six] =
        resolvers.map(|resolver| tokio::time::timeout(PATIENCE, resolver.lookup_ip(name.as_str())));
    let (four, six) = tokio::join!(four, six);
    let mut found = Found { addresses: Vec::new(), ttl: Duration::MAX, silent: [false; 2] };
    let mut why = String::from("it has no address");
    for (silent, answer) in found.silent.iter_mut().zip([four, six]) {
        match answer {
            Ok(Ok(answer)) => {
                found.addresses.extend(answer.iter());
                found.ttl = found.ttl.min(answer.valid_until().saturating_duration_since(Instant::now()));
            }
            // That family has none, which is an answer.
            Ok(Err(error)) if error.is_no_records_found() && !error.is_nx_domain() => {}
            Ok(Err(error)) => {
                *silent = true;
                why = error.to_string();
            }
            Err(_) => {
                *silent = true;
                why = "no answer in time".into();
            }
        }
    }
    let answer = if found.addresses.is_empty() { Err(why) } else { Ok(found) };
    (name, answer)
}
