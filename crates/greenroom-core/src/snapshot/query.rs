//! JMESPath over a snapshot.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jmespath::ast::Ast;
use jmespath::functions::{ContainsFn, EndsWithFn, Function, JoinFn, StartsWithFn};
use jmespath::{Context, ErrorReason, JmespathError, Rcvar, Runtime, SearchResult, Variable, interpret};
use serde_json::{Map, Value};

use super::{Node, Snapshot};

/// Longer expressions are refused.
const MAX_EXPRESSION: usize = 10_000;
/// So are those with more operators and brackets: each may be a level of recursion where they are read and evaluated.
const MAX_OPERATORS: usize = 200;
/// How many times an expression may multiply what it works on.
const MAX_GROWTH: usize = 256;
/// How many values an answer may have, and how long a string may become that is put together of others.
const MAX_ANSWER: usize = 1_000_000;

const EXAMPLE: &str = "for example `[?role=='button'].{name: name, ref: ref}`";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("the query is not JMESPath at character {position}: {reason}; {EXAMPLE}")]
    Malformed { position: usize, reason: String },
    #[error("the query fails at character {position}: {reason}; {EXAMPLE}")]
    Fails { position: usize, reason: String },
    #[error("the query has {length} bytes, more than {MAX_EXPRESSION}: ask for less at once; {EXAMPLE}")]
    TooLong { length: usize },
    #[error(
        "the query asks for too much at once: ask for fewer elements or fewer of their fields; {EXAMPLE}"
    )]
    TooMuch,
    #[error(
        "the query has more than {MAX_OPERATORS} operators and brackets: ask for less at once; {EXAMPLE}"
    )]
    TooNested,
}

/// A snapshot as queries see it. It can be shared between threads and asked any number of times.
#[derive(Clone, Debug)]
pub struct Queryable {
    tree: Rcvar,
    flat: Rcvar,
}

impl Queryable {
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut flat = Vec::new();
        let tree = tree(&snapshot.roots, 0, None, &mut flat);
        Self { tree, flat: Rcvar::new(Variable::Array(flat)) }
    }

    /// Asks the tree, or with `flatten` the list of all elements, each with `depth` and `parent`.
    pub fn query(&self, expression: &str, flatten: bool) -> Result<Value, QueryError> {
        if expression.len() > MAX_EXPRESSION {
            return Err(QueryError::TooLong { length: expression.len() });
        }
        if operators(expression) > MAX_OPERATORS {
            return Err(QueryError::TooNested);
        }
        let ast = jmespath::parse(expression).map_err(explained)?;
        if growth(&ast) > MAX_GROWTH {
            return Err(QueryError::TooMuch);
        }
        let data = if flatten { &self.flat } else { &self.tree };
        let answer = interpret(data, &ast, &mut Context::new(expression, &RUNTIME)).map_err(explained)?;
        let mut room = MAX_ANSWER;
        value(&answer, &mut room).ok_or(QueryError::TooMuch)
    }
}

fn explained(error: JmespathError) -> QueryError {
    let position = error.offset;
    match error.reason {
        ErrorReason::Parse(reason) => QueryError::Malformed { position, reason },
        ErrorReason::Runtime(reason) => QueryError::Fails { position, reason: reason.to_string() },
    }
}

/// Everything that is neither a name, nor a value, nor between two that stand side by side.
fn operators(expression: &str) -> usize {
    let mut count = 0;
    let mut quote = None;
    let mut before = ' ';
    for c in expression.chars() {
        if quote.is_some() {
            if before != '\\' && quote == Some(c) {
                quote = None;
            }
        } else if matches!(c, '\'' | '"' | '`') {
            quote = Some(c);
        } else if "([{!.*?<>@".contains(c) || ("=|&".contains(c) && c != before) {
            count += 1;
        }
        // An escaped backslash escapes nothing.
        before = if before == '\\' && c == '\\' { ' ' } else { c };
    }
    count
}

/// The tree, and into `flat` its elements one by one. Both share what the elements say.
fn tree(nodes: &[Node], depth: usize, parent: Option<&Rcvar>, flat: &mut Vec<Rcvar>) -> Rcvar {
    let mut level = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut fields = variables(node.fields());
        let reference = fields.get("ref").cloned();
        let mut alone = fields.clone();
        alone.insert("depth".to_owned(), variable(depth.into()));
        if let Some(parent) = parent {
            alone.insert("parent".to_owned(), parent.clone());
        }
        flat.push(Rcvar::new(Variable::Object(alone)));
        if !node.children.is_empty() {
            let parent = reference.as_ref().or(parent);
            fields.insert("children".to_owned(), tree(&node.children, depth + 1, parent, flat));
        }
        level.push(Rcvar::new(Variable::Object(fields)));
    }
    Rcvar::new(Variable::Array(level))
}

