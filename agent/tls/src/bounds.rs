//! Bounds of a search: what a file can make it read, hold and repeat. Who wrote the file may be hostile, and the search runs as root.

/// Bytes that one search reads. Each read counts [`READ_COST_BYTES`] more. A search of a file of 400 MB reads some 1 GiB.
pub const READ_BYTES: u64 = 4 << 30;
/// What a read costs besides its bytes: a file that makes the search read single bytes ends it as early as one that makes it read
/// megabytes.
pub const READ_COST_BYTES: u64 = 1024;
/// What a byte that is decoded counts besides: decoding is so much slower than reading.
pub const DECODE_COST: u64 = 16;
/// Bytes that are searched at once.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Program headers of a file. Real ones have some 15.
pub const MAX_SEGMENTS: u16 = 256;
/// Section headers of a file. Real ones have some 50, those without linking of sections several hundred.
pub const MAX_SECTIONS: u16 = 4096;
/// Bytes of the names of sections.
pub const MAX_SECTION_NAMES_BYTES: u64 = 256 * 1024;
/// Entries of the dynamic section.
pub const MAX_DYNAMIC: usize = 1024;
/// Libraries that a file needs.
pub const MAX_NEEDED: usize = 256;
/// Bytes of a name.
pub const MAX_NAME_BYTES: usize = 256;
/// Bytes of the notes that are searched for the build id.
pub const MAX_NOTES_BYTES: u64 = 64 * 1024;
/// Bytes of a build id. Linkers make 8 to 20, Go 83.
pub const MAX_BUILD_ID_BYTES: usize = 128;

/// Symbols of one table that are read; further ones are reported.
pub const MAX_SYMBOLS: u64 = 16 << 20;
/// Symbols of one chain of a hash table.
pub const MAX_HASH_CHAIN: u32 = 4096;
/// Offsets of one name in a table of names: those of other names that end with it count as well.
pub const MAX_NAME_OFFSETS: usize = 256;
/// Functions of one name.
pub const MAX_SAME_NAME: usize = 4;
/// Relocations that are searched for the name of an imported function.
pub const MAX_RELOCATIONS: u64 = 1 << 20;

/// Occurrences of one marker, or of one text that functions refer to.
pub const MAX_OCCURRENCES: usize = 64;
/// References to the texts of one search.
pub const MAX_REFERENCES: usize = 4096;
/// Occurrences of the anchor of one signature. With more, it is no anchor in this file.
pub const MAX_ANCHORS: usize = 1024;

/// Targets of calls, near the instructions whose functions are looked for.
pub const MAX_CALLED: usize = 65_536;
/// Beginnings of functions that are tried for one instruction.
pub const MAX_STARTS: usize = 8;

/// Bytes of a function that are decoded.
pub const MAX_FUNCTION_BYTES: u64 = 32 * 1024;
/// Bytes of a function's beginning within which the probed instruction lies.
pub const MAX_PROLOGUE_BYTES: u64 = 96;
/// Instructions of the same.
pub const MAX_PROLOGUE_INSTRUCTIONS: usize = 20;
/// Returns of one function.
pub const MAX_RETURNS: usize = 256;

/// Functions of a Go program. Large ones have some 200,000.
pub const MAX_GO_FUNCTIONS: u64 = 4 << 20;
/// Offsets at which the magic number of Go's table of functions may stand by chance.
pub const MAX_GO_TABLES: usize = 32;
/// Bytes of the table of names of a Go program.
pub const MAX_GO_NAMES_BYTES: u64 = 512 << 20;

/// Problems of one file that are reported.
pub const MAX_PROBLEMS: usize = 16;
/// Files that a cache remembers; beyond, the one that was used longest ago is given up.
pub const MAX_CACHED: usize = 512;
/// Bytes of the file of a cache.
pub const MAX_CACHE_BYTES: u64 = 8 << 20;
/// Entries of one table of signatures.
pub const MAX_SIGNATURES: usize = 512;
/// Bytes of a table of signatures.
pub const MAX_SIGNATURES_BYTES: usize = 1 << 20;
