//! Servers that are reached over HTTP.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::{
    clients::{Plan, RealServer},
    command::CommandOutput,
    http_server::{AUTHORITY, CERTIFICATE, HttpServer, Style},
    places,
};

use super::{inspect, wait_for};

/// How an HTTP server behaves, arguments, exit code, what standard output holds.
#[test]
fn http_servers_yield_expected_findings() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let token = directory.path().join("token").display().to_string();
    fs::write(&token, "Bearer s3cret\n")?;
    let from_file = format!("Authorization:@{token}");
    let cases: [(Style, &[&str], i32, &str); 13] = [
        (Style::Json, &[], 1, "something found in 1"),
        (Style::Events, &[], 1, "something found in 1"),
        (Style::Old, &[], 1, "something found in 1"),
        (Style::OldElsewhere, &[], 2, "by the transport before that: `endpoint` is on another host"),
        (Style::Locked, &[], 2, "401 Unauthorized; give it what it wants to see with --header"),
        (Style::Locked, &["--header", "Authorization: Bearer s3cret"], 1, "something found in 1"),
        (Style::Locked, &["--header", &from_file], 1, "something found in 1"),
        (Style::Moved, &[], 1, "something found in 1"),
        (Style::Away, &["--header", &from_file], 2, "to http://127.0.0.2:1/mcp, which is not followed"),
        (Style::Page, &[], 2, "something else than JSON: no MCP server is at this address"),
        (Style::Silent, &["--timeout", "2s"], 2, "it did not answer within 2s"),
        (Style::Flood, &[], 2, "it sent more than 64 MiB"),
        (
            Style::Gone,
            &[],
            2,
            "error sending request: client error (Connect): tcp connect error: Connection refused",
        ),
    ];
    for (style, args, code, part) in cases {
        let server = HttpServer::start(style)?;
        let args = [&["--server", server.url()], args].concat();
        let said = inspect(&args)?;
        said.expect(&format!("{style:?} {args:?}"), code, part)?;
        ensure!(!format!("{}{}", said.stdout, said.stderr).contains("s3cret"), "{style:?}: {}", said.stdout);
    }
    for (url, part) in
        [("ftp://x/", "no address that begins with http"), ("x y", "no address that begins with http")]
    {
        inspect(&["--server", url])?.expect(url, 2, part)?;
    }
    Ok(())
}

/// A server of HTTPS, the certificates in `--ca-file`, exit code, what standard output and error hold.
#[test]
fn server_certificates_are_verified() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("ca.pem").display().to_string();
    let broken: &[u8] = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let cases: [(Style, Option<&[u8]>, i32, &str); 7] = [
        (Style::Tls, Some(CERTIFICATE), 1, "something found in 1"),
        (Style::Tls, Some(AUTHORITY), 1, "something found in 1"),
        (
            Style::Tls,
            None,
            2,
            "nobody whom this system trusts has signed its certificate; if it is the right one, name the certificate of who \
             has, or itself, with --ca-file",
        ),
        (Style::TlsAuthority, Some(AUTHORITY), 2, "its certificate is an authority's (CA:TRUE)"),
        (Style::Json, Some(b"no certificate"), 2, "there is no certificate in it"),
        (Style::Tls, Some(broken), 2, "those of --ca-file are whole"),
        (Style::Tls, Some(&[b' '; (1 << 20) + 1]), 2, "longer than 1048576 bytes"),
    ];
    for (number, (style, authorities, code, part)) in cases.into_iter().enumerate() {
        let server = HttpServer::start(style)?;
        fs::write(&file, authorities.unwrap_or_default())?;
        let options: &[&str] = if authorities.is_some() { &["--ca-file", &file] } else { &[] };
        let said = inspect(&[&["--server", server.url()], options].concat())?;
        let text = format!("{}{}", said.stdout, said.stderr);
        ensure!(said.code == Some(code) && text.contains(part), "case {number}: {:?}, {text}", said.code);
    }
    Ok(())
}

/// Servers of the official SDKs, by both transports: exit code, what is found.
#[test]
fn official_sdk_servers_yield_expected_findings() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let Plan { command: node, args: everything, .. } = RealServer::Everything.plan(directory.path())?;
    let python = places::real_servers().join("venv/bin/python").display().to_string();
    let own = places::sources().join("servers/server.py").display().to_string();
    let port =
        || -> Result<String> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string()) };
    let (first, second) = (port()?, port()?);
    let (node, own) = (node.display().to_string(), [own]);
    type Case<'a> = (&'a str, &'a [String], &'a [&'a str], &'a str, i32, &'a str);
    let cases: [Case<'_>; 2] = [
        (
            &node,
            &everything,
            &["streamableHttp"],
            &first,
            0,
            " tools, 4 prompts, 2 resource templates, instructions, ",
        ),
        (&python, &own, &[&second], &second, 1, "2 tools, instructions, something found in 1"),
    ];
    for (program, args, over_http, port, code, part) in cases {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let by_stdio = inspect(&[&["--as-root", "--", program], &args[..]].concat())?;
        by_stdio.expect(program, code, part)?;

        let log = fs::File::create(directory.path().join("log"))?;
        let mut command = Command::new(program);
        command.args(args).args(over_http).env("PORT", port).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let _server = Running(command.spawn().context("`cargo xtask setup --tests` installs it")?);
        wait_for(program, || TcpStream::connect(format!("127.0.0.1:{port}")).is_ok())?;
        let by_http = inspect(&["--server", &format!("http://127.0.0.1:{port}/mcp")])?;
        by_http.expect(program, code, part)?;
        let rows = |said: &CommandOutput| {
            said.stdout.lines().filter(|line| !line.contains(part)).map(str::to_owned).collect::<Vec<_>>()
        };
        ensure!(rows(&by_stdio) == rows(&by_http), "{}\nis not\n{}", by_stdio.stdout, by_http.stdout);
    }
    Ok(())
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
