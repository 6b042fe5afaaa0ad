use super::fixture::{BASE, CODE, DATA, Fixture, signatures, to_data};
use crate::{Library, Located, Role, Step, Way, Why, signatures::AssemblySignature};

/// How a compiler passes the path and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Constants: a program that is loaded where it says.
    Constant,
    /// The path relative to the instruction.
    Relative,
    /// Pushed and popped: small code.
    Pushed,
    /// Without the second argument, which nobody uses.
    Short,
    /// The call is shared: all but the first jump there.
    SharedCall,
    /// The path and the call are shared: only the reason is not.
    SharedPath,
}

/// Code that is put together in order.
#[derive(Default)]
struct Code {
    bytes: Vec<u8>,
    /// What reports errors: it is called with five arguments.
    reporter: usize,
}

impl Code {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn jump(&mut self, opcode: u8, to: usize) {
        let end = self.bytes.len() + 5;
        self.add(&[opcode]);
        self.add(&i32::try_from(to as i64 - end as i64).unwrap().to_le_bytes());
    }

    fn call(&mut self, to: usize) {
        self.jump(0xe8, to);
    }

    fn path(&mut self, style: Style, path: usize) {
        if style == Style::Constant {
            self.add(&[0xb9]);
            self.add(&u32::try_from(BASE + (DATA + path) as u64).unwrap().to_le_bytes());
        } else {
            let number = to_data(self.bytes.len() + 7, path);
            self.add(&[0x48, 0x8d, if style == Style::Short { 0x15 } else { 0x0d }]);
            self.add(&number);
        }
    }

    fn reason(&mut self, style: Style, reason: u8) {
        match style {
            // Constants of one byte have a sign.
            Style::Pushed if reason < 128 => self.add(&[0x6a, 16, 0x5f, 0x6a, reason, 0x5a]),
            Style::Pushed => self.add(&[0x6a, 16, 0x5f, 0x68, reason, 0, 0, 0, 0x5a]),
            Style::Short => self.add(&[0xbf, 16, 0, 0, 0, 0xbe, reason, 0, 0, 0, 0xb9, 0x47, 3, 0, 0]),
            _ => self.add(&[0xbf, 16, 0, 0, 0, 0x31, 0xf6, 0xba, reason, 0, 0, 0]),
        }
    }

    /// A function that calls others, and reports errors; where it begins.
    fn function(&mut self, style: Style, path: usize, calls: &[usize], reasons: &[u8]) -> usize {
        let begin = self.bytes.len();
        self.add(&[0x55, 0x48, 0x89, 0xe5]);
        self.rest(style, path, calls, reasons);
        begin
    }

    /// One that writes to memory besides.
    fn storing(&mut self, style: Style, path: usize, calls: &[usize], reasons: &[u8]) -> usize {
        let begin = self.bytes.len();
        // push %rbp; mov %rsp, %rbp; add %rcx, 0x80(%rax)
        self.add(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x01, 0x88, 0x80, 0, 0, 0]);
        self.rest(style, path, calls, reasons);
        begin
    }

    fn rest(&mut self, style: Style, path: usize, calls: &[usize], reasons: &[u8]) {
        calls.iter().for_each(|to| self.call(*to));
        let mut shared = None;
        // Each of the reports is jumped to; the function ends behind the last of them.
        self.add(&[0x0f, 0x84]);
        let hole = self.bytes.len();
        self.add(&[0; 4]);
        self.add(&[0x5d, 0xc3]);
        for reason in reasons {
            match (style, shared) {
                (Style::SharedCall, Some(call)) => {
                    self.path(style, path);
                    self.reason(style, *reason);
                    self.jump(0xe9, call);
                }
                (Style::SharedPath, Some(block)) => {
                    self.reason(style, *reason);
                    self.jump(0xe9, block);
                }
                (Style::SharedPath, None) => {
                    self.reason(style, *reason);
                    let block = self.bytes.len() + 5;
                    self.jump(0xe9, block);
                    shared = Some(self.bytes.len());
                    self.path(style, path);
                    self.call(self.reporter);
                }
                _ => {
                    self.path(style, path);
                    self.reason(style, *reason);
                    shared = Some(self.bytes.len());
                    self.call(self.reporter);
                }
            }
        }
        let end = self.bytes.len();
        self.bytes[hole..hole + 4].copy_from_slice(&u32::try_from(end - hole - 4).unwrap().to_le_bytes());
        self.add(&[0x5d, 0xc3]);
    }

    /// What is between functions.
    fn pad(&mut self, is_padded: bool) {
        if is_padded {
            self.add(&[0xcc]);
            self.bytes.resize(self.bytes.len().next_multiple_of(16), 0xcc);
        }
    }
}

const PATH: &[u8] = b"\0../../vendor/boringssl/ssl/ssl_lib.cc\0";

