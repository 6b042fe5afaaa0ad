//! What a search finds: plain data, which a cache can keep.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a file runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    /// x86-64.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit ARM. Its functions are found by their symbols alone.
    Aarch64,
}

/// An implementation of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// OpenSSL of an unknown version.
    #[serde(rename = "openssl")]
    OpenSsl,
    /// OpenSSL 1.1.
    #[serde(rename = "openssl_1_1")]
    OpenSsl11,
    /// OpenSSL 3 and later.
    #[serde(rename = "openssl_3")]
    OpenSsl3,
    /// BoringSSL.
    #[serde(rename = "boringssl")]
    BoringSsl,
    /// GnuTLS.
    #[serde(rename = "gnutls")]
    GnuTls,
    /// `crypto/tls` of Go.
    Go,
    /// rustls of an unknown provider.
    Rustls,
    /// rustls with the cryptography of ring.
    RustlsRing,
    /// rustls with the cryptography of AWS-LC.
    RustlsAwsLc,
    /// NSS, of Mozilla.
    Nss,
    /// Mbed TLS.
    #[serde(rename = "mbedtls")]
    MbedTls,
    /// wolfSSL.
    #[serde(rename = "wolfssl")]
    WolfSsl,
    /// s2n-tls.
    S2n,
    /// TLS of an unknown implementation.
    Other,
}

impl fmt::Display for Library {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::OpenSsl => "OpenSSL",
            Self::OpenSsl11 => "OpenSSL 1.1",
            Self::OpenSsl3 => "OpenSSL 3",
            Self::BoringSsl => "BoringSSL",
            Self::GnuTls => "GnuTLS",
            Self::Go => "Go crypto/tls",
            Self::Rustls => "rustls",
            Self::RustlsRing => "rustls with ring",
            Self::RustlsAwsLc => "rustls with AWS-LC",
            Self::Nss => "NSS",
            Self::MbedTls => "Mbed TLS",
            Self::WolfSsl => "wolfSSL",
            Self::S2n => "s2n-tls",
            Self::Other => "an unknown implementation of TLS",
        })
    }
}

/// How a function was found. The order is that of the search: the earlier, the surer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A symbol that other files can use.
    DynamicSymbol,
    /// A symbol for debuggers.
    Symbol,
    /// The table of functions that every Go program has.
    GoTable,
    /// The text of its own name, which it refers to where it reports errors.
    FunctionName,
    /// The codes of the errors that it reports.
    ErrorCodes,
    /// The bytes of a function that was written in assembly language.
    Assembly,
}

impl fmt::Display for Way {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::DynamicSymbol => "dynamic symbol",
            Self::Symbol => "symbol",
            Self::GoTable => "go pclntab",
            Self::FunctionName => "__func__ string",
            Self::ErrorCodes => "error codes",
            Self::Assembly => "assembly",
        })
    }
}

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Takes plaintext to send: it is in the buffer at entry.
    Write,
    /// Gives plaintext that was received: it is in the buffer at return.
    Read,
    /// Makes the connection.
    Handshake,
    /// Forgets the connection.
    Free,
    /// Encrypts one record, or some of it: the plaintext is in the input at entry.
    Seal,
    /// Decrypts one record, or some of it: the plaintext is in the output at return.
    Open,
    /// Does either, which are the same: the key shows which. The plaintext is in the input at entry, or in the output at return.
    Cipher,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Address of the state of the connection.
    Connection,
    /// Address of the plaintext: to read at entry, or to write until the return.
    Buffer,
    /// Bytes of the buffer, or of the input.
    Length,
    /// The same, as a number of blocks of 16 bytes.
    Blocks,
    /// Address of more input, which is encrypted behind the other.
    Extra,
    /// Bytes of that.
    ExtraLength,
    /// Address of a number: how many bytes were written or read, if the call succeeded.
    Done,
    /// Address of what is encrypted or decrypted.
    Input,
    /// Address of the result of that.
    Output,
    /// Address of the key, or of a state with the key: constant for one direction of a connection.
    Key,
    /// Anything else.
    Ignored,
}

/// What the function returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Returned {
    /// How many bytes were written or read; 0 or less: none.
    Bytes,
    /// 1 for success; the bytes are where [`Value::Done`] points, or all of [`Value::Length`].
    Status,
    /// Nothing of interest.
    #[default]
    Nothing,
}

