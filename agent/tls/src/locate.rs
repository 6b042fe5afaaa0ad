//! The search: every way in turn, and what is left over.

use std::collections::BTreeMap;

use crate::{
    arguments, assembly,
    bounds::{MAX_FUNCTION_BYTES, MAX_PROBLEMS, MAX_RETURNS, MAX_SAME_NAME},
    codes,
    elf::Elf,
    error::{LocateError, Result},
    extent::Extent,
    facts::{
        Argument, Function, Library, Located, Machine, Probe, Returned, Role, Stack, Step, Unknown, Value,
        Way, Why,
    },
    go,
    image::Image,
    marks::{self, Marks},
    names,
    prologue::{self, Convention},
    signatures::Signatures,
    symbols,
    x86::Registers,
};

/// Bytes of a function of unknown length.
const UNKNOWN_LENGTH: u64 = 2048;

/// Finds the functions through which plaintext enters and leaves TLS in a program or library.
///
/// # Errors
/// It is none, or its headers lie, or it cannot be read, or it makes the search too long: whether it holds TLS is not known then.
pub fn locate(image: &mut Image<'_>, signatures: &Signatures) -> Result<Located> {
    let mut problems = Vec::new();
    let elf = Elf::read(image, &mut problems)?;
    let mut search =
        Search { image, elf: &elf, signatures, problems, stacks: BTreeMap::new(), unknown: BTreeMap::new() };
    let marks = marks::read(search.image, &elf, signatures)?;
    search.by_symbols(&marks)?;
    search.in_go()?;
    if elf.machine == Machine::X86_64 {
        search.by_names(&marks)?;
        search.by_codes(&marks)?;
        search.by_assembly(&marks)?;
    }
    search.leave_over(&marks);
    let Search { mut problems, stacks, unknown, .. } = search;
    problems.truncate(MAX_PROBLEMS);
    Ok(Located {
        build_id: elf.build_id,
        machine: elf.machine,
        soname: elf.dynamic.soname,
        needed: elf.dynamic.needed,
        stacks: stacks.into_values().collect(),
        unknown: unknown.into_values().collect(),
        problems,
    })
}

struct Search<'a, 'b> {
    image: &'a mut Image<'b>,
    elf: &'a Elf,
    signatures: &'a Signatures,
    problems: Vec<String>,
    stacks: BTreeMap<Library, Stack>,
    unknown: BTreeMap<Library, Unknown>,
}

/// What is known of a function.
struct Known<'a> {
    name: &'a str,
    role: Role,
    way: Way,
    values: &'a [Value],
    returned: Returned,
    convention: Convention,
    is_shared: bool,
}

impl Search<'_, '_> {
    /// What one way gives, or nothing where the file lies about what that way reads.
    fn attempt<T: Default>(&mut self, what: &str, result: Result<T>) -> Result<T> {
        match result {
            Err(error @ (LocateError::Outside { .. } | LocateError::TooMany { .. })) => {
                self.problems.push(format!("{what}: {error}"));
                Ok(T::default())
            }
            other => other,
        }
    }

    fn add(&mut self, library: Library, version: Option<&str>, functions: Vec<Function>) {
        if functions.is_empty() {
            return;
        }
        let stack = self.stacks.entry(library).or_insert_with(|| Stack {
            library,
            version: version.map(str::to_owned),
            functions: Vec::new(),
        });
        for function in functions {
            let is_same =
                |known: &&mut Function| (known.offset, known.role) == (function.offset, function.role);
            match stack.functions.iter_mut().find(is_same) {
                // Another name of the same function.
                Some(known) if known.name != function.name => known.also.push(function.name),
                Some(_) => {}
                None => stack.functions.push(function),
            }
        }
        stack.functions.sort_by(|a, b| (a.role, &a.name, a.offset).cmp(&(b.role, &b.name, b.offset)));
    }

    fn miss(&mut self, library: Library, version: Option<&str>, why: Why) {
        let unknown = Unknown { library, version: version.map(str::to_owned), why };
        self.unknown.entry(library).or_insert(unknown);
    }

    fn has(&self, libraries: &[Library]) -> bool {
        libraries.iter().any(|library| self.stacks.contains_key(library))
    }

