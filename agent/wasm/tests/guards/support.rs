//! Components for the tests, built from text: the tests need no WebAssembly toolchain.

#![allow(dead_code, reason = "others than the tests of this crate use a part of it")]
#![allow(clippy::unwrap_used, reason = "what fails here is a failed test")]

use std::{fmt::Write as _, time::Duration};

use mcpwarden_terms::contract::{
    GuardContext, GuardFailure, GuardIdentity, GuardOperation, GuardReply, GuardRequest, GuardTool,
};
use mcpwarden_wasm::{Call, CallReport, Guard, Limits, LoadError, Runtime, RuntimeOptions, WIT, WasmConfig};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Memory of the core module: results at 0, flat arguments at 128, texts from 1024, the heap from 65536.
const MODULE: &str = include_str!("guard.wat");
/// The names of the five functions, in the order of [`operations`].
pub const FUNCTIONS: [&str; 5] = [
    "evaluate-tools-list",
    "evaluate-tool-call",
    "evaluate-tool-response",
    "evaluate-prompt-request",
    "evaluate-resource-request",
];
pub const SECOND: Duration = Duration::from_secs(1);

/// A core module of a guard, to be encoded as a component.
pub struct Source {
    /// Bodies of functions `(param $kind i32) (param $args i32) (result i32)`; the first byte of the name of the server,
    /// from `A`, selects one.
    pub behaviours: Vec<String>,
    /// Anything else on the level of the module.
    pub items: String,
    /// Imports besides those of the world of guards.
    pub imports: String,
    /// The body of `cabi_realloc`, after which the memory is allocated.
    pub realloc: String,
    /// The body of the functions that free a result.
    pub post_return: String,
    /// The world as WIT, and its name.
    pub wit: (String, String),
    /// The name of the exported interface.
    pub interface: String,
    /// Functions that are exported.
    pub functions: Vec<&'static str>,
    texts: Vec<(usize, Vec<u8>)>,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            behaviours: vec![],
            items: String::new(),
            imports: String::new(),
            realloc: String::new(),
            post_return: String::new(),
            wit: (String::new(), "mcp:security-guard/security-guard".to_owned()),
            interface: "mcp:security-guard/guard@0.1.0".to_owned(),
            functions: FUNCTIONS.to_vec(),
            texts: vec![],
        }
    }
}

impl Source {
    /// A guard with one behaviour, whatever the name of the server.
    pub fn one(behaviour: &str) -> Self {
        let mut source = Self::default();
        source.behaviours.push(behaviour.to_owned());
        source
    }

    /// Puts bytes into the memory of the guard; the arguments pointer and length for a call.
    pub fn text(&mut self, bytes: impl AsRef<[u8]>) -> String {
        let at = self.texts.last().map_or(1024, |(at, bytes)| at + bytes.len());
        let bytes = bytes.as_ref().to_vec();
        let arguments = format!("(i32.const {at}) (i32.const {})", bytes.len());
        self.texts.push((at, bytes));
        arguments
    }

    pub fn module(&self) -> String {
        let mut items = self.items.clone();
        for (at, bytes) in &self.texts {
            let escaped: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
            writeln!(items, "(data (i32.const {at}) \"{escaped}\")").unwrap();
        }
        let mut elements = String::new();
        for (index, body) in self.behaviours.iter().enumerate() {
            writeln!(
                items,
                "(func $behaviour{index} (param $kind i32) (param $args i32) (result i32) (local $i i32) {body})"
            )
            .unwrap();
            write!(elements, " $behaviour{index}").unwrap();
        }
        let count = self.behaviours.len();
        writeln!(
            items,
            "(table $behaviours {count} funcref) (elem (table $behaviours) (i32.const 0) func{elements})"
        )
        .unwrap();
        for name in &self.functions {
            let kind = FUNCTIONS.iter().position(|known| known == name).unwrap();
            let interface = &self.interface;
            // Arguments that do not fit into sixteen values come as a pointer to the same bytes.
            let flat = match kind {
                0 | 4 => 16,
                _ => 1,
            };
            let params = "(param i32) ".repeat(flat);
            let spill: String = match flat {
                1 => String::new(),
                _ => (0..flat)
                    .map(|index| format!("(i32.store (i32.const {}) (local.get {index}))", 128 + 4 * index))
                    .collect(),
            };
            let args = if flat == 1 { "(local.get 0)" } else { "(i32.const 128)" };
            let context = if flat == 1 { 16 } else { 8 };
            writeln!(
                items,
                "(func (export \"{interface}#{name}\") {params} (result i32) {spill}
                   (call $dispatch (i32.const {kind}) {args} (i32.const {context})))
                 (func (export \"cabi_post_{interface}#{name}\") (param i32) {}
                   (global.set $heap (i32.const 65536)))",
                self.post_return
            )
            .unwrap();
        }
        let single = i32::from(count == 1);
        MODULE
            .replace(";;IMPORTS", &self.imports)
            .replace(";;REALLOC", &self.realloc)
            .replace(";;SINGLE", &format!("(i32.const {single})"))
            .replace(";;ITEMS", &items)
    }

