use std::{fs, io::Write as _, path::Path};

use proptest::prelude::*;

use super::fixture::{CODE, DYNAMIC, Fixture, HASH, located, signatures};
use crate::{
    Cache, CacheError, FileId, Image, LocateError,
    bounds::{MAX_CACHED, READ_BYTES},
    locate,
};

fn library() -> Vec<u8> {
    let fixture = Fixture {
        code: [[0x55, 0xc3].as_slice(), &[0xcc; 62], &[0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0xc3], &[0xcc; 54]].concat(),
        data: b"\0../ssl/ssl_lib.c\0ssl_write_internal\0ssl/ssl_lib.cc\0OpenSSL 3.6.4 25\0InappropriateHandshakeMessage".to_vec(),
        dynamic: vec![("SSL_read", 0), ("SSL_write", 64)],
        symbols: vec![("SSL_read", 0), ("SSL_read_ex", 64)],
        needed: vec!["libc.so.6"],
        soname: Some("libssl.so.3"),
        has_sections: true,
        ..Fixture::default()
    };
    fixture.build()
}

/// Whatever a file says: an answer or an error, and each probe in the code of the file.
fn check(file: &[u8]) {
    let mut image = Image::of_bytes(file);
    if let Ok(located) = locate(&mut image, signatures()) {
        for function in located.stacks.iter().flat_map(|stack| &stack.functions) {
            assert!(function.offset < file.len() as u64);
            assert!(function.probe.offset < file.len() as u64);
            assert!(function.returns.iter().flatten().all(|at| *at < file.len() as u64));
        }
    }
    assert!(image.read_bytes() <= READ_BYTES);
}

/// All cases with `cargo xtask test --full`, else a quarter of them.
fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("MCPWARDEN_TEST_FULL").is_some() { 2048 } else { 512 };
    ProptestConfig { cases, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn changed_headers_are_survived(changes in prop::collection::vec((0_usize..0x2100, any::<u8>()), 1..24)) {
        let mut file = library();
        for (at, byte) in changes {
            file[at] = byte;
        }
        check(&file);
    }

    #[test]
    fn numbers_of_headers_can_be_anything(at in (0_usize..0x1800).prop_map(|at| at & !3), value in any::<u64>(), shift in 0_u32..64) {
        let mut file = library();
        file[at..at + 8].copy_from_slice(&(value >> shift).to_le_bytes());
        check(&file);
    }

    #[test]
    fn section_headers_can_be_anything(at in 0_usize..512, value in any::<u64>(), shift in 0_u32..64) {
        let mut file = library();
        let at = file.len() - 520 + at;
        file[at..at + 8].copy_from_slice(&(value >> shift).to_le_bytes());
        check(&file);
    }

    #[test]
    fn cut_files_are_survived(length in 0_usize..0x2600) {
        let file = library();
        check(&file[..length.min(file.len())]);
    }

    #[test]
    fn code_can_be_anything(code in prop::collection::vec(any::<u8>(), 1..512), size in 0_u64..512) {
        let mut file = library();
        file.truncate(CODE);
        file.extend(code);
        file[64 + 56 + 32..64 + 56 + 40].copy_from_slice(&size.to_le_bytes());
        check(&file);
    }
}

#[test]
fn chain_of_hashes_in_a_circle_ends() {
    let mut fixture = Fixture {
        dynamic: vec![("SSL_read", 0), ("SSL_write", 0)],
        hash: super::fixture::Hash::SysV,
        ..Fixture::default()
    };
    fixture.code = vec![0x55; 64];
    let mut file = fixture.build();
    // The chain of the second symbol leads to the first one.
    file[HASH + 8 + 4 + 8..HASH + 8 + 4 + 12].copy_from_slice(&1_u32.to_le_bytes());
    let found = located(&file).unwrap();
    assert_eq!(found.stacks[0].functions.len(), 2);
}

