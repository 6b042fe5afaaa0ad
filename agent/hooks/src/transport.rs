//! Why a request failed on its way, in words for operators. Nothing that the service sent is in them, nor the URL.

use std::{error::Error, io};

use mcpwarden_terms::contract::GuardFailure;
use reqwest::StatusCode;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// Longest text of an error. Characters.
const MAX_CHARACTERS: usize = 200;

/// Why a status other than 200 and 204 is a failure.
pub(crate) fn refusal(status: StatusCode) -> String {
    if status.is_redirection() {
        format!("it answers {status}, a redirect, which is not followed")
    } else {
        format!("it answers {status}")
    }
}

/// Why there is no response, or not all of its body.
pub(crate) fn failure(error: &reqwest::Error) -> GuardFailure {
    if error.is_timeout() { GuardFailure::Timeout } else { GuardFailure::Error(describe(error)) }
}

/// An error in words.
pub(crate) fn describe(error: &reqwest::Error) -> String {
    // reqwest's own text has the URL and no reason; the innermost cause is the reason.
    let mut next = error.source();
    let mut innermost = None;
    while let Some(cause) = next {
        if let Some(tls) = tls_error(cause) {
            return describe_tls(tls);
        }
        innermost = Some(cause);
        next = cause.source();
    }
    let what = if error.is_connect() { "cannot connect" } else { "the connection fails" };
    match innermost {
        Some(cause) => plain(&format!("{what}: {cause}")),
        None => what.to_owned(),
    }
}

/// What an I/O error wraps is not among its sources, and hyper-rustls wraps one in another.
fn tls_error<'a>(mut cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    while let Some(wrapped) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        cause = wrapped;
    }
    cause.downcast_ref()
}

fn describe_tls(error: &rustls::Error) -> String {
    let known = match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => {
                "its certificate is signed by no authority that is trusted; set ca_file"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet"
            }
            _ => return plain(&format!("its certificate is invalid: {error}")),
        },
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => "it does not speak TLS",
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => "it refuses the connection; it may require a client certificate",
        _ => return plain(&format!("TLS fails: {error}")),
    };
    known.to_owned()
}

/// Short, and without control characters: names in certificates are the service's.
fn plain(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_status() {
        for (status, expected) in [
            (201, "it answers 201 Created"),
            (307, "it answers 307 Temporary Redirect, a redirect, which is not followed"),
            (403, "it answers 403 Forbidden"),
            (500, "it answers 500 Internal Server Error"),
        ] {
            assert_eq!(refusal(StatusCode::from_u16(status).unwrap()), expected);
        }
    }

    #[test]
    fn errors_of_tls_are_named() {
        for (error, expected) in [
            (CertificateError::UnknownIssuer.into(), "no authority that is trusted"),
            (CertificateError::NotValidForName.into(), "another name"),
            (CertificateError::Expired.into(), "has expired"),
            (CertificateError::NotValidYet.into(), "not valid yet"),
            (CertificateError::BadSignature.into(), "its certificate is invalid"),
            (InvalidMessage::InvalidContentType.into(), "does not speak TLS"),
            (rustls::Error::AlertReceived(AlertDescription::CertificateRequired), "a client certificate"),
            (rustls::Error::General("a\u{1b}[2J\n".repeat(100)), "TLS fails: unexpected error: a[2Ja[2J"),
        ] {
            let text = describe_tls(&error);
            assert!(text.contains(expected), "{text}");
            assert!(text.chars().count() <= MAX_CHARACTERS && !text.contains(char::is_control), "{text}");
        }
    }
}
