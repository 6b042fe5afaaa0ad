//! What a request says: which tools it offers, which servers the provider is to use, and which results the model is given.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use crate::digest::ContentDigest;
use crate::json::{Value, each, is_array, is_object, is_true, member, members, some_text, text};
use crate::{Dialect, IntentLimits};

/// Whose a declared tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolOrigin {
    /// The client's, or of a server that the client speaks with.
    Client,
    /// The provider's own, which is offered by its type.
    Provider,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTool {
    /// Its name.
    pub name: Box<str>,
    /// The group that it is declared in.
    pub namespace: Option<Box<str>>,
    /// Whose it is.
    pub origin: ToolOrigin,
}

/// An MCP server that the provider is to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderServer {
    /// What the request calls it.
    pub label: Box<str>,
    /// Where it is; without user, query and fragment, which may be secrets.
    pub url: Option<Box<str>>,
    /// What the provider calls it, where it has it built in, or reaches it through a tunnel.
    pub connector: Option<Box<str>>,
    /// The tools that may be used; `None`: all.
    pub allowed_tools: Option<Vec<Box<str>>>,
}

/// A result that the model is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call; of its tool where calls have none.
    pub id: Box<str>,
    /// Whether the client says that it is an error; `None`: the dialect does not say.
    pub is_error: Option<bool>,
    /// What it is, by size and hash.
    pub content: ContentDigest,
}

/// A request to the API of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whose form it has; `None` where several dialects write it so.
    pub dialect: Option<Dialect>,
    /// The model.
    pub model: Option<Box<str>>,
    /// The answer that this goes on from, of a provider that keeps them.
    pub previous: Option<Box<str>>,
    /// The tools that it declares.
    pub tools: Vec<DeclaredTool>,
    /// The servers that the provider is to use.
    pub servers: Vec<ProviderServer>,
    /// The results that it holds, those of earlier turns among them; the last ones.
    pub results: VecDeque<ToolResult>,
    /// Tools, servers and results that were left out, since there are too many.
    pub left_out: u64,
    /// Whether several dialects write it so.
    signs: Signs,
}

/// What tells dialects apart that all have `messages`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Signs {
    anthropic: bool,
    chat: bool,
    bedrock: bool,
}

impl Request {
    /// What the body of a request says, without its codings. `None`: it is none to the API of a model.
    pub fn of(body: &[u8], limits: &IntentLimits) -> Option<Self> {
        let body = body.get(..).filter(|body| body.len() <= limits.value_bytes)?;
        let text = String::from_utf8_lossy(body);
        let value: &RawValue = serde_json::from_str(&text).ok()?;
        let mut reader = Reader { limits, request: Self::default() };
        let top = Some(value);
        // As the client of Code Assist sends it.
        let inner = Some(member(top, "request")).filter(|inner| is_array(member(*inner, "contents")));
        let is_any = reader.body(inner.unwrap_or(top));
        let mut request = reader.request;
        request.model = request.model.or_else(|| some_text(member(top, "model")).map(Box::from));
        is_any.then_some(request)
    }
}

struct Reader<'l> {
    limits: &'l IntentLimits,
    request: Request,
}

