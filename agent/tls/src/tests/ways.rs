use super::fixture::{CODE, Fixture, Hash, located, to_data};
use crate::{
    Function, Image, Library, LocateError, Located, Location, Machine, Register, Role, Signatures, Step,
    Value, Way, Why, locate,
};

/// Code of functions, each at a multiple of 64.
fn code(functions: &[&[u8]]) -> Vec<u8> {
    functions
        .iter()
        .flat_map(|function| {
            let mut function = function.to_vec();
            function.resize(64, 0xcc);
            function
        })
        .collect()
}

fn only(located: &Located) -> &[Function] {
    assert_eq!(located.stacks.len(), 1, "{located:#?}");
    &located.stacks[0].functions
}

fn at(place: u64) -> u64 {
    CODE as u64 + place
}

const PUSH: &[u8] = &[0x55, 0xc3];
const SUB_CALL: &[u8] = &[0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0xc3];

#[test]
fn exported_functions_are_found_by_either_hash() {
    for hash in [Hash::Gnu, Hash::SysV] {
        let fixture = Fixture {
            code: code(&[PUSH, SUB_CALL]),
            dynamic: vec![("BIO_new", 0), ("SSL_read", 0), ("SSL_write", 64), ("SSL_writes", 0)],
            soname: Some("libssl.so.3"),
            needed: vec!["libcrypto.so.3", "libc.so.6"],
            hash,
            ..Fixture::default()
        };
        let located = fixture.locate();
        assert_eq!(located.build_id.as_deref(), Some("deadbeef"));
        assert_eq!(located.needed, ["libcrypto.so.3", "libc.so.6"]);
        assert_eq!(located.soname.as_deref(), Some("libssl.so.3"));
        assert_eq!((located.unknown.len(), located.problems.len()), (0, 0), "{located:?}");
        assert_eq!(located.stacks[0].library, Library::OpenSsl3);
        let functions: Vec<_> = only(&located)
            .iter()
            .map(|f| (f.name.as_str(), f.role, f.way, f.offset, f.probe.offset, f.probe.step, f.probe.stack))
            .collect();
        assert_eq!(
            functions,
            [
                ("SSL_write", Role::Write, Way::DynamicSymbol, at(64), at(68), Step::Emulated, 8),
                ("SSL_read", Role::Read, Way::DynamicSymbol, at(0), at(0), Step::Emulated, 0),
            ]
        );
    }
}

#[test]
fn symbols_for_debuggers_are_found_with_and_without_version() {
    let fixture = Fixture {
        code: code(&[PUSH, SUB_CALL]),
        symbols: vec![("my_SSL_write", 0), ("SSL_write@@OPENSSL_3.0.0", 64), ("SSL_read", 0)],
        has_sections: true,
        ..Fixture::default()
    };
    let located = fixture.locate();
    let functions: Vec<_> = only(&located).iter().map(|f| (f.name.as_str(), f.way, f.offset)).collect();
    assert_eq!(functions, [("SSL_write", Way::Symbol, at(64)), ("SSL_read", Way::Symbol, at(0))]);
    assert_eq!(located.stacks[0].library, Library::OpenSsl);
}

#[test]
fn library_and_version_follow_from_texts() {
    let cases: [(&str, &[u8], Library, Option<&str>); 6] = [
        ("nothing", b"", Library::OpenSsl, None),
        ("3", b"OpenSSL 3.0.19 27 Jan 2026\0", Library::OpenSsl3, Some("3.0.19")),
        ("1.1", b"OpenSSL 1.1.1w  11 Sep 2023\0", Library::OpenSsl11, Some("1.1.1w")),
        ("no version", b"OpenSSL 3.x and later\0", Library::OpenSsl, None),
        ("names of its own", b"\0ssl_write_internal\0", Library::OpenSsl3, None),
        (
            "boringssl",
            b"\0third_party/boringssl/src/ssl/ssl_lib.cc\0OpenSSL 1.1.1 (compatible)\0",
            Library::BoringSsl,
            None,
        ),
    ];
    for (name, data, library, version) in cases {
        let fixture = Fixture {
            code: code(&[PUSH, PUSH]),
            data: data.to_vec(),
            dynamic: vec![("SSL_write", 0), ("SSL_read", 64)],
            ..Fixture::default()
        };
        let located = fixture.locate();
        assert_eq!(
            (located.stacks[0].library, located.stacks[0].version.as_deref()),
            (library, version),
            "{name}"
        );
    }
}

