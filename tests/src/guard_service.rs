//! A service that judges: a guard behind HTTP, for tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// What a service answers to a request: a status and a body.
pub type Judge = dyn Fn(&Value) -> (u16, Value) + Send + Sync;

/// A service on this host. It ends with the test's process.
pub struct GuardService {
    /// Where it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl GuardService {
    /// One that judges so.
    ///
    /// # Errors
    /// There is no port left.
    pub fn start(judge: impl Fn(&Value) -> (u16, Value) + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
        let address = listener.local_addr()?;
        let (asked, judge): (Arc<Mutex<Vec<Value>>>, Arc<Judge>) = (Arc::default(), Arc::new(judge));
        let kept = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, judge) = (Arc::clone(&kept), Arc::clone(&judge));
                // One that is cut off has nothing to say.
                thread::spawn(move || serve(stream, &asked, &*judge).ok());
            }
        });
        Ok(Self { address, asked })
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(stream: TcpStream, asked: &Mutex<Vec<Value>>, judge: &Judge) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        while line.trim() != "" {
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
            line.clear();
            reader.read_line(&mut line)?;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body)?;
        let (status, answer) = judge(&request);
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let text = answer.to_string();
        write!(writer, "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{text}", text.len())?;
    }
}
