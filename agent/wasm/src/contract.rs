//! The types of `mcp:security-guard/guard` as the engine passes them, and the five functions.

use std::collections::BTreeMap;

use mcpwarden_terms::contract::{
    GuardContext, GuardFailure, GuardIdentity, GuardOperation, GuardReason, GuardReply, GuardRequest,
    GuardTool,
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use wasmtime::{
    AsContextMut,
    component::{ComponentExportIndex, ComponentType, Func, Instance, InstancePre, Lift, Lower, types},
};

use crate::{
    error::LoadError,
    limits::{ERROR_BYTES, cut},
    state::State,
};

/// What every function returns: a verdict, or why there is none.
type Answer = (Result<Decision, String>,);
type ToolsParams<'a> = (&'a [Tool<'a>], Context<'a>);
type NamedParams<'a> = (&'a str, &'a str, Context<'a>);
type UriParams<'a> = (&'a str, Context<'a>);

#[derive(ComponentType, Lower)]
#[component(record)]
struct Context<'a> {
    #[component(name = "server-name")]
    server_name: &'a str,
    identity: Option<Identity<'a>>,
    metadata: &'a str,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Identity<'a> {
    sub: &'a str,
    email: Option<&'a str>,
    groups: &'a [String],
    claims: &'a str,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Tool<'a> {
    name: &'a str,
    description: Option<&'a str>,
    #[component(name = "input-schema")]
    input_schema: &'a str,
}

/// A verdict, not yet checked.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(crate) enum Decision {
    #[component(name = "allow")]
    Allow,
    #[component(name = "deny")]
    Deny(DenyReason),
    #[component(name = "modify")]
    Modify(String),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct DenyReason {
    code: String,
    message: String,
    details: Option<String>,
}

impl<'a> From<&'a GuardContext> for Context<'a> {
    fn from(context: &'a GuardContext) -> Self {
        Self {
            server_name: &context.server_name,
            identity: context.identity.as_ref().map(Identity::from),
            metadata: &context.metadata,
        }
    }
}

impl<'a> From<&'a GuardIdentity> for Identity<'a> {
    fn from(identity: &'a GuardIdentity) -> Self {
        Self {
            sub: &identity.sub,
            email: identity.email.as_deref(),
            groups: &identity.groups,
            claims: &identity.claims,
        }
    }
}

impl<'a> From<&'a GuardTool> for Tool<'a> {
    fn from(tool: &'a GuardTool) -> Self {
        Self { name: &tool.name, description: tool.description.as_deref(), input_schema: &tool.input_schema }
    }
}

/// One of the five functions.
#[derive(Clone, Copy)]
enum Function {
    ToolsList,
    ToolCall,
    ToolResponse,
    PromptRequest,
    ResourceRequest,
}

impl Function {
    const ALL: [Self; 5] =
        [Self::ToolsList, Self::ToolCall, Self::ToolResponse, Self::PromptRequest, Self::ResourceRequest];

    fn of(operation: &GuardOperation) -> Self {
        match operation {
            GuardOperation::ListTools { .. } => Self::ToolsList,
            GuardOperation::CallTool { .. } => Self::ToolCall,
            GuardOperation::ToolResponse { .. } => Self::ToolResponse,
            GuardOperation::GetPrompt { .. } => Self::PromptRequest,
            GuardOperation::ReadResource { .. } => Self::ResourceRequest,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ToolsList => "evaluate-tools-list",
            Self::ToolCall => "evaluate-tool-call",
            Self::ToolResponse => "evaluate-tool-response",
            Self::PromptRequest => "evaluate-prompt-request",
            Self::ResourceRequest => "evaluate-resource-request",
        }
    }

    fn typecheck(self, function: &types::ComponentFunc, pre: &InstancePre<State>) -> wasmtime::Result<()> {
        let types = pre.instance_type();
        match self {
            Self::ToolsList => function.typecheck::<ToolsParams<'_>, Answer>(&types),
            Self::ToolCall | Self::ToolResponse | Self::PromptRequest => {
                function.typecheck::<NamedParams<'_>, Answer>(&types)
            }
            Self::ResourceRequest => function.typecheck::<UriParams<'_>, Answer>(&types),
        }
    }
}

/// Five things, one for each function.
#[derive(Clone, Copy)]
struct ByFunction<T> {
    tools_list: T,
    tool_call: T,
    tool_response: T,
    prompt_request: T,
    resource_request: T,
}

impl<T: Copy> ByFunction<T> {
    fn try_new<E>(mut make: impl FnMut(Function) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self {
            tools_list: make(Function::ToolsList)?,
            tool_call: make(Function::ToolCall)?,
            tool_response: make(Function::ToolResponse)?,
            prompt_request: make(Function::PromptRequest)?,
            resource_request: make(Function::ResourceRequest)?,
        })
    }

    fn get(&self, function: Function) -> T {
        match function {
            Function::ToolsList => self.tools_list,
            Function::ToolCall => self.tool_call,
            Function::ToolResponse => self.tool_response,
            Function::PromptRequest => self.prompt_request,
            Function::ResourceRequest => self.resource_request,
        }
    }
}

/// Where the functions are in a component.
pub(crate) struct Exports(ByFunction<ComponentExportIndex>);