    /// A function that begins at an offset.
    fn function(&mut self, known: &Known<'_>, offset: u64, length: u64) -> Result<(Function, Extent)> {
        let length = if length == 0 { UNKNOWN_LENGTH } else { length };
        let extent = Extent::read(self.image, self.elf, offset, length)?;
        let arguments = arguments::arguments((known.values, known.convention), self.elf.machine);
        let probe = match self.elf.machine {
            Machine::X86_64 => prologue::probe(
                &extent.code,
                offset,
                arguments::kept((known.values, known.convention)),
                known.convention,
            ),
            Machine::Aarch64 => Probe { offset, step: Step::Undecoded, stack: 0 },
        };
        let function = Function {
            name: known.name.to_owned(),
            role: known.role,
            way: known.way,
            offset,
            probe,
            arguments,
            returned: known.returned,
            returns: None,
            also: Vec::new(),
            is_shared: known.is_shared,
            repeats: false,
        };
        Ok((function, extent))
    }

    fn by_symbols(&mut self, marks: &Marks) -> Result<()> {
        let signatures = self.signatures;
        let names: Vec<&str> = signatures.symbols.iter().map(|signature| signature.name.as_str()).collect();
        let dynamic = symbols::dynamic(self.image, self.elf, &names);
        let dynamic = self.attempt("dynamic symbols", dynamic)?;
        let rest = symbols::for_debuggers(self.image, self.elf, &names);
        let mut rest = self.attempt("symbols", rest)?;
        rest.retain(|symbol| !dynamic.iter().any(|known| known.name == symbol.name));
        let dynamic = dynamic.into_iter().map(|symbol| (symbol, Way::DynamicSymbol));
        let all = dynamic.chain(rest.into_iter().map(|symbol| (symbol, Way::Symbol)));
        let mut found: BTreeMap<Library, Vec<(Function, Extent)>> = BTreeMap::new();
        for (symbol, way) in all {
            let Some(signature) = signatures.symbols.get(symbol.name) else { continue };
            let Some(offset) = self.elf.offset(symbol.address).filter(|offset| self.elf.is_code(*offset))
            else {
                self.problems.push(format!("{}: its symbol leads to no code", signature.name));
                continue;
            };
            let known = Known {
                name: &signature.name,
                role: signature.role,
                way,
                values: &signature.arguments,
                returned: signature.returned,
                convention: Convention::C,
                is_shared: false,
            };
            let function = self.function(&known, offset, symbol.size)?;
            found.entry(marks.flavour(signature.library)).or_default().push(function);
        }
        for (library, functions) in found {
            // OpenSSL's interface on top of GnuTLS: the plaintext is seen in the library of that.
            let is_other = |name: &String| name.starts_with("libgnutls.so");
            if library == Library::OpenSsl && self.elf.dynamic.needed.iter().any(is_other) {
                continue;
            }
            let functions = self.without_doubles(functions)?;
            self.add(library, marks.version(library), functions);
        }
        Ok(())
    }

    /// Leaves out the functions that hand each call on to another one: a probe on both would see it twice.
    fn without_doubles(&mut self, functions: Vec<(Function, Extent)>) -> Result<Vec<Function>> {
        let mut kept: Vec<Function> = functions.iter().map(|(function, _)| function.clone()).collect();
        if self.elf.machine != Machine::X86_64 {
            return Ok(kept);
        }
        for (function, extent) in &functions {
            // The others may be in other registers for the other function.
            let is_same = |argument: &&Argument| {
                matches!(argument.value, Value::Connection | Value::Buffer | Value::Length)
            };
            let keep = function
                .arguments
                .iter()
                .filter(is_same)
                .map(arguments::register)
                .fold(Registers::NONE, Registers::and);
            let Some(distance) = prologue::hands_on(&extent.code, keep) else { continue };
            let target = extent.address.wrapping_add_signed(distance);
            let imported = self.imported(target)?;
            let is_target = |other: &&mut Function| {
                other.role == function.role
                    && other.offset != function.offset
                    && (self.elf.offset(target) == Some(other.offset)
                        || imported.as_ref() == Some(&other.name))
            };
            if let Some(target) = kept.iter_mut().find(is_target) {
                target.also.push(function.name.clone());
                kept.retain(|other| (other.offset, &other.name) != (function.offset, &function.name));
            }
        }
        Ok(kept)
    }

