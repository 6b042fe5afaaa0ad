//! The guards of a configuration: files are read, components compiled, services set up. Nothing is sent.

use std::{collections::BTreeMap, path::Path, path::PathBuf, sync::Arc, time::Duration};

use mcpwarden_hooks::{Authentication, BreakerConfig, Hook, HookConfig, HookError, Secret, SecretSource};
use mcpwarden_policy::{
    config::{AbsolutePath, Config, Finding, GuardEntry, GuardSettings, SecretFile, steps},
    terms::{GuardKind, contract::GuardName},
};
use mcpwarden_system::secret_file;
use mcpwarden_wasm::{Guard as Component, Limits, Runtime, RuntimeOptions, config_from_json};
use minisign_verify::{PublicKey, Signature};
use sha2::{Digest as _, Sha256};

use super::{External, Externals};
use crate::host::read_own;

/// Largest component. Bytes.
const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// Largest file of a signature. Bytes.
const MAX_SIGNATURE_BYTES: u64 = 4_096;
/// Where compiled components are kept, in the state directory.
const CACHE: &str = "guards";
/// Requests to a service under way, if the configuration does not say.
const AT_ONCE: usize = 8;
/// Requests to a service in a second, likewise.
const PER_SECOND: u32 = 1_000;

/// When the secrets of services are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// For each request, so that they can be replaced while the agent runs.
    ForEachRequest,
    /// Once, with the configuration: afterwards this process may not read them any more.
    Now,
}

/// Loads the guards that others wrote. `state_dir`: where compiled components are kept; `None`: nowhere.
///
/// # Errors
/// Everything that is wrong with them, each at its place.
pub fn load(config: &Config, state_dir: Option<&Path>, secrets: Secrets) -> Result<Externals, Vec<Finding>> {
    let (mut all, mut wrong, mut runtime) = (BTreeMap::new(), Vec::new(), None);
    let entries = config.guards.iter().enumerate();
    for (index, entry) in entries.filter(|(_, entry)| entry.kind.is_external() && entry.enabled) {
        let settings = entry.config.clone().unwrap_or_default();
        let loaded = match entry.kind {
            GuardKind::Wasm => component(entry, &settings, state_dir, &mut runtime),
            _ => service(entry, &settings, secrets),
        };
        match loaded {
            Ok(external) => {
                let name = GuardName { kind: entry.kind, name: entry.external_name() };
                all.insert(Arc::new(name), Arc::new(external));
            }
            Err((key, message)) => {
                wrong.push(Finding::new(steps!["guards", index, "config", key], message));
            }
        }
    }
    if wrong.is_empty() { Ok(Externals(all)) } else { Err(wrong) }
}

