//! What an operator sets for one service, and the checks of it.

use std::{fmt, net::IpAddr, path::PathBuf, time::Duration};

use reqwest::Url;

use crate::{BreakerConfig, HookError, SecretSource};

/// Longest time for a request, and longest pause of the breaker: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Most requests that may be under way, per second, and in a burst.
const MOST: u32 = 100_000;
/// Largest request. Bytes.
const LARGEST_REQUEST_BYTES: usize = 64 << 20;

/// How the service knows that the agent sends a request.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// `Authorization: Bearer` and the secret.
    Bearer(SecretSource),
    /// `X-Mcpwarden-Timestamp` and `X-Mcpwarden-Signature`: an HMAC-SHA256 of timestamp, full stop and body, keyed with the
    /// secret.
    Hmac(SecretSource),
}

impl Authentication {
    pub(crate) fn source(&self) -> &SecretSource {
        match self {
            Self::Bearer(source) | Self::Hmac(source) => source,
        }
    }
}

/// One service, and how it is used.
#[derive(Clone)]
pub struct HookConfig {
    /// What the configuration calls it.
    pub name: String,
    /// Where requests are posted. It may hold a token: no output shows more of it than scheme, host and port.
    pub url: String,
    /// PEM: the authorities that may have signed the service's certificate, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM: the certificate chain that the agent presents, and its key, which its owner alone may read.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// How the service knows the agent, besides.
    pub authentication: Option<Authentication>,
    /// For all of a request: secret, name look-up, connection, answer.
    pub timeout: Duration,
    /// Requests under way at once; more are refused.
    pub max_concurrent: usize,
    /// Requests per second; more are refused.
    pub rate: u32,
    /// Requests that may come at once before `rate` applies.
    pub burst: u32,
    /// Longest body of a request; a longer one is refused. Bytes.
    pub request_bytes: usize,
    /// When requests to a service that fails are paused.
    pub breaker: BreakerConfig,
    /// Whether `http://` may go to another host, in plain text.
    pub allow_plaintext: bool,
}

impl HookConfig {
    /// With the defaults: no authentication, the system's authorities, 8 requests at once, 50 per second with bursts of 100,
    /// 1 MiB each.
    pub fn new(name: impl Into<String>, url: impl Into<String>, timeout: Duration) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            ca_file: None,
            client_certificate: None,
            authentication: None,
            timeout,
            max_concurrent: 8,
            rate: 50,
            burst: 100,
            request_bytes: 1 << 20,
            breaker: BreakerConfig::default(),
            allow_plaintext: false,
        }
    }

    /// Checks all of it but the files, and parses the URL.
    pub(crate) fn check(&self) -> Result<Url, HookError> {
        let durations = [
            ("timeout", self.timeout),
            ("breaker.pause", self.breaker.pause),
            ("breaker.longest", self.breaker.longest),
        ];
        for (field, duration) in durations {
            if duration.is_zero() || duration > LONGEST {
                return Err(HookError::Range { field, expected: "more than 0 s and at most a day" });
            }
        }
        let numbers = [
            ("max_concurrent", u32::try_from(self.max_concurrent).unwrap_or(u32::MAX)),
            ("rate", self.rate),
            ("burst", self.burst),
            ("breaker.failures", self.breaker.failures),
        ];
        for (field, number) in numbers {
            if !(1..=MOST).contains(&number) {
                return Err(HookError::Range { field, expected: "from 1 to 100000" });
            }
        }
        if !(1..=LARGEST_REQUEST_BYTES).contains(&self.request_bytes) {
            return Err(HookError::Range { field: "request_bytes", expected: "from 1 byte to 64 MiB" });
        }
        // The error of the parser says nothing that the operator could not see, and might repeat a part of the URL.
        let url = Url::parse(&self.url).map_err(|_| HookError::Url("invalid URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HookError::Url("it must begin with https:// or http://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(HookError::Url("it contains credentials; use authentication with a secret file"));
        }
        if url.fragment().is_some() {
            return Err(HookError::Url("it contains a fragment, which is never sent"));
        }
        if url.scheme() == "http" && !self.allow_plaintext && !is_loopback(&url) {
            return Err(HookError::Plaintext);
        }
        Ok(url)
    }
}

/// Whether requests stay on this host.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