impl Reader<'_> {
    /// Whether it is a request.
    fn body(&mut self, top: Value<'_>) -> bool {
        let names =
            ["messages", "input", "contents", "model", "tools", "functions", "toolConfig", "mcp_servers"];
        let [messages, input, contents, model, tools, functions, config, servers] = members(top, names);
        let is_responses = model.is_some() && input.is_some() && messages.is_none();
        if !is_array(messages) && !is_array(contents) && !is_responses {
            return false;
        }
        self.request.model = self.short(model);
        self.request.previous = self.short(member(top, "previous_response_id"));
        each(messages, &mut |message| self.message(Some(message)));
        each(input, &mut |item| self.item(Some(item)));
        each(contents, &mut |content| {
            each(member(Some(content), "parts"), &mut |part| self.part(Some(part)));
        });
        each(tools, &mut |tool| self.tool(Some(tool), None));
        each(member(config, "tools"), &mut |tool| self.tool(Some(tool), None));
        each(functions, &mut |function| {
            self.declare(member(Some(function), "name"), None, ToolOrigin::Client)
        });
        each(servers, &mut |server| self.server(Some(server)));
        self.request.dialect = match () {
            () if is_array(contents) => Some(Dialect::Gemini),
            () if is_responses => Some(Dialect::OpenAiResponses),
            () => self.dialect(top, functions.is_some(), config.is_some(), servers.is_some()),
        };
        true
    }

    fn dialect(&self, top: Value<'_>, functions: bool, config: bool, servers: bool) -> Option<Dialect> {
        let names =
            ["anthropic_version", "system", "max_tokens", "inferenceConfig", "stream_options", "model"];
        let [version, system, max_tokens, inference, stream_options, model] = members(top, names);
        let Signs { anthropic, chat, bedrock } = self.request.signs;
        match () {
            () if bedrock || config || inference.is_some() => Some(Dialect::Bedrock),
            () if anthropic || version.is_some() || servers => Some(Dialect::Anthropic),
            () if chat || functions || stream_options.is_some() => Some(Dialect::OpenAiChat),
            () if system.is_some() && max_tokens.is_some() => Some(Dialect::Anthropic),
            // Without the model, which is in the path of Bedrock.
            () if model.is_none() && max_tokens.is_none() => Some(Dialect::Bedrock),
            // Without a limit, which Anthropic wants.
            () if max_tokens.is_none() => Some(Dialect::OpenAiChat),
            () => None,
        }
    }

    fn message(&mut self, message: Value<'_>) {
        let [role, content, call_id, calls, name] =
            members(message, ["role", "content", "tool_call_id", "tool_calls", "name"]);
        let role = text(role);
        if matches!(&*role, "tool" | "function") {
            self.request.signs.chat = true;
            return self.result(call_id.or(name), None, content);
        }
        self.request.signs.chat |= calls.is_some() || matches!(&*role, "system" | "developer");
        each(content, &mut |part| {
            let names = ["type", "tool_use_id", "is_error", "content", "toolUse", "toolResult"];
            let [kind, id, is_error, content, use_, result] = members(Some(part), names);
            let kind = text(kind);
            self.request.signs.anthropic |= kind.contains("tool_use") || kind.contains("tool_result");
            self.request.signs.bedrock |= use_.is_some() || result.is_some();
            if kind == "tool_addition" {
                self.tool(member(member(Some(part), "tool"), "definition"), None);
            }
            if kind == "tool_result" {
                self.result(id, Some(is_true(is_error)), content);
            }
            if is_object(result) {
                let [id, content, status] = members(result, ["toolUseId", "content", "status"]);
                self.result(id, Some(text(status) == "error"), content);
            }
        });
    }

    /// An item of the input, of the Responses API.
    fn item(&mut self, item: Value<'_>) {
        let [kind, id, output] = members(item, ["type", "call_id", "output"]);
        let kind = text(kind);
        if kind.ends_with("_call_output") {
            self.result(id, None, output);
        } else if kind == "additional_tools" {
            each(member(item, "tools"), &mut |tool| self.tool(Some(tool), None));
        }
    }

    /// A part of a content, of Gemini.
    fn part(&mut self, part: Value<'_>) {
        let response = member(part, "functionResponse");
        if is_object(response) {
            let [id, name, content] = members(response, ["id", "name", "response"]);
            self.result(id.or(name), None, content);
        }
    }

    fn result(&mut self, id: Value<'_>, is_error: Option<bool>, content: Value<'_>) {
        let id = self.short(id).unwrap_or_default();
        let results = &mut self.request.results;
        results.push_back(ToolResult { id, is_error, content: ContentDigest::of(content) });
        if results.len() > self.limits.entries {
            results.pop_front();
            self.request.left_out += 1;
        }
    }

    fn tool(&mut self, tool: Value<'_>, namespace: Option<&str>) {
        let names = [
            "type",
            "name",
            "function",
            "custom",
            "input_schema",
            "toolSpec",
            "functionDeclarations",
            "function_declarations",
            "tools",
        ];
        let [kind, name, function, custom, schema, spec, declared, also, inner] = members(tool, names);
        let kind = text(kind);
        each(member(tool, "mcpServers"), &mut |server| self.server(Some(server)));
        let mut declare = |name, origin| self.declare(name, namespace, origin);
        if is_array(declared.or(also)) {
            each(declared.or(also), &mut |function| {
                declare(member(Some(function), "name"), ToolOrigin::Client);
            });
        } else if let Some(spec) = spec {
            declare(member(Some(spec), "name"), ToolOrigin::Client);
        } else if let Some(function) = function.or(custom).filter(|function| is_object(Some(function))) {
            declare(member(Some(function), "name"), ToolOrigin::Client);
            self.request.signs.chat = true;
        } else if kind == "mcp" {
            self.server(tool);
        } else if kind == "namespace" && namespace.is_none() {
            let namespace = self.short(name).unwrap_or_default();
            each(inner, &mut |tool| self.tool(Some(tool), Some(&namespace)));
        } else if name.is_some() {
            // Tools of the provider's have a type with a date.
            let is_own = schema.is_none() && !matches!(&*kind, "" | "function" | "custom");
            declare(name, if is_own { ToolOrigin::Provider } else { ToolOrigin::Client });
            self.request.signs.anthropic |= schema.is_some();
        } else if kind != "mcp_toolset" {
            let kind = member(tool, "type");
            declare(kind, ToolOrigin::Provider);
        }
    }

    fn declare(&mut self, name: Value<'_>, namespace: Option<&str>, origin: ToolOrigin) {
        let Some(name) = self.short(name) else { return };
        if self.request.tools.len() >= self.limits.entries {
            self.request.left_out += 1;
            return;
        }
        self.request.tools.push(DeclaredTool { name, namespace: namespace.map(Box::from), origin });
    }

    fn server(&mut self, server: Value<'_>) {
        if self.request.servers.len() >= self.limits.entries {
            self.request.left_out += 1;
            return;
        }
        let [name, label, url, server_url] = members(server, ["name", "server_label", "url", "server_url"]);
        let [connector, tunnel, allowed, configuration] =
            members(server, ["connector_id", "tunnel_id", "allowed_tools", "tool_configuration"]);
        let allowed = allowed.or(member(configuration, "allowed_tools"));
        // A list, or a filter that has one.
        let list = if is_object(allowed) { member(allowed, "tool_names") } else { allowed };
        let mut tools = Vec::new();
        each(list, &mut |tool| {
            if tools.len() < self.limits.entries {
                tools.extend(self.short(Some(tool)));
            }
        });
        let url = url.or(server_url).or(member(member(server, "streamableHttpTransport"), "url"));
        let url = self.short(url);
        self.request.servers.push(ProviderServer {
            label: self.short(name.or(label)).unwrap_or_default(),
            url: url.map(|url| bare(&url).into()),
            connector: self.short(connector.or(tunnel)),
            allowed_tools: is_array(list).then_some(tools),
        });
    }

    /// A text within its bound.
    fn short(&self, value: Value<'_>) -> Option<Box<str>> {
        let text = some_text(value)?;
        text.get(..text.floor_char_boundary(self.limits.name_bytes)).map(Box::from)
    }
}

/// A URL without user, query and fragment.
fn bare(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = authority.rsplit('@').next().unwrap_or_default();
    path.map_or_else(|| format!("{scheme}://{host}"), |path| format!("{scheme}://{host}/{path}"))
}