#[test]
fn library_without_functions_is_reported() {
    let rustls = b"InappropriateHandshakeMessage/rustls-0.23.40/src/".to_vec();
    type Missed<'a> = &'a [(Library, Option<&'a str>, Why)];
    let cases: [(&str, &[u8], Option<&'static str>, Missed<'_>); 7] = [
        ("nothing of TLS", b"libcrypto OpenSSL 3.0.19 27 Jan 2026\0", None, &[]),
        (
            "openssl",
            b"\0../ssl/ssl_lib.c\0OpenSSL 1.1.1w  11 Sep 2023\0",
            None,
            &[(Library::OpenSsl11, Some("1.1.1w"), Why::NothingFits)],
        ),
        (
            "boringssl",
            b"\0/boringssl/ssl/ssl_lib.cc\0",
            None,
            &[(Library::BoringSsl, None, Why::NothingFits)],
        ),
        ("rustls", &rustls, None, &[(Library::Rustls, Some("0.23.40"), Why::NothingFits)]),
        ("nss", b"", Some("libssl3.so"), &[(Library::Nss, None, Why::NoWay)]),
        ("gnutls", b"", Some("libgnutls.so.30"), &[(Library::GnuTls, None, Why::NothingFits)]),
        ("a label of TLS 1.3", b"c ap traffic", None, &[(Library::Other, None, Why::NoWay)]),
    ];
    for (name, data, soname, unknown) in cases {
        let located = Fixture { data: data.to_vec(), soname, ..Fixture::default() }.locate();
        let found: Vec<_> = located
            .unknown
            .iter()
            .map(|one| (one.library, one.version.as_deref(), one.why.clone()))
            .collect();
        assert_eq!(found, unknown, "{name}");
        assert_eq!(located.stacks, [], "{name}");
    }
}

#[test]
fn functions_of_one_direction_only_are_reported() {
    let fixture = Fixture { code: code(&[PUSH]), dynamic: vec![("SSL_write", 0)], ..Fixture::default() };
    let located = fixture.locate();
    assert_eq!(only(&located).len(), 1);
    assert_eq!(located.unknown[0].why, Why::Partial(vec![Role::Write]));
}

#[test]
fn function_that_hands_on_to_another_is_not_probed_twice() {
    // xor %ecx, %ecx; jmp to the next function
    let jump = [0x31, 0xc9, 0xe9, 57, 0, 0, 0];
    // push %rbp; mov %rcx, %r8; xor %ecx, %ecx; call the next function; pop %rbp; ret
    let call = [0x55, 0x49, 0x89, 0xc8, 0x31, 0xc9, 0xe8, 53, 0, 0, 0, 0x5d, 0xc3];
    let cases = [
        (&jump[..], ["gnutls_record_send", "gnutls_record_send2", "gnutls_record_recv"]),
        (&call, ["SSL_write_ex", "SSL_write_ex2", "SSL_read"]),
    ];
    for (first, [from, to, read]) in cases {
        let fixture = Fixture {
            code: code(&[first, PUSH, PUSH]),
            dynamic: vec![(from, 0), (to, 64), (read, 128)],
            ..Fixture::default()
        };
        let located = fixture.locate();
        let functions: Vec<_> = only(&located).iter().map(|f| (f.name.as_str(), f.also.clone())).collect();
        assert_eq!(functions, [(to, vec![from.to_owned()]), (read, vec![])]);
    }
}

#[test]
fn function_is_found_by_its_own_name() {
    // Versions, and what is known of the arguments: the number of bytes is where the fourth or the fifth points to.
    let four = Some(Location::Register(Register::Rcx));
    let five = Some(Location::Register(Register::R8));
    let cases = [
        ("OpenSSL 3.6.4 25 Aug 2026", five),
        ("OpenSSL 4.0.3 25 Aug 2026", five),
        ("OpenSSL 3.2.9 25 Aug 2026", four),
        ("", None),
    ];
    for (version, done) in cases {
        let data = format!("\0ssl_write_internal\0ssl_read_internal\0{version}\0not_ssl_read_internal\0")
            .into_bytes();
        // push; lea name(%rip), %rdx; ret
        let refers = |place: usize, text: usize| {
            [&[0x55, 0x48, 0x8d, 0x15], to_data(place + 8, text).as_slice(), &[0xc3]].concat()
        };
        let mut all = vec![0xcc; 64];
        all.extend(code(&[&refers(64, 1), &refers(128, 20), PUSH]));
        let located = Fixture { code: all, data, ..Fixture::default() }.locate();
        let functions: Vec<_> =
            only(&located).iter().map(|f| (f.name.as_str(), f.role, f.way, f.offset)).collect();
        assert_eq!(
            functions,
            [
                ("ssl_write_internal", Role::Write, Way::FunctionName, at(64)),
                ("ssl_read_internal", Role::Read, Way::FunctionName, at(128)),
            ]
        );
        let found = only(&located)[0].arguments.iter().find(|argument| argument.value == Value::Done);
        assert_eq!(found.map(|argument| argument.at), done, "{version}");
        assert_eq!(located.stacks[0].library, Library::OpenSsl3);
        assert_eq!(located.unknown, []);
    }
}

#[test]
fn borders_of_functions_are_those_of_the_unwinding_table() {
    let data = b"\0ssl_write_internal\0".to_vec();
    // Functions that nothing is between, that begin anywhere, and that nothing calls: nop; push; lea name(%rip), %rdx; ret
    let refers =
        |place: usize| [&[0x90, 0x55, 0x48, 0x8d, 0x15], to_data(place + 9, 1).as_slice(), &[0xc3]].concat();
    let code = [vec![0x90; 5], vec![0xc3], refers(6), vec![0x55, 0xc3]].concat();
    let cases = [
        ("its entry", vec![(0, 6), (6, 10), (16, 2)], Some(6)),
        ("the only entry", vec![(6, 10)], Some(6)),
        ("entries on one side", vec![(0, 6), (16, 2)], None),
        ("an entry that ends before", vec![(0, 6), (6, 2)], None),
    ];
    for (name, unwind, begin) in cases {
        let located =
            Fixture { code: code.clone(), data: data.clone(), unwind, ..Fixture::default() }.locate();
        let found: Vec<u64> = located
            .stacks
            .iter()
            .flat_map(|stack| &stack.functions)
            .map(|function| function.offset)
            .collect();
        assert_eq!(found, begin.into_iter().map(at).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn other_machine_has_symbols_only() {
    let mut file = Fixture {
        code: code(&[PUSH, SUB_CALL]),
        dynamic: vec![("SSL_read", 0), ("SSL_write", 64)],
        ..Fixture::default()
    }
    .build();
    file[18] = 183;
    let found = located(&file).unwrap();
    assert_eq!(found.machine, Machine::Aarch64);
    for function in only(&found) {
        // Nothing is decoded, and nothing is passed over.
        assert_eq!((function.probe.offset, function.probe.step), (function.offset, Step::Undecoded));
        let registers: Vec<Location> = function.arguments.iter().map(|argument| argument.at).collect();
        assert_eq!(registers, [Register::X0, Register::X1, Register::X2].map(Location::Register));
    }
    let mut file = Fixture { data: b"\0ssl/ssl_lib.cc\0".to_vec(), ..Fixture::default() }.build();
    file[18] = 183;
    assert_eq!(located(&file).unwrap().unknown[0].why, Why::Machine);
}

#[test]
fn arguments_on_the_stack_are_above_the_return_address() {
    let own = "version = 1\n[[symbol]]\nlibrary = \"s2n\"\nname = \"eight\"\nrole = \"write\"\n\
        arguments = [\"key\", \"ignored\", \"ignored\", \"ignored\", \"ignored\", \"ignored\", \"buffer\", \"length\"]\n";
    let fixture = Fixture { code: code(&[SUB_CALL]), dynamic: vec![("eight", 0)], ..Fixture::default() };
    let file = fixture.build();
    let found = locate(&mut Image::of_bytes(&file), &Signatures::with(own).unwrap()).unwrap();
    let function = &only(&found)[0];
    let places: Vec<Location> = function.arguments.iter().map(|argument| argument.at).collect();
    assert_eq!(places, [Location::Register(Register::Rdi), Location::Stack(8), Location::Stack(16)]);
    // At the probe they are 8 bytes farther: what the function has taken from the stack.
    assert_eq!((function.probe.offset, function.probe.stack), (at(4), 8));
}

#[test]
fn files_that_are_not_searched_are_told_apart() {
    let whole = Fixture::default().build();
    let changed = |at: usize, byte: u8| {
        let mut file = whole.clone();
        file[at] = byte;
        file
    };
    let cases = [
        ("empty", Vec::new(), LocateError::NotElf),
        ("a script", b"#!/bin/sh\n".repeat(20), LocateError::NotElf),
        ("32 bits", changed(4, 1), LocateError::Unsupported("32 bits")),
        ("big-endian", changed(5, 2), LocateError::Unsupported("big-endian")),
        ("an object file", changed(16, 1), LocateError::Unsupported("no program and no library")),
        ("a core", changed(16, 4), LocateError::Unsupported("no program and no library")),
        ("another machine", changed(18, 8), LocateError::Unsupported("neither x86-64 nor AArch64")),
        ("cut off", whole[..100].to_vec(), LocateError::Outside { what: "the program headers", offset: 64 }),
    ];
    for (name, file, error) in cases {
        assert_eq!(located(&file), Err(error), "{name}");
    }
}