impl fmt::Debug for HookConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = Url::parse(&self.url).map(|url| url.origin().ascii_serialization());
        formatter
            .debug_struct("HookConfig")
            .field("name", &self.name)
            .field("url", &origin.as_deref().unwrap_or("invalid"))
            .field("ca_file", &self.ca_file)
            .field("client_certificate", &self.client_certificate)
            .field("authentication", &self.authentication)
            .field("timeout", &self.timeout)
            .field("max_concurrent", &self.max_concurrent)
            .field("rate", &self.rate)
            .field("burst", &self.burst)
            .field("request_bytes", &self.request_bytes)
            .field("breaker", &self.breaker)
            .field("allow_plaintext", &self.allow_plaintext)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> HookConfig {
        HookConfig::new("test", url, Duration::from_secs(1))
    }

    /// URL, whether plain text is allowed, and a part of the error.
    #[test]
    fn urls_are_https_or_loopback() {
        for (url, plaintext, expected) in [
            ("https://guards.example/evaluate", false, None),
            ("https://guards.example:8443/evaluate?key=t0ken", false, None),
            ("http://localhost/", false, None),
            ("http://LOCALHOST:8080/", false, None),
            ("http://127.0.0.1:8080/evaluate", false, None),
            ("http://127.8.9.1/", false, None),
            // The parser of URLs reads both as 127.0.0.1, as the resolver would.
            ("http://2130706433/", false, None),
            ("http://0x7f.1/", false, None),
            ("http://[::1]:8080/", false, None),
            ("http://[::ffff:127.0.0.1]/", false, None),
            ("http://10.0.0.1/t0ken", false, Some("http:// is allowed to this host alone")),
            ("http://guards.example/t0ken", false, Some("http:// is allowed to this host alone")),
            ("http://localhost.guards.example/t0ken", false, Some("http:// is allowed to this host alone")),
            ("http://127.0.0.1.guards.example/t0ken", false, Some("http:// is allowed to this host alone")),
            ("http://0.0.0.0/t0ken", false, Some("http:// is allowed to this host alone")),
            ("http://[::]/t0ken", false, Some("http:// is allowed to this host alone")),
            ("http://guards.example/", true, None),
            ("https://agent:t0ken@guards.example/", false, Some("credentials")),
            ("https://t0ken@guards.example/", false, Some("credentials")),
            ("https://guards.example/#t0ken", false, Some("fragment")),
            ("ftp://guards.example/t0ken", true, Some("https://")),
            ("file:///t0ken", true, Some("https://")),
            ("guards.example/t0ken", true, Some("invalid URL")),
            ("https://", true, Some("invalid URL")),
            ("https://[t0ken/", true, Some("invalid URL")),
            ("", true, Some("invalid URL")),
        ] {
            let checked = HookConfig { allow_plaintext: plaintext, ..config(url) }.check();
            match (checked, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => {
                    let text = error.to_string();
                    assert!(text.contains(expected) && !text.contains("t0ken"), "{url}: {text}");
                }
                (found, _) => panic!("{url}: {found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn numbers_have_bounds() {
        let cases = [
            ("timeout", (|config| config.timeout = Duration::ZERO) as fn(&mut HookConfig)),
            ("timeout", |config| config.timeout = Duration::MAX),
            ("max_concurrent", |config| config.max_concurrent = 0),
            ("max_concurrent", |config| config.max_concurrent = usize::MAX),
            ("rate", |config| config.rate = 0),
            ("rate", |config| config.rate = 100_001),
            ("burst", |config| config.burst = 0),
            ("breaker.failures", |config| config.breaker.failures = 0),
            ("breaker.pause", |config| config.breaker.pause = Duration::ZERO),
            ("breaker.longest", |config| config.breaker.longest = Duration::MAX),
            ("request_bytes", |config| config.request_bytes = 0),
            ("request_bytes", |config| config.request_bytes = usize::MAX),
            ("", |_| {}),
        ];
        for (expected, change) in cases {
            let mut config = config("https://guards.example/");
            change(&mut config);
            let field = match config.check() {
                Ok(_) => "",
                Err(HookError::Range { field, .. }) => field,
                Err(error) => panic!("{expected}: {error}"),
            };
            assert_eq!(field, expected);
        }
    }

    #[test]
    fn debug_output_hides_the_path_of_the_url() {
        let mut config = config("https://guards.example:8443/t0ken?key=t0ken");
        config.authentication = Some(Authentication::Hmac(SecretSource::File("/etc/secret".into())));
        let text = format!("{config:?}");
        assert!(text.contains("https://guards.example:8443") && text.contains("/etc/secret"), "{text}");
        assert!(!text.contains("t0ken"), "{text}");
    }
}
