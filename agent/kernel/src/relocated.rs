//! The object that aya loaded, read once more for what aya does not do with it: programs that answer in place of functions of the kernel
//! ([`crate::modify_return`]), and probes on functions of programs ([`crate::uprobe`]). Their code is relocated to the tables that aya made.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    sync::Arc,
};

use aya::{Ebpf, features};
use aya_obj::generated::bpf_insn;

use super::{
    brief::{brief, verdict},
    bytecode::OBJECT,
    maps::data_of,
    sys,
};

/// Copies of the descriptors of the tables of an object: the tables themselves are handed out.
#[derive(Clone, Default)]
pub struct Tables(Arc<HashMap<String, OwnedFd>>);

/// Programs as the kernel takes them.
pub struct Relocated {
    types: OwnedFd,
    license: CString,
    programs: HashMap<String, Code>,
}

/// One of them.
struct Code {
    instructions: Vec<u8>,
    functions: Vec<u8>,
    function_bytes: usize,
}

impl Tables {
    /// Those of an object that was just loaded, of which none was handed out yet.
    ///
    /// # Errors
    /// One cannot be opened once more.
    pub fn of(ebpf: &Ebpf) -> Result<Self, String> {
        let tables = ebpf.maps().map(|(name, map)| {
            let data = data_of(map).ok_or_else(|| format!("{name}: a table of an unknown kind"))?;
            let fd = data.fd().as_fd().try_clone_to_owned().map_err(|error| format!("{name}: {error}"))?;
            Ok((name.to_owned(), fd))
        });
        Ok(Self(Arc::new(tables.collect::<Result<_, String>>()?)))
    }
}

impl Relocated {
    /// Reads some programs of the object, and relocates them to these tables and to the kernel's types.
    ///
    /// # Errors
    /// It refers to tables that are not there, or the kernel takes no types.
    pub fn of(tables: &Tables, kernel: &aya::Btf, wanted: &[&str]) -> Result<Self, String> {
        let object = relocated(tables, kernel)?;
        let types = object.btf.as_ref().ok_or("the kernel half has no types")?;
        let types = sys::load_types(&types.to_bytes()).map_err(|error| format!("its types: {error}"))?;
        let programs = object.programs.iter().filter_map(|(name, program)| {
            let function = object.functions.get(&program.function_key())?;
            let code = Code {
                instructions: function.instructions.iter().flat_map(bytes_of).collect(),
                functions: function.func_info.func_info_bytes(),
                function_bytes: function.func_info_rec_size,
            };
            wanted.contains(&name.as_str()).then(|| (name.clone(), code))
        });
        let programs = programs.collect();
        Ok(Self { types, license: object.license, programs })
    }

    /// Has the verifier take one of them.
    ///
    /// # Errors
    /// Why it does not.
    pub fn load(&self, name: &str, kind: sys::Kind) -> Result<OwnedFd, String> {
        let code = self.programs.get(name).ok_or_else(|| format!("the kernel half lacks {name}"))?;
        let program = sys::Program {
            kind,
            name,
            instructions: &code.instructions,
            license: &self.license,
            types: Some(self.types.as_fd()),
            functions: (&code.functions, code.function_bytes),
        };
        program.load().map_err(|(error, log)| match verdict(&log) {
            _ if log.is_empty() => error.to_string(),
            verdict => format!("{error}: {verdict}"),
        })
    }
}

/// The object, as aya has it before it gives it to the kernel. `EbpfLoader::load` does these steps in this order.
fn relocated(tables: &Tables, kernel: &aya::Btf) -> Result<aya_obj::Object, String> {
    let mut object = aya_obj::Object::parse(&OBJECT.0).map_err(|error| brief(&error))?;
    let known = features().btf().ok_or("this kernel takes no types of programs")?;
    object.fixup_and_sanitize_btf(known).map_err(|error| brief(&error))?;
    object.relocate_btf(kernel).map_err(|error| brief(&error))?;
    let maps: Vec<_> = object.maps.drain().collect();
    let known =
        maps.iter().filter_map(|(name, map)| Some((name.as_str(), tables.0.get(name)?.as_raw_fd(), map)));
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_maps(known, &text).map_err(|error| brief(&error))?;
    object.relocate_calls(&text).map_err(|error| brief(&error))?;
    object.sanitize_functions(features());
    Ok(object)
}

/// One instruction as it lies in memory.
fn bytes_of(instruction: &bpf_insn) -> [u8; 8] {
    let [off, imm] = [i64::from(instruction.off), i64::from(instruction.imm)].map(i64::to_le_bytes);
    let registers = instruction.dst_reg() | instruction.src_reg() << 4;
    [instruction.code, registers, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
}

#[cfg(test)]
mod tests {
    use aya_obj::btf::BtfKind;

    use super::*;
    use crate::{modify_return::OFFERED, tls};

    /// Descriptors for every table of the object: no kernel is asked.
    fn tables() -> Tables {
        let object = aya_obj::Object::parse(&OBJECT.0).unwrap();
        let any = std::fs::File::open("/dev/null").unwrap();
        let fd = || any.as_fd().try_clone_to_owned().unwrap();
        Tables(Arc::new(object.maps.keys().map(|name| (name.clone(), fd())).collect()))
    }

    #[test]
    fn instructions_are_laid_out_as_the_kernel_reads_them() {
        // `struct bpf_insn`: code, source and destination register, offset, immediate: `*(u64 *)(r10 - 8) = r1`, and `call 36`.
        let known = [0x7b, 0x1a, 0xf8, 0xff, 0xfe, 0xff, 0xff, 0xff, 0x85, 0, 0, 0, 36, 0, 0, 0];
        let instructions = aya_obj::copy_instructions(&known).unwrap();
        assert_eq!(instructions.iter().flat_map(bytes_of).collect::<Vec<u8>>(), known);
    }

    #[test]
    fn offered_programs_are_in_the_object_and_refer_to_its_tables() {
        /// `BPF_LD | BPF_IMM | BPF_DW`
        const LOAD_ADDRESS: u8 = 0x18;
        /// `BPF_PSEUDO_MAP_FD` and `BPF_PSEUDO_MAP_VALUE`
        const TABLES: [u8; 2] = [1, 2];
        let types = aya::Btf::from_sys_fs().unwrap();
        let tables = tables();
        let object = relocated(&tables, &types).unwrap();
        for (_, function) in OFFERED {
            types.id_by_type_name_kind(function, BtfKind::Func).unwrap();
        }
        for name in OFFERED.map(|(name, _)| name).into_iter().chain(tls::PROGRAMS) {
            let program = &object.programs[name];
            let code = &object.functions[&program.function_key()].instructions;
            let loads = code.iter().filter(|one| one.code == LOAD_ADDRESS && TABLES.contains(&one.src_reg()));
            let known =
                loads.clone().filter(|one| tables.0.values().any(|fd| fd.as_raw_fd() == one.imm)).count();
            assert!(known > 10, "{name} refers to {known} tables");
            assert_eq!(loads.count(), known, "{name} refers to something that is no table");
        }
    }

    #[test]
    fn object_without_its_tables_is_refused() {
        let types = aya::Btf::from_sys_fs().unwrap();
        let error = relocated(&Tables::default(), &types).unwrap_err();
        assert!(error.starts_with("error relocating"), "{error}");
    }
}