    /// The function that the stub at an address jumps to.
    fn imported(&mut self, address: u64) -> Result<Option<String>> {
        const STUB_BYTES: u64 = 16;
        let Some(offset) = self.elf.offset(address).filter(|offset| self.elf.is_code(*offset)) else {
            return Ok(None);
        };
        let code = self.image.up_to("a stub", offset, STUB_BYTES)?;
        let Some(distance) = prologue::jumps_through(&code) else { return Ok(None) };
        let name = symbols::imported(self.image, self.elf, address.wrapping_add_signed(distance));
        self.attempt("relocations", name)
    }

    fn in_go(&mut self) -> Result<()> {
        const METHODS: &str = "crypto/tls.(*Conn).";
        let signatures = self.signatures;
        let names: Vec<&str> = signatures.go.iter().map(|signature| signature.name.as_str()).collect();
        let found = go::functions(self.image, self.elf, METHODS, &names);
        let Some(found) = self.attempt("the table of Go", found)? else { return Ok(()) };
        let version = found.version.as_deref();
        let mut functions = Vec::new();
        for there in &found.functions {
            let Some(signature) = signatures.go.get(there.name) else { continue };
            let known = Known {
                name: &signature.name,
                role: signature.role,
                way: Way::GoTable,
                values: &signature.arguments,
                returned: signature.returned,
                convention: if go::is_on_stack(version) { Convention::GoOnStack } else { Convention::Go },
                is_shared: false,
            };
            let (mut function, extent) = self.function(&known, there.offset, there.size)?;
            let is_whole = there.size <= MAX_FUNCTION_BYTES && there.size == extent.code.len() as u64;
            function.returns = match self.elf.machine {
                _ if !is_whole => None,
                Machine::X86_64 => prologue::returns(&extent.code, MAX_RETURNS),
                Machine::Aarch64 => go::arm_returns(&extent.code, MAX_RETURNS),
            }
            .map(|returns| returns.into_iter().map(|at| there.offset + at).collect());
            // Without its returns a function cannot be probed at all where it gives something back.
            let begins = self.elf.machine != Machine::X86_64 || go::is_function(&extent.code);
            let gives_nothing = matches!(function.role, Role::Write | Role::Handshake);
            if begins && (function.returns.is_some() || gives_nothing) {
                functions.push(function);
            }
        }
        if functions.is_empty() && (found.has_package || found.is_old) {
            self.miss(Library::Go, version, Why::NothingFits);
        }
        self.add(Library::Go, version, functions);
        Ok(())
    }

    fn by_names(&mut self, marks: &Marks) -> Result<()> {
        for (at, signature) in self.signatures.names.iter().enumerate() {
            let library = signature.library;
            if self.has(&[Library::OpenSsl, Library::OpenSsl3, Library::OpenSsl11]) && !self.is_named(library)
            {
                continue;
            }
            let texts = marks.names(at);
            if texts.is_empty() {
                continue;
            }
            let found = names::referring(self.image, self.elf, texts);
            let Some(found) = self.attempt(&signature.name, found.map(Some))?.flatten() else {
                self.miss(library, marks.version(library), Why::Ambiguous(signature.name.clone()));
                continue;
            };
            let common = signature
                .arguments
                .iter()
                .zip(&signature.later_arguments)
                .take_while(|(a, b)| a == b)
                .count();
            let values = match signature.since.map(|since| marks.is_since(library, since)) {
                None | Some(Some(false)) => signature.arguments.as_slice(),
                Some(Some(true)) => &signature.later_arguments,
                // Of an unknown version only what is the same in all is known.
                Some(None) => signature.arguments.get(..common).unwrap_or_default(),
            };
            let known = Known {
                name: &signature.name,
                role: signature.role,
                way: Way::FunctionName,
                values,
                returned: signature.returned,
                convention: Convention::C,
                is_shared: false,
            };
            let mut functions = Vec::new();
            for extent in found {
                functions.push(self.function(&known, extent.offset, extent.code.len() as u64)?.0);
            }
            self.add(library, marks.version(library), functions);
        }
        Ok(())
    }

    /// Whether functions of a library were found by their names.
    fn is_named(&self, library: Library) -> bool {
        self.stacks
            .get(&library)
            .is_some_and(|stack| stack.functions.iter().all(|function| function.way == Way::FunctionName))
    }

