//! Walks a syntax tree, with the names that are bound at each place.

use crate::Mistake;
use crate::template::filters::{self, FILTERS};
use crate::template::kinds::TESTS;
use crate::template::names::{self, Names};
use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{Call, CallArg, CallType, Expr, Filter, Stmt};
use std::collections::BTreeSet;

const UNDEFINED: &str = "template_undefined";
const UNKNOWN: &str = "template_filter_unknown";
const SYNTAX: &str = "template_syntax";

/// The members of `loop`.
const LOOP: [&str; 9] = ["index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"];

pub(super) struct Walk<'n> {
    names: &'n Names,
    /// The variables that the template binds, the innermost scope last.
    scopes: Vec<BTreeSet<String>>,
    reads: BTreeSet<String>,
    mistakes: Vec<Mistake>,
}

impl<'n> Walk<'n> {
    pub(super) fn new(names: &'n Names) -> Self {
        Self { names, scopes: vec![BTreeSet::new()], reads: BTreeSet::new(), mistakes: vec![] }
    }

    /// The members of the context that are read, or all that is wrong.
    pub(super) fn end(self) -> Result<BTreeSet<String>, Vec<Mistake>> {
        if self.mistakes.is_empty() { Ok(self.reads) } else { Err(self.mistakes) }
    }

    pub(super) fn statements(&mut self, statements: &[Stmt<'_>]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitRaw(_) => {}
            Stmt::EmitExpr(emitted) => self.expression(&emitted.expr),
            Stmt::ForLoop(for_loop) => {
                self.expression(&for_loop.iter);
                self.scopes.push(BTreeSet::new());
                self.bind(&for_loop.target);
                if let Some(filter) = &for_loop.filter_expr {
                    self.expression(filter);
                }
                self.bind_name("loop");
                self.statements(&for_loop.body);
                self.scopes.pop();
                self.statements(&for_loop.else_body);
            }
            Stmt::IfCond(condition) => {
                self.expression(&condition.expr);
                self.statements(&condition.true_body);
                self.statements(&condition.false_body);
            }
            Stmt::WithBlock(with) => {
                self.scopes.push(BTreeSet::new());
                for (target, value) in &with.assignments {
                    self.expression(value);
                    self.bind(target);
                }
                self.statements(&with.body);
                self.scopes.pop();
            }
            Stmt::Set(set) => {
                self.expression(&set.expr);
                self.bind(&set.target);
            }
            Stmt::SetBlock(set) => {
                self.statements(&set.body);
                if let Some(filter) = &set.filter {
                    self.expression(filter);
                }
                self.bind(&set.target);
            }
            Stmt::FilterBlock(block) => {
                self.statements(&block.body);
                self.expression(&block.filter);
            }
            Stmt::AutoEscape(block) => {
                self.mistake(block.span(), SYNTAX, "there is no `autoescape`: nothing is escaped".to_owned(), None);
                self.statements(&block.body);
            }
            Stmt::Do(done) => self.call(&done.call, done.span()),
        }
    }

    pub(super) fn expression(&mut self, expression: &Expr<'_>) {
        match expression {
            Expr::Const(_) => {}
            Expr::Var(variable) => self.read(variable.id, variable.span()),
            Expr::GetAttr(member) => {
                self.expression(&member.expr);
                self.member(&member.expr, member.name, member.span());
            }
            Expr::GetItem(item) => {
                self.expression(&item.expr);
                self.expression(&item.subscript_expr);
                if let Expr::Const(constant) = &item.subscript_expr
                    && let Some(name) = constant.value.as_str()
                {
                    self.member(&item.expr, name, item.span());
                }
            }
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                for bound in [&slice.start, &slice.stop, &slice.step].into_iter().flatten() {
                    self.expression(bound);
                }
            }
            Expr::UnaryOp(operation) => self.expression(&operation.expr),
            Expr::BinOp(operation) => {
                self.expression(&operation.left);
                self.expression(&operation.right);
            }
            Expr::Compare(comparison) => {
                self.expression(&comparison.expr);
                for operation in &comparison.ops {
                    self.expression(&operation.expr);
                }
            }
            Expr::IfExpr(condition) => {
                self.expression(&condition.test_expr);
                self.expression(&condition.true_expr);
                if let Some(otherwise) = &condition.false_expr {
                    self.expression(otherwise);
                }
            }
            Expr::Filter(filter) => self.filter(filter, filter.span()),
            Expr::Test(test) => {
                self.expression(&test.expr);
                if !TESTS.contains(&test.name) {
                    self.unknown("test", test.name, TESTS, test.span());
                } else if !test.args.is_empty() {
                    self.mistake(test.span(), SYNTAX, format!("the test `{}` takes no argument", test.name), None);
                }
                self.arguments(&test.args);
            }
            Expr::Call(call) => self.call(call, call.span()),
            Expr::List(list) => list.items.iter().for_each(|item| self.expression(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.expression(item)),
            Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(|item| self.expression(item)),
        }
    }

    fn filter(&mut self, filter: &Filter<'_>, span: Span) {
        if let Some(value) = &filter.expr {
            self.expression(value);
        }
        if FILTERS.contains(&filter.name) {
            self.given(filter, span);
        } else {
            self.unknown("filter", filter.name, FILTERS, span);
        }
        self.arguments(&filter.args);
    }

