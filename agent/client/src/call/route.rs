//! How a declaration is followed to its server.

use anyhow::{Context as _, Error, Result};
use mcpwarden_policy::config::Server;
use mcpwarden_policy::event::ServerType;
use mcpwarden_system::secret_file;
use reqwest::Url;

use crate::inspect::{Launch, user::Environment, variables::fill};
use crate::listing::{credentials, server::advice};
use crate::{Failure, Mismatch, Pin, Settings};

/// What a declared server at an address wants to see, and what it must show.
pub struct Access(Settings);

/// Another certificate than the declared one.
#[derive(Debug, thiserror::Error)]
#[error("its certificate is another than the declared one: tls_fingerprint is {}, and it shows {}", .0.expected, .0.found)]
struct Forged(Mismatch);

impl Access {
    /// Reads the credentials of a declared server, which root alone may read.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of(server: &Server) -> Result<Self> {
        let mut settings =
            Settings { pin: server.tls_fingerprint.clone().map(Pin::new), ..Settings::default() };
        settings.advice = advice(server.headers_from.is_some());
        if let Some(from) = &server.headers_from {
            settings.headers = credentials::read(from, secret_file::directory().as_deref())?;
        }
        Ok(Self(settings))
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.0
    }

    /// # Errors
    /// The server showed another certificate than it must.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.pin.as_ref().and_then(Pin::mismatch) {
            Some(mismatch) => Err(Forged(mismatch).into()),
            None => Ok(()),
        }
    }

    /// An error without what the server was shown.
    pub(super) fn conceal(&self, error: Error) -> Error {
        match error.downcast::<Failure>() {
            Ok(Failure { why, status }) => {
                Failure { why: credentials::conceal(why, &self.0.headers), status }.into()
            }
            Err(error) => error,
        }
    }

    /// A text of the server's without what it was shown.
    pub fn concealed(&self, text: String) -> String {
        credentials::conceal(text, &self.0.headers)
    }
}

/// How a declared server is reached.
pub enum Route {
    /// By starting it.
    Program(Launch),
    /// Over HTTP.
    Address {
        /// Where.
        url: Url,
        /// What it wants to see.
        access: Access,
    },
}

impl Route {
    /// The route to a declared server, with the variables in its command line and its environment filled in as `inspect --start`
    /// fills them in.
    ///
    /// # Errors
    /// A variable cannot be filled in.
    pub fn of(server: &Server, access: Access, environment: &Environment) -> Result<Self> {
        if server.kind != ServerType::Stdio {
            let url = server.url.as_ref().context("it has no `url`")?;
            return Ok(Self::Address {
                url: Url::parse(url.as_str()).context("its `url` is no address")?,
                access,
            });
        }
        let command = server.command.as_ref().context("it has no `command`")?;
        let fill = |text: &String| fill(text, environment);
        Ok(Self::Program(Launch {
            argv: [command].into_iter().chain(&server.args).map(fill).collect::<Result<_>>()?,
            env: server
                .env
                .iter()
                .map(|(name, value)| Ok((name.clone(), fill(value)?)))
                .collect::<Result<_>>()?,
            cwd: None,
        }))
    }

    /// A text of the server's without what it was shown.
    pub fn concealed(&self, text: String) -> String {
        match self {
            Self::Program(_) => text,
            Self::Address { access, .. } => access.concealed(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(yaml: &str) -> Server {
        let (config, _) = mcpwarden_policy::config::parse(yaml.as_bytes()).unwrap();
        config.servers.into_iter().next().unwrap()
    }

    #[test]
    fn declaration_leads_to_its_server() {
        let environment = Environment::from([("KEY".into(), "s3cret".into())]);
        let program =
            declared("servers: [{ id: a, command: x, args: ['-k', '${KEY}'], env: { E: '${KEY}!' } }]");
        let Route::Program(launch) =
            Route::of(&program, Access::of(&program).unwrap(), &environment).unwrap()
        else {
            panic!("no program");
        };
        assert_eq!(launch.argv, ["x", "-k", "s3cret"]);
        assert_eq!(launch.env.get("E").map(String::as_str), Some("s3cret!"));

        let unset = declared("servers: [{ id: a, command: x, args: ['${NONE}'] }]");
        let error = Route::of(&unset, Access::of(&unset).unwrap(), &environment).err().unwrap();
        assert!(format!("{error:#}").contains("NONE is not set"), "{error:#}");

        for kind in ["http", "sse"] {
            let remote = declared(&format!("servers: [{{ id: a, type: {kind}, url: 'http://a/x' }}]"));
            let route = Route::of(&remote, Access::of(&remote).unwrap(), &environment).unwrap();
            assert!(matches!(route, Route::Address { url, .. } if url.as_str() == "http://a/x"));
        }
    }
}