    fn by_codes(&mut self, marks: &Marks) -> Result<()> {
        let signatures = self.signatures;
        // BoringSSL with symbols: its functions are those of OpenSSL's interface.
        let is_found = |library: Library| self.stacks.get(&library).is_some_and(Stack::is_whole);
        let wanted: Vec<bool> = signatures
            .codes
            .iter()
            .map(|signature| !is_found(signature.library) && marks.uses(signature.library))
            .collect();
        let found = codes::functions(self.image, self.elf, &signatures.codes, &wanted, marks);
        let found = self.attempt("error codes", found)?;
        for (at, extents) in found {
            let Some(signature) = signatures.codes.get(at) else { continue };
            let Some(role) = signature.role else { continue };
            let library = signature.library;
            let is_found = |name: &String| {
                let functions = self.stacks.get(&library).into_iter().flat_map(|stack| &stack.functions);
                functions.into_iter().any(|function| function.name == *name)
            };
            if signature.unless.as_ref().is_some_and(is_found) {
                continue;
            }
            if extents.len() > 1 {
                self.miss(library, marks.version(library), Why::Ambiguous(signature.name.clone()));
                continue;
            }
            let known = Known {
                name: &signature.name,
                role,
                way: Way::ErrorCodes,
                values: &signature.arguments,
                returned: signature.returned,
                convention: Convention::C,
                is_shared: signature.shared,
            };
            for extent in extents {
                let mut function = self.function(&known, extent.offset, extent.code.len() as u64)?.0;
                function.repeats = signature.repeats;
                self.add(library, marks.version(library), vec![function]);
            }
        }
        Ok(())
    }

    fn by_assembly(&mut self, marks: &Marks) -> Result<()> {
        // Without rustls this is cryptography of something else.
        if !marks.has(Library::Rustls) {
            return Ok(());
        }
        let signatures = self.signatures;
        let found = assembly::matches(self.image, self.elf, &signatures.assembly)?;
        for (signature, library, offsets) in assembly::attributed(&signatures.assembly, &found, marks) {
            // Whole records are seen where these functions are called from.
            let is_covered = |stack: &Stack| {
                stack.is_whole() && stack.functions.iter().any(|function| function.way == Way::ErrorCodes)
            };
            if self.stacks.get(&library).is_some_and(is_covered) {
                continue;
            }
            if offsets.len() > MAX_SAME_NAME {
                self.miss(library, marks.version(library), Why::Ambiguous(signature.name.clone()));
                continue;
            }
            let known = Known {
                name: &signature.name,
                role: signature.role,
                way: Way::Assembly,
                values: &signature.arguments,
                returned: Returned::Nothing,
                convention: Convention::C,
                is_shared: signature.shared,
            };
            for offset in offsets {
                let function = self.function(&known, offset, 0)?.0;
                self.add(library, marks.version(library), vec![function]);
            }
        }
        Ok(())
    }

    /// Reports the libraries that are there without functions, or with those of one direction only.
    fn leave_over(&mut self, marks: &Marks) {
        for library in marks.libraries() {
            let family: Vec<Library> = marks::family(library).to_vec();
            if self.has(&family) || family.iter().any(|library| self.unknown.contains_key(library)) {
                continue;
            }
            let why = match library {
                Library::Nss | Library::MbedTls | Library::WolfSsl | Library::S2n => Why::NoWay,
                _ if self.elf.machine != Machine::X86_64 => Why::Machine,
                _ => Why::NothingFits,
            };
            self.miss(marks.flavour(library), marks.version(marks.flavour(library)), why);
        }
        if self.stacks.is_empty() && self.unknown.is_empty() && marks.has(Library::Other) {
            self.miss(Library::Other, None, Why::NoWay);
        }
        let partial: Vec<(Library, Option<String>, Vec<Role>)> = self
            .stacks
            .values()
            .filter(|stack| !stack.is_whole())
            .map(|stack| {
                let mut roles: Vec<Role> = stack.functions.iter().map(|function| function.role).collect();
                roles.dedup();
                (stack.library, stack.version.clone(), roles)
            })
            .collect();
        for (library, version, roles) in partial {
            self.miss(library, version.as_deref(), Why::Partial(roles));
        }
    }
}