    /// Refuses arguments with which the filter would fail, whatever it is applied to.
    fn given(&mut self, filter: &Filter<'_>, span: Span) {
        let (needed, takes) = filters::takes(filter.name);
        let (mut places, mut named) = (0, Vec::new());
        for argument in &filter.args {
            let (at, value) = match argument {
                CallArg::Pos(value) => (places, value),
                CallArg::Kwarg(name, value) => {
                    let Some(at) = takes.iter().position(|(known, _)| known == name) else {
                        let hint = names::hint(name, takes.iter().map(|(known, _)| *known));
                        self.mistake(span, SYNTAX, format!("`{}` has no argument `{name}`", filter.name), Some(hint));
                        continue;
                    };
                    named.push(at);
                    (at, value)
                }
                // What it spreads is known when it renders.
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => return,
            };
            places += usize::from(matches!(argument, CallArg::Pos(_)));
            let misfit = literal(value).zip(takes.get(at)).and_then(|(value, (name, takes))| takes.accepts(name, &value).err());
            if let Some(misfit) = misfit.as_ref().and_then(minijinja::Error::detail) {
                self.mistake(span, SYNTAX, misfit.to_owned(), None);
            }
        }
        if places > takes.len() {
            let most = takes.len();
            self.mistake(span, SYNTAX, format!("`{}` takes {most} arguments at most, not {places}", filter.name), None);
        }
        if (0..needed).any(|at| at >= places && !named.contains(&at)) {
            let all = takes.iter().take(needed).map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
            self.mistake(span, SYNTAX, format!("`{}` needs {all}", filter.name), None);
        }
    }

    fn call(&mut self, call: &Call<'_>, span: Span) {
        let named = match call.identify_call() {
            CallType::Function(name) => Some(("function", name)),
            CallType::Method(of, name) => {
                self.expression(of);
                Some(("method", name))
            }
            CallType::Object(of) => {
                self.expression(of);
                None
            }
        };
        let (message, hint) = match named {
            Some((what, name)) if FILTERS.contains(&name) => {
                (format!("there is no {what} `{name}`"), format!("use the filter: `| {name}`"))
            }
            Some((what, name)) => (format!("there is no {what} `{name}`"), names::hint(name, FILTERS)),
            None => ("a value cannot be called".to_owned(), "templates have filters, and no functions".to_owned()),
        };
        self.mistake(span, UNKNOWN, message, Some(hint));
        self.arguments(&call.args);
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>]) {
        for argument in arguments {
            match argument {
                CallArg::Pos(value) | CallArg::Kwarg(_, value) | CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
                    self.expression(value);
                }
            }
        }
    }

    fn read(&mut self, name: &str, span: Span) {
        // A name that a branch binds may still be the context's where the branch is not taken.
        if self.names.has(name) {
            self.reads.insert(name.to_owned());
            return;
        }
        if self.is_bound(name) {
            return;
        }
        let bound: BTreeSet<&str> = self.names.all().chain(self.scopes.iter().flatten().map(String::as_str)).collect();
        let hint = names::hint(name, bound);
        self.mistake(span, UNDEFINED, format!("there is no `{name}` here"), Some(hint));
    }

    fn is_bound(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains(name))
    }

    /// A member of a value: `value.name` or `value['name']`.
    fn member(&mut self, of: &Expr<'_>, name: &str, span: Span) {
        if name.starts_with('_') {
            self.mistake(span, SYNTAX, format!("`{name}` begins with `_`, and such members cannot be read"), None);
            return;
        }
        let Some(path) = dotted(of) else { return };
        let known = match path.as_slice() {
            ["loop"] if self.is_bound("loop") => Some(LOOP.to_vec()),
            [first, ..] if self.is_bound(first) => None,
            path => self.names.members(path),
        };
        if let Some(known) = known
            && !known.contains(&name)
        {
            let (path, hint) = (path.join("."), names::hint(name, known.iter().copied()));
            self.mistake(span, UNDEFINED, format!("`{path}` has no `{name}`"), Some(hint));
        }
    }

    fn bind(&mut self, target: &Expr<'_>) {
        if let Expr::Var(variable) = target {
            self.bind_name(variable.id);
        } else if let Expr::List(list) = target {
            list.items.iter().for_each(|item| self.bind(item));
        } else {
            self.mistake(target.span(), SYNTAX, "only a name can be set".to_owned(), None);
        }
    }

    fn bind_name(&mut self, name: &str) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned());
        }
    }

    fn unknown<const N: usize>(&mut self, what: &str, name: &str, known: [&str; N], span: Span) {
        self.mistake(span, UNKNOWN, format!("there is no {what} `{name}`"), Some(names::hint(name, known)));
    }

    fn mistake(&mut self, span: Span, code: &'static str, message: String, hint: Option<String>) {
        let mistake = Mistake::new(code, format!("{message} (line {})", span.start_line));
        self.mistakes.push(match hint {
            Some(hint) => mistake.hint(hint),
            None => mistake,
        });
    }
}

/// A constant, or one with a sign. Larger expressions are not computed here: they could be as large as a bomb.
fn literal(expression: &Expr<'_>) -> Option<Value> {
    let constant = if let Expr::UnaryOp(signed) = expression { &signed.expr } else { expression };
    matches!(constant, Expr::Const(_)).then(|| expression.as_const()).flatten()
}

/// The names of a dotted path: `run.error` as `run` and `error`.
fn dotted<'a>(mut expression: &Expr<'a>) -> Option<Vec<&'a str>> {
    let mut path = vec![];
    while let Expr::GetAttr(member) = expression {
        path.push(member.name);
        expression = &member.expr;
    }
    let Expr::Var(variable) = expression else { return None };
    path.push(variable.id);
    path.reverse();
    Some(path)
}