    /// The component.
    pub fn build(&self) -> Vec<u8> {
        encode(&self.module(), &self.wit.0, &self.wit.1)
    }
}

/// Encodes a core module as a component of a world; `wit` may be empty.
pub fn encode(module: &str, wit: &str, world: &str) -> Vec<u8> {
    let mut core = wat::parse_str(module).unwrap();
    let mut resolve = Resolve::default();
    let mut package = resolve.push_str("guard.wit", WIT).unwrap();
    if !wit.is_empty() {
        // A text of its own in place of the contract, or besides.
        if wit.contains("package mcp:security-guard") {
            resolve = Resolve::default();
        }
        package = resolve.push_str("test.wit", wit).unwrap();
    }
    let world = world.rsplit('/').next().unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&core).unwrap().validate(true).encode().unwrap()
}

pub fn runtime() -> Runtime {
    Runtime::new(RuntimeOptions::default()).unwrap()
}

pub fn load(runtime: &Runtime, bytes: &[u8]) -> Result<Guard, LoadError> {
    Guard::load(runtime, "test", bytes, WasmConfig::new(), Limits::default())
}

/// A call with time enough for every guard that ends.
pub fn call() -> Call {
    Call { now_ns: 1_700_000_000_000_000_007, seed: 7, timeout: 60 * SECOND }
}

pub fn evaluate(guard: &Guard, request: &GuardRequest) -> (Result<GuardReply, GuardFailure>, CallReport) {
    guard.evaluate(request, call())
}

/// One operation for each function, with these texts.
pub fn operations(text: &str) -> [GuardOperation; 5] {
    let text = text.to_owned();
    [
        GuardOperation::ListTools {
            tools: vec![
                GuardTool { name: "read".into(), description: Some(text.clone()), input_schema: "{}".into() },
                GuardTool { name: "write".into(), description: None, input_schema: "{\"a\":1}".into() },
            ],
        },
        GuardOperation::CallTool { tool_name: "read".into(), arguments: text.clone() },
        GuardOperation::ToolResponse { tool_name: "write".into(), result: text.clone() },
        GuardOperation::GetPrompt { prompt_name: "greet".into(), arguments: text.clone() },
        GuardOperation::ReadResource { uri: text },
    ]
}

pub fn request(server: &str, operation: GuardOperation) -> GuardRequest {
    let context = GuardContext { server_name: server.to_owned(), identity: None, metadata: "{}".to_owned() };
    GuardRequest { operation, context }
}

pub fn identity() -> GuardIdentity {
    GuardIdentity {
        sub: "uid:1000".to_owned(),
        email: None,
        groups: vec!["dev".to_owned(), "prüfer".to_owned()],
        claims: "{\"uid\":1000}".to_owned(),
    }
}

/// The text that the function `$echo` of the module makes of a request.
pub fn echoed(request: &GuardRequest) -> String {
    let mut fields: Vec<String> = vec![];
    match &request.operation {
        GuardOperation::ListTools { tools } => {
            for tool in tools {
                let description = tool.description.clone().unwrap_or_else(|| "-".to_owned());
                fields.extend([tool.name.clone(), description, tool.input_schema.clone()]);
            }
        }
        GuardOperation::CallTool { tool_name: name, arguments: text }
        | GuardOperation::ToolResponse { tool_name: name, result: text }
        | GuardOperation::GetPrompt { prompt_name: name, arguments: text } => {
            fields.extend([name.clone(), text.clone()]);
        }
        GuardOperation::ReadResource { uri } => fields.push(uri.clone()),
    }
    let context = &request.context;
    fields.push(context.server_name.clone());
    match &context.identity {
        Some(identity) => {
            fields.extend([identity.sub.clone(), identity.email.clone().unwrap_or_else(|| "-".to_owned())]);
            fields.extend(identity.groups.clone());
            fields.push(identity.claims.clone());
        }
        None => fields.push("-".to_owned()),
    }
    fields.push(context.metadata.clone());
    fields.iter().fold(String::new(), |text, field| text + field + "|")
}
