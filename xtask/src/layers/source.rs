//! A crate's source as a tree of modules: what each holds, and which paths it names. Tests are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    Attribute, Expr, Item, Meta, UseTree,
    visit::{self, Visit},
};

/// The modules of one crate. The first is its root.
pub type Tree = Vec<Module>;

/// A path of names: `["crate", "event", "Event"]`.
pub type Names = Vec<String>;

/// One module: a file, or `mod name { … }` in one.
pub struct Module {
    pub name: String,
    /// `None`: the root.
    pub parent: Option<usize>,
    pub file: PathBuf,
    pub children: BTreeMap<String, usize>,
    /// Names of items that it defines itself.
    pub own: BTreeSet<String>,
    /// Names that it imports, public or not, and of what.
    pub imports: BTreeMap<String, Names>,
    /// Of what it imports everything.
    pub globs: Vec<Names>,
    /// Every path that its code names, imports among them.
    pub mentions: Vec<Mention>,
}

/// A path that code names.
pub struct Mention {
    pub path: Names,
    pub line: usize,
    /// That line.
    pub text: String,
}

/// Reads the text of a file; `None`: there is none.
pub type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Parses a crate, from its root file on.
pub fn parse(root: &Path, read: Read<'_>) -> Result<Tree> {
    let mut tree = Tree::new();
    let directory = root.parent().context("a root file has a directory")?;
    let place = Place { file: root.to_owned(), directory: directory.to_owned() };
    add_file("crate", None, &place, read, &mut tree)?;
    Ok(tree)
}

/// Where a module is written, and the directory that its children's files lie in.
struct Place {
    file: PathBuf,
    directory: PathBuf,
}

fn add_file(
    name: &str,
    parent: Option<usize>,
    place: &Place,
    read: Read<'_>,
    tree: &mut Tree,
) -> Result<usize> {
    let file = place.file.display();
    let text = read(&place.file).ok_or_else(|| anyhow!("cannot read {file}"))?;
    let parsed =
        syn::parse_file(&text).map_err(|error| anyhow!("{file}:{}: {error}", error.span().start().line))?;
    add(name, parent, &parsed.items, place, &text, read, tree)
}

fn add(
    name: &str,
    parent: Option<usize>,
    items: &[Item],
    place: &Place,
    text: &str,
    read: Read<'_>,
    tree: &mut Tree,
) -> Result<usize> {
    let id = tree.len();
    tree.push(Module {
        name: name.to_owned(),
        parent,
        file: place.file.clone(),
        children: BTreeMap::new(),
        own: BTreeSet::new(),
        imports: BTreeMap::new(),
        globs: Vec::new(),
        mentions: Vec::new(),
    });
    let lines: Vec<&str> = text.lines().collect();
    let mut modules = Vec::new();
    let mut collector = Collector { module: &mut tree[id], lines: &lines, modules: &mut modules };
    for item in items {
        collector.visit_item(item);
    }
    for module in modules {
        let child = module.ident.to_string();
        let child_id = match &module.content {
            Some((_, items)) => {
                let place = Place { file: place.file.clone(), directory: place.directory.join(&child) };
                add(&child, Some(id), items, &place, text, read, tree)?
            }
            None => {
                let place = file_of(&child, &module.attrs, place, read)?;
                add_file(&child, Some(id), &place, read, tree)?
            }
        };
        tree[id].children.insert(child, child_id);
    }
    Ok(id)
}

/// The file of `mod name;`.
fn file_of(name: &str, attributes: &[Attribute], parent: &Place, read: Read<'_>) -> Result<Place> {
    for attribute in attributes {
        if let Meta::NameValue(pair) = &attribute.meta
            && pair.path.is_ident("path")
            && let Expr::Lit(literal) = &pair.value
            && let syn::Lit::Str(path) = &literal.lit
        {
            let file = parent.file.with_file_name(path.value());
            let directory = file.parent().context("a file has a directory")?.to_owned();
            return Ok(Place { file, directory });
        }
    }
    let directory = parent.directory.join(name);
    for file in [directory.with_extension("rs"), directory.join("mod.rs")] {
        if read(&file).is_some() {
            return Ok(Place { file, directory });
        }
    }
    Err(anyhow!("{}: mod {name} has no file", parent.file.display()))
}

/// Collects what one module holds and names.
struct Collector<'a> {
    module: &'a mut Module,
    lines: &'a [&'a str],
    /// Its child modules.
    modules: &'a mut Vec<syn::ItemMod>,
}

impl Collector<'_> {
    fn mention(&mut self, path: Names, line: usize) {
        let text = self.lines.get(line - 1).map_or("", |text| text.trim()).to_owned();
        self.module.mentions.push(Mention { path, line, text });
    }

    /// What `use` imports, below `prefix`.
    fn import(&mut self, tree: &UseTree, prefix: &Names) {
        let mut path = prefix.clone();
        let (ident, name) = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                return self.import(&inner.tree, &path);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|inner| self.import(inner, prefix));
            }
            UseTree::Glob(glob) => {
                self.module.globs.push(path.clone());
                return self.mention(path, glob.star_token.spans[0].start().line);
            }
            UseTree::Name(inner) => (&inner.ident, &inner.ident),
            UseTree::Rename(inner) => (&inner.ident, &inner.rename),
        };
        // `use a::{self}` imports `a`.
        if ident != "self" || path.is_empty() {
            path.push(ident.to_string());
        }
        let name = if name == "self" { path.last().cloned() } else { Some(name.to_string()) };
        if let Some(name) = name.filter(|name| name != "_") {
            self.module.imports.insert(name, path.clone());
        }
        self.mention(path, ident.span().start().line);
    }

    /// Paths in what a macro takes, which is no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_colon =
            |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while is_colon(at)
                        && is_colon(at + 1)
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 2)
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    let is_call = matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                    if is_call || can_be_item(&path) {
                        self.mention(path, first.span().start().line);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a path cannot be a local variable.
fn can_be_item(path: &[String]) -> bool {
    path.len() > 1 || path[0].starts_with(char::is_uppercase)
}

/// Whether it is there in tests alone.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test")
        }
        _ => false,
    })
}

/// The attributes of an item; `None` of what has none.
fn attributes(item: &Item) -> Option<&[Attribute]> {
    Some(match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => return None,
    })
}

/// The name that an item defines.
fn defined(item: &Item) -> Option<&syn::Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).is_some_and(is_test) {
            return;
        }
        if let Some(name) = defined(item) {
            self.module.own.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.modules.push(module.clone());
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.import(&item.tree, &Names::new());
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (path.leading_colon, path.segments.first()) {
            let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if can_be_item(&names) {
                self.mention(names, first.ident.span().start().line);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(name) = function.path.get_ident()
        {
            self.mention(vec![name.to_string()], name.span().start().line);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, macro_: &'ast syn::Macro) {
        self.tokens(macro_.tokens.clone());
        visit::visit_macro(self, macro_);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }
}