/// Why a guard cannot be loaded: which key is wrong, and what.
type Wrong = (&'static str, String);

fn component(
    entry: &GuardEntry,
    settings: &GuardSettings,
    state_dir: Option<&Path>,
    runtime: &mut Option<Runtime>,
) -> Result<External, Wrong> {
    let wrong = |message: String| ("module_path", message);
    let path = settings.module_path.as_ref().ok_or_else(|| wrong("it is missing".to_owned()))?;
    let bytes = read_own(path, MAX_COMPONENT_BYTES + 1)
        .map_err(|problem| wrong(format!("{path} cannot be used: {problem}")))?;
    check_origin(settings, path, &bytes)?;
    let runtime = match runtime {
        Some(runtime) => runtime,
        none => {
            let cache = state_dir.map(|directory| directory.join(CACHE));
            let made = Runtime::new(RuntimeOptions { cache, ..RuntimeOptions::default() });
            none.insert(made.map_err(|error| wrong(format!("components cannot run here: {error}")))?)
        }
    };
    let values = settings.wasm_config.clone().unwrap_or_default();
    let memory = settings.memory.and_then(|memory| usize::try_from(memory.0).ok());
    let limits =
        Limits { memory_bytes: memory.unwrap_or(Limits::default().memory_bytes), ..Limits::default() };
    let component =
        Component::load(runtime, &entry.external_name(), &bytes, config_from_json(&values), limits)
            .map_err(|error| wrong(format!("{path}: {error}")))?;
    Ok(External::Component(Box::new(component)))
}

/// Checks a component before anything else reads it: whether it is the one that was meant, and who signed it.
fn check_origin(settings: &GuardSettings, path: &AbsolutePath, bytes: &[u8]) -> Result<(), Wrong> {
    if let Some(expected) = &settings.sha256 {
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if !expected.digits().eq_ignore_ascii_case(&hash) {
            return Err(("sha256", format!("{path} has the hash sha256:{hash}")));
        }
    }
    let Some(key) = &settings.public_key else { return Ok(()) };
    let wrong = |message: String| ("public_key", message);
    let key = PublicKey::from_base64(key)
        .map_err(|error| wrong(format!("it is no minisign public key: {error}")))?;
    let file: AbsolutePath = format!("{path}.minisig").parse().map_err(wrong)?;
    let signature = read_own(&file, MAX_SIGNATURE_BYTES)
        .map_err(|problem| wrong(format!("the signature {file} cannot be used: {problem}")))?;
    let signature = Signature::decode(&String::from_utf8_lossy(&signature))
        .map_err(|error| wrong(format!("{file} is no minisign signature: {error}")))?;
    let allow_legacy = false;
    key.verify(bytes, &signature, allow_legacy)
        .map_err(|error| wrong(format!("{file} is not the signature of {path} by this key: {error}")))
}

fn service(entry: &GuardEntry, settings: &GuardSettings, secrets: Secrets) -> Result<External, Wrong> {
    let url = settings.url.as_ref().ok_or_else(|| ("url", "it is missing".to_owned()))?;
    let timeout = Duration::from_millis(u64::from(entry.timeout_ms));
    let path = |path: &str| PathBuf::from(path);
    let key = match &settings.client_key_file {
        Some(file) => Some(
            secret_file::path(file, secret_file::directory().as_deref())
                .map_err(|error| ("client_key_file", format!("{error:#}")))?,
        ),
        None => None,
    };
    let certificate = settings.client_certificate_file.as_ref().map(|file| path(file.as_str()));
    let source = |file: &SecretFile| {
        let file = file.clone();
        let read = move || {
            let text = secret_file::read(&file, secret_file::directory().as_deref());
            Secret::new(&text.map_err(|error| format!("{}: {error:#}", file.as_str()))?)
        };
        if secrets == Secrets::ForEachRequest {
            return SecretSource::Reader(Arc::new(read));
        }
        let secret = read();
        SecretSource::Reader(Arc::new(move || secret.clone()))
    };
    let bearer = settings.token_file.as_ref().map(|file| Authentication::Bearer(source(file)));
    let hmac = settings.hmac_file.as_ref().map(|file| Authentication::Hmac(source(file)));
    let at_once = settings.max_concurrent.map_or(AT_ONCE, |most| most as usize);
    let per_second = settings.max_per_second.unwrap_or(PER_SECOND);
    let hook = Hook::new(HookConfig {
        ca_file: settings.ca_file.as_ref().map(|file| path(file.as_str())),
        client_certificate: certificate.zip(key),
        authentication: bearer.or(hmac),
        max_concurrent: at_once,
        rate: per_second,
        burst: per_second.saturating_mul(2),
        request_bytes: 4 << 20,
        breaker: BreakerConfig::default(),
        ..HookConfig::new(entry.external_name(), url.as_str(), timeout)
    });
    hook.map(|hook| External::Service(Box::new(hook), at_once))
        .map_err(|error| (key_of(&error, settings), error.to_string()))
}

/// The key of a service that an error is about.
fn key_of(error: &HookError, settings: &GuardSettings) -> &'static str {
    let is = |named: &Option<AbsolutePath>, path: &Path| {
        named.as_ref().is_some_and(|named| Path::new(named.as_str()) == path)
    };
    match error {
        HookError::Secret(_) if settings.token_file.is_some() => "token_file",
        HookError::Secret(_) => "hmac_file",
        HookError::File { path, .. } | HookError::Pem { path, .. } => match path {
            path if is(&settings.ca_file, path) => "ca_file",
            path if is(&settings.client_certificate_file, path) => "client_certificate_file",
            _ => "client_key_file",
        },
        HookError::Tls { .. } if settings.client_certificate_file.is_none() => "ca_file",
        HookError::Tls { what, .. } if what.contains("ca_file") => "ca_file",
        HookError::Tls { .. } => "client_certificate_file",
        _ => "url",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const KEY: &str = "RWSdRWYJyJY9ZX2YgUrHzsYeArsIhCHU6uwP1gY8N+vy90IBBMZWK4Sw";
    const OTHER_KEY: &str = "RWSnHelDo+RV7VEHcX+GLd03MxLRuCVlonkqApKj02ll2cp/XGgmyvRU";
    /// Of the bytes `a component`, by [`KEY`].
    const SIGNATURE: &str = "untrusted comment: comment
RUSdRWYJyJY9ZdJ2jqNYfUEGvBAMw6RzP9Mj4TQTqaMkO52Vricc+9qoQUf/esVA9XdHzjcT/EkvClzzs/DxGNkTJidRs74z2AI=
trusted comment: guard of the tests
6c3gScbBF8pCstUr9s2P0+nMERQv8upmv+2nTXreLQRXx5wVgbAfcdwlBop+tMhTZ08QHejONK5xQP5rD+6YDg==
";

    /// A file of a service, and the key that is told.
    #[test]
    fn file_that_is_not_there_is_reported_at_its_key() {
        for key in ["token_file", "hmac_file", "ca_file", "client_certificate_file"] {
            let beside = match key {
                "client_certificate_file" => "client_key_file: /etc/hostname, ",
                _ => "",
            };
            let text = format!(
                "guards: [{{ kind: http, config: {{ {beside}{key}: /none/x, url: 'https://a.example/' }} }}]"
            );
            let (config, _) = mcpwarden_policy::config::parse(text.as_bytes()).unwrap();
            let found = load(&config, None, Secrets::ForEachRequest).err().unwrap();
            let said = found[0].to_string();
            assert!(said.starts_with(&format!("guards[0].config.{key}: ")), "{said}");
        }
    }

    #[test]
    fn component_is_refused_before_it_is_read_unless_it_is_the_one_that_was_meant() {
        let directory = tempfile::tempdir().unwrap();
        let (path, changed) = (directory.path().join("x.wasm"), SIGNATURE.replace("guard of", "guard at"));
        let hash = "626d0ce33ca550dc06351c3ea7b698be557ff5d35bf25edc44221b561838594c";
        for (bytes, hash, key, signature, expected) in [
            ("a component", None, None, None, None),
            ("a component", Some(hash), None, None, None),
            ("another", Some(hash), None, None, Some(("sha256", "has the hash sha256:"))),
            ("a component", Some(hash), Some(KEY), Some(SIGNATURE), None),
            ("a component", None, Some(KEY), None, Some(("public_key", "cannot be used"))),
            ("a component", None, Some(KEY), Some("x"), Some(("public_key", "no minisign signature"))),
            ("another", None, Some(KEY), Some(SIGNATURE), Some(("public_key", "by this key"))),
            ("a component", None, Some(OTHER_KEY), Some(SIGNATURE), Some(("public_key", "by this key"))),
            ("a component", None, Some(KEY), Some(&*changed), Some(("public_key", "by this key"))),
            (
                "a component",
                None,
                Some("RWx"),
                Some(SIGNATURE),
                Some(("public_key", "no minisign public key")),
            ),
        ] {
            let file = directory.path().join("x.wasm.minisig");
            match signature {
                Some(text) => fs::write(&file, text).unwrap(),
                None => drop(fs::remove_file(&file)),
            }
            let settings = GuardSettings {
                sha256: hash.map(|hash: &str| hash.parse().unwrap()),
                public_key: key.map(str::to_owned),
                ..GuardSettings::default()
            };
            let found =
                check_origin(&settings, &path.to_str().unwrap().parse().unwrap(), bytes.as_bytes()).err();
            match (&found, expected) {
                (None, None) => {}
                (Some((key, message)), Some((of, part))) => {
                    assert!(*key == of && message.contains(part), "{key} {message}");
                }
                _ => panic!("{bytes} {key:?}: {found:?}"),
            }
        }
    }
}