fn variables(fields: Map<String, Value>) -> BTreeMap<String, Rcvar> {
    fields.into_iter().map(|(name, value)| (name, variable(value))).collect()
}

fn variable(value: Value) -> Rcvar {
    Rcvar::new(match value {
        Value::Null => Variable::Null,
        Value::Bool(value) => Variable::Bool(value),
        Value::Number(value) => Variable::Number(value),
        Value::String(value) => Variable::String(value),
        Value::Array(values) => Variable::Array(values.into_iter().map(variable).collect()),
        Value::Object(fields) => Variable::Object(variables(fields)),
    })
}

/// None when there is no room for it: what is shared in an answer is written out once for each time it occurs. Loops
/// and not iterators, since answers may be deep and every level of recursion is on the stack.
fn value(variable: &Variable, room: &mut usize) -> Option<Value> {
    *room = room.checked_sub(1)?;
    match variable {
        Variable::Array(values) => {
            let mut array = Vec::with_capacity(values.len());
            for each in values {
                array.push(value(each, room)?);
            }
            Some(Value::Array(array))
        }
        Variable::Object(fields) => {
            let mut object = Map::new();
            for (name, each) in fields {
                object.insert(name.clone(), value(each, room)?);
            }
            Some(Value::Object(object))
        }
        single => Some(single_value(single)),
    }
}

fn single_value(variable: &Variable) -> Value {
    match variable {
        Variable::Bool(value) => Value::Bool(*value),
        Variable::Number(value) => Value::Number(value.clone()),
        Variable::String(value) => Value::String(value.clone()),
        _ => Value::Null,
    }
}

/// How many times an expression can make more of what it is given: lists and objects that it builds can name the
/// same thing several times, and be taken apart and built again.
fn growth(ast: &Ast) -> usize {
    let mut growth: usize = 1;
    let mut todo = vec![ast];
    while let Some(ast) = todo.pop() {
        match ast {
            Ast::Comparison { lhs, rhs, .. }
            | Ast::Projection { lhs, rhs, .. }
            | Ast::And { lhs, rhs, .. }
            | Ast::Or { lhs, rhs, .. }
            | Ast::Subexpr { lhs, rhs, .. } => todo.extend([&**lhs, &**rhs]),
            Ast::Condition { predicate, then, .. } => todo.extend([&**predicate, &**then]),
            Ast::Expref { ast: node, .. }
            | Ast::Flatten { node, .. }
            | Ast::Not { node, .. }
            | Ast::ObjectValues { node, .. } => todo.push(node),
            Ast::Function { args, .. } => todo.extend(args),
            Ast::MultiList { elements, .. } => {
                growth = growth.saturating_mul(elements.len().max(2));
                todo.extend(elements);
            }
            Ast::MultiHash { elements, .. } => {
                growth = growth.saturating_mul(elements.len().max(2));
                todo.extend(elements.iter().map(|pair| &pair.value));
            }
            Ast::Identity { .. }
            | Ast::Field { .. }
            | Ast::Index { .. }
            | Ast::Literal { .. }
            | Ast::Slice { .. } => {}
        }
    }
    growth
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    runtime.register_function("contains", Box::new(FalseForNothing(ContainsFn::new())));
    runtime.register_function("starts_with", Box::new(FalseForNothing(StartsWithFn::new())));
    runtime.register_function("ends_with", Box::new(FalseForNothing(EndsWithFn::new())));
    runtime.register_function("join", Box::new(BoundedJoin(JoinFn::new())));
    runtime
});

/// Many elements have no name. Asked whether it contains something, the answer is no instead of a failure.
struct FalseForNothing<F>(F);

impl<F: Function> Function for FalseForNothing<F> {
    fn evaluate(&self, args: &[Rcvar], ctx: &mut Context<'_>) -> SearchResult {
        match args {
            [subject, _] if subject.is_null() => Ok(Rcvar::new(Variable::Bool(false))),
            _ => self.0.evaluate(args, ctx),
        }
    }
}

/// A long string between each two of many makes more than there is memory for.
struct BoundedJoin(JoinFn);

impl Function for BoundedJoin {
    fn evaluate(&self, args: &[Rcvar], ctx: &mut Context<'_>) -> SearchResult {
        if let [glue, parts] = args
            && let (Some(glue), Some(parts)) = (glue.as_string(), parts.as_array())
            && glue.len().saturating_mul(parts.len()) > MAX_ANSWER
        {
            return Err(JmespathError::from_ctx(
                ctx,
                ErrorReason::Parse("the joined text is too long".to_owned()),
            ));
        }
        self.0.evaluate(args, ctx)
    }
}