/// A program with the functions of BoringSSL, and where SSL_write and SSL_read are.
fn boringssl(style: Style, is_padded: bool, impl_reasons: &[u8], peek: bool) -> (Located, u64, u64) {
    let mut code = Code::default();
    code.add(&[0xc3]);
    code.pad(true);
    let path = 1;
    let other = code.function(style, path, &[], &[66, 68]);
    code.pad(is_padded);
    let implementation = code.function(style, path, &[other], impl_reasons);
    code.pad(is_padded);
    if peek {
        code.function(style, path, &[implementation], &[66]);
        code.pad(is_padded);
    }
    let read = code.storing(style, path, &[implementation, other], &[66]);
    code.pad(is_padded);
    let write = code.function(style, path, &[other], &[66, 226, 215, 111]);
    code.pad(is_padded);
    let main = code.bytes.len();
    code.add(&[0x55]);
    [write, read, other, implementation].iter().for_each(|to| code.call(*to));
    if peek {
        code.call(implementation);
    }
    code.add(&[0x5d, 0xc3]);
    assert!(main > 0);
    let fixture = Fixture { code: code.bytes, data: PATH.to_vec(), ..Fixture::default() };
    (fixture.locate(), (CODE + write) as u64, (CODE + read) as u64)
}

#[test]
fn boringssl_is_found_however_it_was_compiled() {
    let styles =
        [Style::Constant, Style::Relative, Style::Pushed, Style::Short, Style::SharedCall, Style::SharedPath];
    for style in styles {
        for is_padded in [true, false] {
            for (reasons, peek) in [(&[215, 226][..], false), (&[182, 110, 215, 226][..], true)] {
                let (located, write, read) = boringssl(style, is_padded, reasons, peek);
                let case = format!("{style:?}, padded {is_padded}, peek {peek}: {located:#?}");
                assert_eq!((located.stacks.len(), located.unknown.len()), (1, 0), "{case}");
                assert_eq!(located.stacks[0].library, Library::BoringSsl, "{case}");
                let found: Vec<_> = located.stacks[0]
                    .functions
                    .iter()
                    .map(|f| (f.name.as_str(), f.role, f.way, f.offset, f.probe.offset, f.probe.step))
                    .collect();
                assert_eq!(
                    found,
                    [
                        ("SSL_write", Role::Write, Way::ErrorCodes, write, write, Step::Emulated),
                        ("SSL_read", Role::Read, Way::ErrorCodes, read, read, Step::Emulated),
                    ],
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn peeking_stands_for_reading_where_that_reports_nothing() {
    for reasons in [&[66][..], &[66, 134, 215, 226]] {
        let mut code = Code::default();
        code.add(&[0xc3]);
        code.pad(true);
        let implementation = code.function(Style::Relative, 1, &[], &[215, 226]);
        code.pad(true);
        let peek = code.function(Style::Relative, 1, &[implementation], reasons);
        code.pad(true);
        code.storing(Style::Relative, 1, &[peek], &[]);
        code.pad(true);
        code.function(Style::Relative, 1, &[implementation], &[66, 226, 215, 111]);
        let located = Fixture { code: code.bytes, data: PATH.to_vec(), ..Fixture::default() }.locate();
        let found: Vec<_> = located.stacks[0]
            .functions
            .iter()
            .map(|f| (f.name.as_str(), f.role, f.offset, f.repeats))
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[1], ("SSL_peek", Role::Read, (CODE + peek) as u64, true));
    }
}

#[test]
fn other_reasons_are_no_match() {
    let (located, ..) = boringssl(Style::Constant, true, &[215, 227], false);
    let roles: Vec<Role> = located.stacks[0].functions.iter().map(|function| function.role).collect();
    assert_eq!(roles, [Role::Write]);
    assert_eq!(located.unknown[0].why, Why::Partial(vec![Role::Write]));
}

#[test]
fn same_reasons_in_two_functions_are_ambiguous() {
    let mut code = Code::default();
    code.add(&[0xc3]);
    code.pad(true);
    for _ in 0..2 {
        code.function(Style::Constant, 1, &[], &[66, 226, 215, 111]);
        code.pad(true);
    }
    let located = Fixture { code: code.bytes, data: PATH.to_vec(), ..Fixture::default() }.locate();
    assert_eq!(located.stacks, []);
    assert_eq!(located.unknown[0].why, Why::Ambiguous("SSL_write".to_owned()));
}

/// A program with rustls, and code at the beginning.
fn rustls(code: Vec<u8>, texts: &[u8]) -> Located {
    let data = [b"InappropriateHandshakeMessage\0".as_slice(), texts].concat();
    Fixture { code, data, ..Fixture::default() }.locate()
}

/// The bytes of a built-in signature, with other displacements.
fn assembly(name: &str, library: Library) -> Vec<u8> {
    let signatures = signatures();
    let signature =
        signatures.assembly.iter().find(|one| one.name == name && one.library == library).unwrap();
    filled(signature)
}

/// The bytes of a signature, with other displacements, and padding behind them.
fn filled(signature: &AssemblySignature) -> Vec<u8> {
    let mut bytes: Vec<u8> = signature.bytes.iter().map(|byte| byte.unwrap_or(0x5a)).collect();
    bytes.resize(256, 0xcc);
    bytes
}

#[test]
fn every_assembly_signature_finds_its_own_function_and_no_other() {
    let signatures = signatures();
    for signature in &signatures.assembly {
        for is_marked in [false, true] {
            let mut code = vec![0xcc; 60];
            code.extend(if is_marked { [0xf3, 0x0f, 0x1e, 0xfa] } else { [0xcc; 4] });
            code.extend(filled(signature));
            let located = rustls(code, b"");
            let case = format!("{} {is_marked} {located:#?}", signature.name);
            assert_eq!((located.stacks.len(), located.stacks[0].functions.len()), (1, 1), "{case}");
            let function = &located.stacks[0].functions[0];
            let begin = CODE as u64 + if is_marked { 60 } else { 64 };
            assert_eq!(
                (&function.name, function.way, function.offset),
                (&signature.name, Way::Assembly, begin),
                "{case}"
            );
            // All of them begin with something that the kernel emulates soon.
            assert_eq!(function.probe.step, Step::Emulated, "{case}");
            assert!((64..80).contains(&(function.probe.offset - CODE as u64)), "{case}");
        }
    }
}

#[test]
fn assembly_without_rustls_is_no_tls() {
    let code = assembly("aesni_gcm_encrypt", Library::Rustls);
    let located = Fixture { code, ..Fixture::default() }.locate();
    assert_eq!((located.stacks.len(), located.unknown.len()), (0, 0));
}

#[test]
fn changed_byte_of_assembly_is_no_match() {
    for at in [0, 20, 63] {
        let mut code = assembly("aesni_gcm_encrypt", Library::Rustls);
        code[at] ^= 1;
        let located = rustls(code, b"");
        assert_eq!(located.unknown[0].why, Why::NothingFits, "{at}");
    }
}

#[test]
fn assembly_of_two_libraries_belongs_to_the_nearest() {
    let aws_lc = b"\0/aws-lc/crypto/fipsmodule/cipher/aead.c\0";
    let both = [b"/ring-0.17.14/".as_slice(), aws_lc].concat();
    let shared = assembly("aesni_gcm_encrypt", Library::Rustls);
    let ring = assembly("aes_hw_ctr32_encrypt_blocks", Library::RustlsRing);
    let own = assembly("aes_hw_ctr32_encrypt_blocks", Library::RustlsAwsLc);
    let gap = vec![0xcc; 0x4000];
    let located = rustls([&ring[..], &shared, &gap, &shared, &own].concat(), &both);
    let found: Vec<_> = located
        .stacks
        .iter()
        .map(|stack| {
            (
                stack.library,
                stack.functions.iter().map(|f| (f.name.as_str(), f.offset - CODE as u64)).collect(),
            )
        })
        .collect::<Vec<(Library, Vec<(&str, u64)>)>>();
    assert_eq!(
        found,
        [
            (Library::RustlsRing, vec![("aesni_gcm_encrypt", 256), ("aes_hw_ctr32_encrypt_blocks", 0)]),
            (
                Library::RustlsAwsLc,
                vec![("aesni_gcm_encrypt", 0x4200), ("aes_hw_ctr32_encrypt_blocks", 0x4300)]
            ),
        ]
    );
    // With one of them in the file there is no question.
    for (texts, library) in [(&b"/ring-0.17.14/"[..], Library::RustlsRing), (aws_lc, Library::RustlsAwsLc)] {
        assert_eq!(rustls(shared.clone(), texts).stacks[0].library, library);
    }
}

#[test]
fn functions_for_whole_records_stand_for_the_assembly_that_they_call() {
    let path = b"/home/me/aws-lc-sys-0.47.0/aws-lc/crypto/fipsmodule/cipher/aead.c\0";
    let begin = b"InappropriateHandshakeMessage\0".len();
    // EVP_AEAD_CTX_open calls the other one, or has it inside.
    let cases = [
        (&[101, 103, 115][..], &["EVP_AEAD_CTX_open_gather"][..]),
        (&[101, 103, 104, 115], &["EVP_AEAD_CTX_open", "EVP_AEAD_CTX_open_gather"]),
    ];
    for (open, opens) in cases {
        let mut code = Code::default();
        code.add(&[0xc3]);
        code.pad(true);
        for reasons in [&[103, 115, 117][..], &[112, 115], open, &[104, 115]] {
            code.function(Style::Relative, begin, &[], reasons);
            code.pad(true);
        }
        code.add(&assembly("aesni_gcm_encrypt", Library::Rustls));
        let located = rustls(code.bytes, path);
        assert_eq!((located.stacks.len(), located.unknown.len()), (1, 0), "{located:#?}");
        assert_eq!(located.stacks[0].library, Library::RustlsAwsLc);
        let names = |role| {
            let functions = located.stacks[0].functions.iter().filter(move |function| function.role == role);
            functions.map(|function| function.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(Role::Seal), ["EVP_AEAD_CTX_seal", "EVP_AEAD_CTX_seal_scatter"]);
        assert_eq!(names(Role::Open), opens);
    }
}