#[test]
fn more_headers_than_the_bound_are_an_error() {
    let mut file = library();
    file[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(located(&file), Err(LocateError::TooMany { what: "program headers", bound: 256 }));
    let mut file = library();
    file[60..62].copy_from_slice(&u16::MAX.to_le_bytes());
    let found = located(&file).unwrap();
    assert_eq!(found.problems, ["sections: section headers: more than 4096"]);
    // What needs no sections is found all the same.
    assert_eq!(found.stacks[0].functions.len(), 2);
}

#[test]
fn dynamic_section_outside_of_the_file_is_a_problem() {
    let mut file = library();
    // The address of the names, which come behind one library and the own name.
    let names = DYNAMIC + 2 * 16 + 8;
    file[names..names + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let found = located(&file).unwrap();
    assert_eq!(found.needed, Vec::<String>::new());
}

#[test]
fn only_regular_files_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("library");
    fs::write(&path, library()).unwrap();
    let file = fs::File::open(&path).unwrap();
    let found = locate(&mut Image::of_file(&file).unwrap(), signatures());
    assert_eq!(found, located(&library()));
    assert!(Image::of_file(&fs::File::open("/dev/zero").unwrap()).is_err());
    assert!(Image::of_file(&fs::File::open(directory.path()).unwrap()).is_err());
}

#[test]
fn file_that_becomes_shorter_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("library");
    fs::write(&path, library()).unwrap();
    let file = fs::File::open(&path).unwrap();
    let mut image = Image::of_file(&file).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(0x300).unwrap();
    let found = locate(&mut image, signatures());
    assert!(matches!(found, Err(LocateError::Outside { .. })), "{found:?}");
}

/// A file of its own for each number.
fn file_id(directory: &Path, number: usize) -> FileId {
    let path = directory.join(format!("program-{number}"));
    fs::write(&path, b"").unwrap();
    FileId::of(&fs::File::open(&path).unwrap()).unwrap()
}

#[test]
fn cache_keeps_results_and_forgets_the_oldest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tls-functions.json");
    let (mut cache, error) = Cache::open(&path, "1");
    assert!(error.is_none(), "no file is no mistake");
    let result = located(&library()).unwrap();
    let ids: Vec<FileId> = (0..=MAX_CACHED).map(|number| file_id(directory.path(), number)).collect();
    for id in &ids {
        cache.insert(*id, result.clone());
        // In use all the time.
        assert!(cache.get(ids[0]).is_some(), "{id}");
    }
    let kept: Vec<bool> = ids[..3].iter().map(|id| cache.get(*id).is_some()).collect();
    assert_eq!((cache.evicted(), kept), (1, vec![true, false, true]));
    cache.write(&path).unwrap();
    let (mut again, error) = Cache::open(&path, "1");
    assert!(error.is_none(), "{error:?}");
    assert_eq!(again.get(ids[0]), Some(&result));
    assert_eq!(again.get(ids[1]), None);
    let (mut other, error) = Cache::open(&path, "2");
    assert!(error.is_none() && other.get(ids[0]).is_none(), "another version of the signatures");
}

#[test]
fn changed_file_is_another_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    fs::write(&path, b"1").unwrap();
    let file = fs::File::open(&path).unwrap();
    let before = FileId::of(&file).unwrap();
    assert_eq!(FileId::of(&file).unwrap(), before);
    fs::write(&path, b"22").unwrap();
    assert_ne!(FileId::of(&file).unwrap(), before);
}

#[test]
fn corrupt_cache_is_begun_anew_with_one_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tls-functions.json");
    let id = file_id(directory.path(), 0);
    let mut cache = Cache::new("1");
    cache.insert(id, located(&library()).unwrap());
    cache.write(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let cases = [
        b"".to_vec(),
        b"{}".to_vec(),
        whole[..whole.len() - 1].to_vec(),
        b"[".repeat(100_000),
        vec![0xff; 64],
    ];
    for text in cases {
        fs::write(&path, &text).unwrap();
        let (mut cache, error) = Cache::open(&path, "1");
        assert!(matches!(error, Some(CacheError::Corrupt { .. })), "{error:?}");
        assert_eq!(cache.get(id), None);
        cache.insert(id, located(&library()).unwrap());
        cache.write(&path).unwrap();
        assert!(Cache::open(&path, "1").1.is_none());
    }
    let mut long = fs::File::create(&path).unwrap();
    long.set_len(crate::bounds::MAX_CACHE_BYTES + 1).unwrap();
    long.write_all(b"{").unwrap();
    assert!(matches!(Cache::open(&path, "1").1, Some(CacheError::Corrupt { .. })));
}
