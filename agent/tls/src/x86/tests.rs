use super::*;

fn bytes(text: &str) -> Vec<u8> {
    text.split_ascii_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn lengths_are_those_of_the_processor() {
    // One instruction a line, as `objdump` prints it.
    let cases = [
        "55",
        "41 57",
        "66 41 50",
        "c3",
        "f3 c3",
        "cc",
        "90",
        "66 90",
        "f3 0f 1e fa",
        "0f 1f 40 00",
        "0f 1f 84 00 00 00 00 00",
        "66 2e 0f 1f 84 00 00 00 00 00",
        "48 83 ec 18",
        "48 81 ec 88 00 00 00",
        "64 48 8b 04 25 28 00 00 00",
        "48 89 44 24 08",
        "31 c0",
        "85 d2",
        "78 2f",
        "0f 88 97 03 00 00",
        "e8 00 00 00 00",
        "66 66 48 e8 00 00 00 00",
        "e9 00 00 00 00",
        "eb 10",
        "ff 15 00 00 00 00",
        "ff 25 00 00 00 00",
        "f2 ff 25 00 00 00 00",
        "41 ff d4",
        "ff 60 08",
        "48 8d 05 00 00 00 00",
        "4c 8d 54 24 08",
        "48 8d 84 c8 00 00 00 00",
        "8b 04 85 00 00 00 00",
        "b8 01 00 00 00",
        "66 b8 01 00",
        "48 b8 01 02 03 04 05 06 07 08",
        "48 c7 c0 01 00 00 00",
        "66 c7 00 01 00",
        "c6 04 24 01",
        "80 bf b8 06 00 00 00",
        "66 81 38 01 02",
        "81 38 01 02 03 04",
        "83 f8 01",
        "f6 47 44 01",
        "f7 c7 01 00 00 00",
        "66 f7 c7 01 00",
        "f7 d8",
        "48 f7 f1",
        "0f b6 07",
        "0f af c1",
        "69 c0 01 00 00 00",
        "66 69 c0 01 00",
        "6b c0 01",
        "0f 44 c1",
        "0f 95 c0",
        "48 63 d2",
        "48 98",
        "48 99",
        "c1 e0 04",
        "d1 e0",
        "d3 e0",
        "0f ba e0 05",
        "0f a4 c2 05",
        "0f 10 07",
        "f3 0f 6f 07",
        "66 0f 6f 07",
        "66 0f 70 c0 1b",
        "66 0f 38 00 c1",
        "66 0f 3a 0f c1 08",
        "66 0f 38 dc c1",
        "66 0f 3a 44 c1 11",
        "66 0f 3a 62 c1 11",
        "c5 f8 77",
        "c5 fe 6f 07",
        "c5 f9 70 c0 1b",
        "c4 e2 79 00 c1",
        "c4 e3 79 0f c1 08",
        "c4 e3 7d 46 c1 20",
        "62 f1 7c 48 10 07",
        "62 f3 75 48 44 c1 11",
        "62 f2 7d 48 dc 47 01",
        "f0 48 0f b1 0f",
        "f0 ff 07",
        "0f 0b",
        "0f 05",
        "0f a2",
        "0f 01 d0",
        "0f ae f0",
        "68 01 02 03 04",
        "6a 01",
        "ff 77 08",
        "8f 47 08",
        "a8 01",
        "a9 01 02 03 04",
        "48 a9 01 02 03 04",
        "04 01",
        "05 01 02 03 04",
        "66 05 01 02",
        "d9 07",
        "9b",
        "f4",
        "c9",
        "48 0f c7 0f",
        "0f c8",
        "48 a1 01 02 03 04 05 06 07 08",
        "48 ab",
        "f3 48 a5",
        "e3 10",
        "c8 10 00 00",
        "87 07",
        "66 87 c0",
    ];
    for case in cases {
        let mut code = bytes(case);
        let length = code.len();
        // Neither are bytes that follow counted, nor bytes that are missing made up.
        code.extend([0x24; MAX_LENGTH]);
        assert_eq!(decode(&code).map(|found| usize::from(found.length)), Some(length), "{case}");
        assert_eq!(decode(&code[..length - 1]), None, "{case}, cut off");
    }
}

#[test]
fn invalid_instructions_are_not_decoded() {
    for case in [
        "06",
        "0e",
        "27",
        "37",
        "60",
        "61",
        "82 00 00",
        "9a",
        "ce",
        "d4 00",
        "ea",
        "8d c0",
        "ff f8",
        "8f e8 78 c2",
        "0f 04",
        "0f 0a",
        "",
    ] {
        let mut code = bytes(case);
        code.resize(if case.is_empty() { 0 } else { 16 }, 0);
        assert_eq!(decode(&code), None, "{case}");
    }
    // Prefixes without end.
    assert_eq!(decode(&[0x66; 64]), None);
}

#[test]
fn written_registers_are_known_or_all_are_assumed() {
    let (ax, cx, dx, si, di) = (1, 2, 4, 1 << 6, 1 << 7);
    let cases = [
        ("48 89 fb", 1 << 3),
        ("89 07", 0),
        ("8b 07", ax),
        ("48 8b 3f", di),
        ("31 f6", si),
        ("39 f7", 0),
        ("3b f7", 0),
        ("85 d2", 0),
        ("41 89 d0", 1 << 8),
        ("48 63 d2", dx),
        ("48 99", dx),
        ("48 98", ax),
        ("48 8d 7f 08", di),
        ("ba 01 00 00 00", dx),
        ("41 b8 01 00 00 00", 1 << 8),
        ("0f b6 d2", dx),
        ("0f 44 f0", si),
        ("0f 95 c2", dx),
        ("83 ff 01", 0),
        ("83 c7 01", di),
        ("f7 e1", ax | dx),
        ("f7 d7", di),
        ("c1 e7 02", di),
        ("48 87 fe", si | di),
        ("5f", di),
        ("04 01", ax),
        ("3c 01", 0),
        // dh is the second byte of rdx.
        ("b6 01", dx | 1 << 6),
        ("40 b6 01", dx | si),
        ("88 d6", dx | si),
        ("0f 10 07", 0),
        ("0f 6f 07", 0),
        ("66 0f 7e c7", di),
        ("0f af d1", dx),
        ("fe c1", cx),
        ("ff c1", cx),
        ("ff 31", 0),
        ("6a 01", 0),
        ("a8 01", 0),
        ("0f ba e2 01", 0),
    ];
    for (case, expected) in cases {
        assert_eq!(decode(&bytes(case)).unwrap().writes, Some(Registers(expected)), "{case}");
    }
    for case in ["0f a2", "0f 05", "f3 48 a5", "66 0f 38 00 c1", "c4 e2 79 00 c1", "c9", "d9 07", "0f c0 07"]
    {
        assert_eq!(decode(&bytes(case)).unwrap().writes, None, "{case}");
    }
}

#[test]
fn stores_are_those_beyond_the_stack() {
    let cases = [
        ("48 89 03", true),
        ("48 01 88 80 00 00 00", true),
        ("c7 80 c4 00 00 00 00 00 00 00", true),
        ("66 89 43 10", true),
        ("83 43 10 01", true),
        ("0f 11 03", true),
        ("48 83 7b 10 00", false),
        ("48 8b 03", false),
        ("48 39 03", false),
        ("48 89 45 d0", false),
        ("48 89 44 24 08", false),
        ("48 89 d8", false),
        ("55", false),
        ("e8 00 00 00 00", false),
        ("", false),
    ];
    for (case, expected) in cases {
        assert_eq!(stores(&bytes(case)), expected, "{case}");
    }
}

#[test]
fn targets_and_constants_are_read() {
    let cases = [
        ("78 2f", Kind::JumpIf(0x2f)),
        ("0f 84 97 03 00 00", Kind::JumpIf(0x397)),
        ("eb fe", Kind::Jump(-2)),
        ("e9 66 9c ff ff", Kind::Jump(-0x639a)),
        ("e8 00 01 00 00", Kind::Call(0x100)),
        ("ff 25 10 00 00 00", Kind::JumpThrough(0x10)),
        ("48 8d 0d 00 01 00 00", Kind::Lea(1, 0x100)),
        ("4c 8d 05 00 01 00 00", Kind::Lea(8, 0x100)),
        ("ba e2 00 00 00", Kind::Constant(2, 226)),
        ("48 c7 c2 e2 00 00 00", Kind::Constant(2, 226)),
        ("ff d0", Kind::Indirect),
        ("ff 60 08", Kind::Indirect),
        ("6a 1e", Kind::PushConstant(0x1e)),
        ("5a", Kind::Pop(2)),
        ("41 58", Kind::Pop(8)),
        ("c3", Kind::Return),
        ("cc", Kind::Breakpoint),
    ];
    for (case, kind) in cases {
        assert_eq!(decode(&bytes(case)).unwrap().kind, kind, "{case}");
    }
}