impl Exports {
    /// Finds the functions in `interface`, the export of the component named `name`.
    ///
    /// # Errors
    /// A function is missing, or has another type.
    pub(crate) fn find(
        pre: &InstancePre<State>,
        name: &str,
        interface: &types::ComponentInstance,
    ) -> Result<Self, LoadError> {
        for function in Function::ALL {
            let export = interface.get_export(pre.engine(), function.name());
            let Some(types::ComponentItem::ComponentFunc(ty)) = export.map(|export| export.ty) else {
                return Err(LoadError::MissingFunction { function: function.name() });
            };
            let wrong = |problem| LoadError::WrongType { function: function.name(), problem };
            if ty.async_() {
                return Err(wrong("it is an async function".to_owned()));
            }
            function.typecheck(&ty, pre).map_err(|error| wrong(format!("{error:#}")))?;
        }
        let index = |parent, name: &str| pre.component().get_export_index(parent, name);
        let parent = index(None, name).ok_or(LoadError::MissingInterface)?;
        let find = |function: Function| {
            let missing = LoadError::MissingFunction { function: function.name() };
            index(Some(&parent), function.name()).ok_or(missing)
        };
        Ok(Self(ByFunction::try_new(find)?))
    }
}

/// The first function that the interface lacks, if any.
pub(crate) fn missing_function(
    engine: &wasmtime::Engine,
    interface: &types::ComponentInstance,
) -> Option<&'static str> {
    Function::ALL.into_iter().map(Function::name).find(|name| {
        let export = interface.get_export(engine, name);
        !matches!(export.map(|export| export.ty), Some(types::ComponentItem::ComponentFunc(_)))
    })
}

/// The functions of one instance.
pub(crate) struct Functions(ByFunction<Func>);

impl Functions {
    /// Finds the functions of an instance.
    ///
    /// # Errors
    /// The instance lacks one: the engine contradicts itself.
    pub(crate) fn of(
        mut store: impl AsContextMut,
        instance: &Instance,
        exports: &Exports,
    ) -> wasmtime::Result<Self> {
        ByFunction::try_new(|function| {
            instance
                .get_func(&mut store, exports.0.get(function))
                .ok_or_else(|| wasmtime::format_err!("no function {}", function.name()))
        })
        .map(Self)
    }

    /// Calls the function for this operation.
    ///
    /// # Errors
    /// The guard trapped, exceeded a limit, or returned what the type of the function does not allow.
    pub(crate) fn call(
        &self,
        mut store: impl AsContextMut,
        request: &GuardRequest,
    ) -> wasmtime::Result<Result<Decision, String>> {
        let function = self.0.get(Function::of(&request.operation));
        let context = Context::from(&request.context);
        let (answer,) = match &request.operation {
            GuardOperation::ListTools { tools } => {
                let tools: Vec<_> = tools.iter().map(Tool::from).collect();
                let function = function.typed::<ToolsParams<'_>, Answer>(&store)?;
                function.call(&mut store, (&tools, context))?
            }
            GuardOperation::CallTool { tool_name: name, arguments: text }
            | GuardOperation::ToolResponse { tool_name: name, result: text }
            | GuardOperation::GetPrompt { prompt_name: name, arguments: text } => {
                let function = function.typed::<NamedParams<'_>, Answer>(&store)?;
                function.call(&mut store, (name, text, context))?
            }
            GuardOperation::ReadResource { uri } => {
                let function = function.typed::<UriParams<'_>, Answer>(&store)?;
                function.call(&mut store, (uri, context))?
            }
        };
        Ok(answer)
    }
}

/// Checks an answer: texts that the contract calls JSON must be JSON.
///
/// # Errors
/// The guard has no verdict, or its answer is invalid.
pub(crate) fn check(answer: Result<Decision, String>) -> Result<GuardReply, GuardFailure> {
    match answer {
        Ok(Decision::Allow) => Ok(GuardReply::Allow),
        Ok(Decision::Deny(DenyReason { code, message, details })) => {
            if let Some(details) = &details {
                serde_json::from_str::<IgnoredAny>(details)
                    .map_err(|error| invalid(&format!("the details of the denial are not JSON: {error}")))?;
            }
            Ok(GuardReply::Deny { reason: GuardReason { code, message, details } })
        }
        Ok(Decision::Modify(action)) => {
            check_action(&action).map_err(|problem| {
                invalid(&format!("the action is not a JSON object with a `type`: {problem}"))
            })?;
            Ok(GuardReply::Modify { action })
        }
        Err(mut text) => {
            if cut(&mut text, ERROR_BYTES) {
                text.shrink_to_fit();
            }
            Err(GuardFailure::Error(text))
        }
    }
}

/// Checks that an action is an object whose `type` is a string. Values are not parsed into trees, which can be many times as
/// large as their text.
fn check_action(action: &str) -> Result<(), String> {
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_str(action).map_err(|error| error.to_string())?;
    match fields.get("type") {
        Some(value) if value.get().starts_with('"') => Ok(()),
        Some(_) => Err("`type` is not a string".to_owned()),
        None => Err("it has no `type`".to_owned()),
    }
}

/// An answer that the contract does not allow.
fn invalid(problem: &str) -> GuardFailure {
    let mut text = format!("invalid answer: {problem}");
    cut(&mut text, ERROR_BYTES);
    GuardFailure::Error(text)
}
