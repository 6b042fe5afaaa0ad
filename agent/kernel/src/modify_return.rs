//! Programs of the gate as `fmod_ret`: where `bpf` is not among the kernel's security modules, its hooks are never asked, but
//! the functions that ask them (`security_…`) have the same arguments, and a program may answer in their place (5.7).
//!
//! aya has no such type. So its object is read once more, by what aya reads it with, and the same program is relocated to the
//! tables that aya made. What differs from the other way: the kernel leaves out a program of this type where another task on that
//! processor is in it already, which takes a kernel that preempts itself. Such runs are counted (`recursion_misses`).

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
};

use aya::{Ebpf, features};
use aya_obj::{btf::BtfKind, generated::bpf_insn};

use super::{
    brief::{brief, verdict},
    bytecode::OBJECT,
    maps::data_of,
    sys,
};

/// Programs of one object that are, or may be, attached so.
#[derive(Default)]
pub struct ModifyReturn {
    /// Copies of the descriptors of its tables: the tables themselves are handed out.
    tables: HashMap<String, OwnedFd>,
    /// What was read of the object, once it was needed.
    relocated: Option<Relocated>,
    attached: Vec<Program>,
}

/// One that was loaded.
struct Program {
    name: &'static str,
    program: OwnedFd,
    /// While this is open, it is attached. `None`: it is held elsewhere.
    _link: Option<OwnedFd>,
}

/// Programs as the kernel takes them.
struct Relocated {
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

impl ModifyReturn {
    /// Notes the tables of an object that was just loaded, which have not been handed out yet.
    ///
    /// # Errors
    /// One cannot be opened once more.
    pub fn of(ebpf: &Ebpf) -> Result<Self, String> {
        let tables = ebpf.maps().map(|(name, map)| {
            let data = data_of(map).ok_or_else(|| format!("{name}: a table of an unknown kind"))?;
            let fd = data.fd().as_fd().try_clone_to_owned().map_err(|error| format!("{name}: {error}"))?;
            Ok((name.to_owned(), fd))
        });
        Ok(Self { tables: tables.collect::<Result<_, String>>()?, ..Self::default() })
    }

    /// Loads a program and has it run before `function`. The link is given where it is wanted `apart`; else the program is attached as
    /// long as this lives, or until it is [let go](Self::unload).
    ///
    /// # Errors
    /// What could not be done, and why.
    pub fn attach(
        &mut self,
        name: &'static str,
        function: &str,
        types: &aya::Btf,
        apart: bool,
    ) -> Result<Option<OwnedFd>, (&'static str, String)> {
        let load = |error: String| ("load", error);
        let target = types.id_by_type_name_kind(function, BtfKind::Func);
        let target = target.map_err(|error| load(brief(&error)))?;
        let relocated = match &mut self.relocated {
            Some(relocated) => relocated,
            none => none.insert(Relocated::of(&self.tables, types).map_err(load)?),
        };
        let program = relocated.load(name, target).map_err(load)?;
        let link = sys::attach(program.as_fd()).map_err(|error| ("attach", error.to_string()))?;
        self.unload(name);
        let (held, given) = if apart { (None, Some(link)) } else { (Some(link), None) };
        self.attached.push(Program { name, program, _link: held });
        Ok(given)
    }

    /// Lets go of a program: it is detached, unless its link is held elsewhere.
    pub fn unload(&mut self, name: &str) {
        self.attached.retain(|program| program.name != name);
    }

    /// Lets go of all.
    pub fn unload_all(&mut self) {
        self.attached.clear();
    }

    /// Those that are loaded, by name.
    pub fn programs(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.attached.iter().map(|program| (program.name, program.program.as_fd()))
    }

    /// One that is loaded.
    pub fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.programs().find(|(found, _)| *found == name).map(|(_, program)| program)
    }
}

impl Relocated {
    /// Reads the object, and relocates it to these tables and to the kernel's types.
    fn of(tables: &HashMap<String, OwnedFd>, kernel: &aya::Btf) -> Result<Self, String> {
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
            is_offered(name).then(|| (name.clone(), code))
        });
        let programs = programs.collect();
        Ok(Self { types, license: object.license, programs })
    }

    fn load(&self, name: &str, target: u32) -> Result<OwnedFd, String> {
        let code = self.programs.get(name).ok_or_else(|| format!("the kernel half lacks {name}"))?;
        let program = sys::ModifyReturn {
            name,
            instructions: &code.instructions,
            license: &self.license,
            types: self.types.as_fd(),
            functions: (&code.functions, code.function_bytes),
            target,
        };
        program.load().map_err(|(error, log)| format!("{error}: {}", verdict(&log)))
    }
}

/// Programs of the object that can be attached so: program, and the function that it runs before.
pub const OFFERED: [(&str, &str); 2] =
    [("file_permission", "security_file_permission"), ("socket_sendmsg", "security_socket_sendmsg")];

fn is_offered(name: &str) -> bool {
    OFFERED.iter().any(|(program, _)| *program == name)
}

/// The object, as aya has it before it gives it to the kernel. `EbpfLoader::load` does these steps in this order.
fn relocated(tables: &HashMap<String, OwnedFd>, kernel: &aya::Btf) -> Result<aya_obj::Object, String> {
    let mut object = aya_obj::Object::parse(&OBJECT.0).map_err(|error| brief(&error))?;
    let known = features().btf().ok_or("this kernel takes no types of programs")?;
    object.fixup_and_sanitize_btf(known).map_err(|error| brief(&error))?;
    object.relocate_btf(kernel).map_err(|error| brief(&error))?;
    let maps: Vec<_> = object.maps.drain().collect();
    let known =
        maps.iter().filter_map(|(name, map)| Some((name.as_str(), tables.get(name)?.as_raw_fd(), map)));
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
    use super::*;

    /// Descriptors for every table of the object: no kernel is asked.
    fn tables() -> HashMap<String, OwnedFd> {
        let object = aya_obj::Object::parse(&OBJECT.0).unwrap();
        let any = std::fs::File::open("/dev/null").unwrap();
        let fd = || any.as_fd().try_clone_to_owned().unwrap();
        object.maps.keys().map(|name| (name.clone(), fd())).collect()
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
        for (name, function) in OFFERED {
            types.id_by_type_name_kind(function, BtfKind::Func).unwrap();
            let program = &object.programs[name];
            let code = &object.functions[&program.function_key()].instructions;
            let loads = code.iter().filter(|one| one.code == LOAD_ADDRESS && TABLES.contains(&one.src_reg()));
            let known =
                loads.clone().filter(|one| tables.values().any(|fd| fd.as_raw_fd() == one.imm)).count();
            assert!(known > 10, "{name} refers to {known} tables");
            assert_eq!(loads.count(), known, "{name} refers to something that is no table");
        }
    }

    #[test]
    fn object_without_its_tables_is_refused() {
        let types = aya::Btf::from_sys_fs().unwrap();
        let error = relocated(&HashMap::new(), &types).unwrap_err();
        assert!(error.starts_with("error relocating"), "{error}");
    }
}