/// Where an argument is when the function is entered, and still is at the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// A register, by its name in `struct pt_regs` (x86-64) or `struct user_pt_regs`.
    Register(Register),
    /// On the stack: so many bytes above the stack pointer as it is at the first instruction. At the probe it is lower by
    /// [`Probe::stack`].
    Stack(u16),
}

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "they are their names")]
pub enum Register {
    Rax,
    Rbx,
    Rcx,
    Rdx,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    X0,
    X1,
    X2,
    X3,
    X4,
    X5,
    X6,
    X7,
}

/// An argument of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// What it is.
    pub value: Value,
    /// Where it is.
    pub at: Location,
}

/// What the kernel does where the probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// It emulates the instruction: some 0.9 µs.
    Emulated,
    /// It single-steps a copy of the instruction, which costs some five times as much: no instruction that it emulates comes while the
    /// arguments are intact.
    Stepped,
    /// As the last, and the beginning of the function was not decoded to where it is known what comes.
    Undecoded,
}

/// Where to probe the entry of a function. All arguments are where [`Function::arguments`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Offset in the file.
    pub offset: u64,
    /// What the kernel does there.
    pub step: Step,
    /// By how many bytes the stack pointer is lower than at the first instruction: the return address is so far above it.
    pub stack: u16,
}

/// A function to be probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name in the source of the library.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// How it was found.
    pub way: Way,
    /// Where it begins in the file.
    pub offset: u64,
    /// Where to probe its entry.
    pub probe: Probe,
    /// What is known of its arguments.
    pub arguments: Vec<Argument>,
    /// What it returns, in the register of the results of its language: rax in C and, since 1.17, in Go.
    pub returned: Returned,
    /// Offsets in the file of all its returns, where these are to be probed, since Go moves its stacks and return probes would crash the
    /// program. Elsewhere `None`: probe the return as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<Vec<u64>>,
    /// Functions that hand each of their calls on to this one: they are seen here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// It serves others besides TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_shared: bool,
    /// It can give the same bytes more than once: programs also call it to look at what they read later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
}

/// A library within a file, and its functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Which.
    pub library: Library,
    /// Its version, where the file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its functions, by role and name.
    pub functions: Vec<Function>,
}

impl Stack {
    /// Whether plaintext is seen both ways.
    pub fn is_whole(&self) -> bool {
        let has = |roles: [Role; 2]| self.functions.iter().any(|function| roles.contains(&function.role));
        has([Role::Write, Role::Seal]) && has([Role::Read, Role::Open])
    }
}

/// A library that is in a file, and of which functions were not found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Which.
    pub library: Library,
    /// Its version, where the file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why its functions were not found.
    pub why: Why,
}

/// Why functions were not found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// No way leads to functions of this library.
    NoWay,
    /// The library is there, and nothing that is known of its functions fits.
    NothingFits,
    /// Only functions of these roles were found.
    Partial(Vec<Role>),
    /// The same function seems to be there several times.
    Ambiguous(String),
    /// Only symbols are known on this machine, and there are none.
    Machine,
}

impl fmt::Display for Why {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWay => to.write_str("functions of this library are not known"),
            Self::NothingFits => to.write_str("no signature fits this build"),
            Self::Partial(roles) => write!(to, "only functions of these roles were found: {roles:?}"),
            Self::Ambiguous(name) => write!(to, "{name} seems to be there several times"),
            Self::Machine => {
                to.write_str("on this machine functions are found by symbols alone, and it has none")
            }
        }
    }
}

/// All that was found in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The build id of the linker, in hexadecimal digits; of Go programs without one, Go's own text.
    pub build_id: Option<String>,
    /// What it runs on.
    pub machine: Machine,
    /// The name that it is needed by, if it is a library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soname: Option<String>,
    /// The libraries that it needs: TLS may be in one of them.
    pub needed: Vec<String>,
    /// Libraries whose functions were found. None here and none unknown: no TLS in this file.
    pub stacks: Vec<Stack>,
    /// Libraries that are there, and cannot be probed, or only one way.
    pub unknown: Vec<Unknown>,
    /// Parts of the file that are not as they must be, and were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}
