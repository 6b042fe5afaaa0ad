//! Expressions of the Common Expression Language (CEL) in rules.

mod known;

use cel::Program;
use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use known::{Type, VARIABLES};
use mcpwarden_terms::checked_text;

checked_text!(
    /// An expression of the Common Expression Language (CEL) over the variables `call`, `tool`, `session` and `time`, whose
    /// value is true or false.
    Expression, "cel", |text| compile(text).map(|_| ())
);

impl Expression {
    /// The expression, compiled, and how deep its loops (`all`, `exists`, `exists_one`, `map`, `filter`) are nested.
    ///
    /// # Errors
    /// It is none, which cannot be: it was checked.
    pub fn compile(&self) -> Result<(Program, usize), String> {
        compile(self.as_str())
    }
}

/// Longest expression. Bytes.
const MOST_BYTES: usize = 4_096;
/// Deepest nesting: readers and evaluation recurse, and must not run out of stack.
const MOST_DEPTH: usize = 32;
/// Deepest nesting of loops: each multiplies how long the evaluation takes by the length of a list.
const MOST_LOOPS: usize = 2;

fn compile(text: &str) -> Result<(Program, usize), String> {
    if text.len() > MOST_BYTES {
        return Err(format!("it has {} bytes; the most is {MOST_BYTES}", text.len()));
    }
    let too_deep = || format!("it is nested deeper than {MOST_DEPTH}");
    if depth_of_text(text) > MOST_DEPTH {
        return Err(too_deep());
    }
    let program = Program::compile(text).map_err(|error| first_line(&error.to_string()))?;
    let mut walk = Walk { bound: Vec::new(), loops: 0 };
    walk.expression(program.expression(), 0, 0)?;
    let loops = walk.loops;
    match known::type_of(program.expression(), &[]) {
        Type::Bool | Type::Unknown => {}
        other => return Err(format!("it is {}, and neither true nor false", other.name())),
    }
    Ok((program, loops))
}

/// How deep a text may be nested, before anything recurses over it: brackets that are open, and operators in a row.
fn depth_of_text(text: &str) -> usize {
    let (mut open, mut row, mut deepest) = (0usize, 0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        row = match byte {
            b'!' | b'-' | b'?' => row + 1,
            byte if byte.is_ascii_whitespace() => row,
            _ => 0,
        };
        deepest = deepest.max(open + row);
    }
    // A chain of `a ? b : c ? d : e` nests to the right.
    deepest.max(text.bytes().filter(|byte| *byte == b'?').count())
}

/// What a parser says first.
fn first_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().unwrap_or("it cannot be read").to_owned()
}

struct Walk {
    /// The variables of the loops around.
    bound: Vec<String>,
    /// How deep loops are nested at most.
    loops: usize,
}

impl Walk {
    fn expression(&mut self, expression: &IdedExpr, depth: usize, loops: usize) -> Result<(), String> {
        // Chains of operators nest to the left: each is a small frame here, and a larger one where it is evaluated.
        if depth > 4 * MOST_DEPTH {
            return Err(format!("it has more than {} operators or members in a row", 4 * MOST_DEPTH));
        }
        let depth = depth + 1;
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                self.expression(&select.operand, depth, loops)?;
                known::check_member(&select.operand, &select.field, &self.bound)
            }
            Expr::Call(call) => {
                let target = call.target.as_deref().into_iter();
                target.chain(&call.args).try_for_each(|one| self.expression(one, depth, loops))?;
                known::check_call(call, &self.bound)
            }
            Expr::List(list) => list.elements.iter().try_for_each(|one| self.expression(one, depth, loops)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| self.entry(&entry.expr, depth, loops)),
            Expr::Struct(of) => of.entries.iter().try_for_each(|entry| self.entry(&entry.expr, depth, loops)),
            Expr::Comprehension(of) => {
                let inner = loops + 1;
                self.loops = self.loops.max(inner);
                if inner > MOST_LOOPS {
                    return Err(format!("its loops are nested deeper than {MOST_LOOPS}"));
                }
                self.expression(&of.iter_range, depth, loops)?;
                let before = self.bound.len();
                self.bound.extend([of.iter_var.clone(), of.accu_var.clone()]);
                self.bound.extend(of.iter_var2.clone());
                for one in [&of.accu_init, &of.loop_cond, &of.loop_step, &of.result] {
                    self.expression(one, depth, inner)?;
                }
                self.bound.truncate(before);
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr, depth: usize, loops: usize) -> Result<(), String> {
        match entry {
            EntryExpr::StructField(field) => self.expression(&field.value, depth, loops),
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key, depth, loops)?;
                self.expression(&entry.value, depth, loops)
            }
        }
    }

    fn variable(&self, name: &str) -> Result<(), String> {
        let is_type =
            ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];
        if VARIABLES.iter().any(|(known, _)| *known == name)
            || is_type.contains(&name)
            || self.bound.iter().any(|bound| bound == name)
        {
            return Ok(());
        }
        let all = VARIABLES.map(|(known, _)| known).join(", ");
        Err(format!("`{name}` is no variable; these are {all}"))
    }
}
