//! Reads a template when its definition is saved: what is not on the list is refused here, because the engine would notice it only when it
//! renders, if at all.
//!
//! The source is parsed and walked, never compiled: compiling computes constants, and a constant can be as large as a bomb.

mod trivial;
mod walk;

use super::{Names, Template};
use crate::Mistake;
use crate::limits::{TEMPLATE_BRANCHES_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_TAG_TOKENS_MAX};
use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{Token, parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use walk::Walk;

/// Reads a leaf of a step's config. All mistakes are told at once, unless the source cannot be parsed.
pub fn check(source: &str, names: &Names) -> Result<Template, Vec<Mistake>> {
    may_be_parsed(source, false)?;
    let root = parse(source, "template", SyntaxConfig::default()).map_err(|error| syntax(&error))?;
    let statements = if let Stmt::Template(template) = &root { template.children.as_slice() } else { std::slice::from_ref(&root) };
    let mut walk = Walk::new(names);
    walk.statements(statements);
    let expression = match statements {
        [Stmt::EmitExpr(_)] => between_braces(source),
        _ => None,
    };
    let is_trivial = trivial::statements(statements);
    let reads = walk.end()?;
    Ok(Template { source: source.to_owned(), expression: expression.map(str::to_owned), is_trivial, reads })
}

/// Reads the `when` of a step: `{{ expression }}`, or the expression alone.
pub fn check_predicate(source: &str, names: &Names) -> Result<Template, Vec<Mistake>> {
    may_be_large(source)?;
    let trimmed = source.trim();
    let expression = between_braces(trimmed).unwrap_or(trimmed);
    may_be_parsed(expression, true)?;
    let root: Expr<'_> = parse_expr(expression).map_err(|error| {
        let hint = "a condition is one expression: `{{ inputs.count > 0 }}` or `inputs.count > 0`";
        syntax(&error).into_iter().map(|mistake| mistake.hint(hint)).collect::<Vec<_>>()
    })?;
    if let Expr::Const(constant) = &root
        && constant.value.as_str().is_some()
    {
        let mistake = Mistake::new("when_not_boolean", "the condition is a string, which is neither true nor false");
        return Err(vec![mistake.hint("write an expression: `inputs.state == 'open'`")]);
    }
    let mut walk = Walk::new(names);
    walk.expression(&root);
    let is_trivial = trivial::alone(&root);
    let reads = walk.end()?;
    Ok(Template { source: source.to_owned(), expression: Some(expression.trim().to_owned()), is_trivial, reads })
}

/// The inside of a text that is one `{{ … }}`.
fn between_braces(source: &str) -> Option<&str> {
    let inside = source.strip_prefix("{{")?.strip_suffix("}}")?;
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside);
    Some(inside.strip_suffix(['-', '+']).unwrap_or(inside).trim())
}

fn may_be_large(source: &str) -> Result<(), Vec<Mistake>> {
    if source.len() <= TEMPLATE_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the template has {} bytes, and may have {TEMPLATE_BYTES_MAX}", source.len());
    Err(vec![Mistake::new("template_too_large", message).hint("put the data into an input, and leave only its frame in the template")])
}

/// Refuses what would use up the parser's stack, or the walk's: it bounds brackets by itself, but not chains.
fn may_be_parsed(source: &str, is_expression: bool) -> Result<(), Vec<Mistake>> {
    may_be_large(source)?;
    let (mut in_tag, mut branches) = (0, 0);
    for token in tokenize(source, is_expression, SyntaxConfig::default()) {
        let (token, _) = token.map_err(|error| syntax(&error))?;
        let is_edge =
            matches!(token, Token::TemplateData(_) | Token::VariableStart | Token::VariableEnd | Token::BlockStart | Token::BlockEnd);
        in_tag = if is_edge { 0 } else { in_tag + 1 };
        if let Token::Ident("elif") = token {
            branches += 1;
        }
        if in_tag > TEMPLATE_TAG_TOKENS_MAX {
            let message = format!("one tag has more than {TEMPLATE_TAG_TOKENS_MAX} words and signs");
            return Err(vec![Mistake::new("template_syntax", message).hint("split it with `{% set %}`")]);
        }
        if branches > TEMPLATE_BRANCHES_MAX {
            let message = format!("the template has more than {TEMPLATE_BRANCHES_MAX} branches");
            return Err(vec![Mistake::new("template_syntax", message)]);
        }
    }
    Ok(())
}

fn syntax(error: &minijinja::Error) -> Vec<Mistake> {
    let what = error.detail().unwrap_or("it cannot be read");
    let message = error.line().map_or_else(|| what.to_owned(), |line| format!("{what} (line {line})"));
    vec![Mistake::new("template_syntax", message)]
}

#[cfg(test)]
mod tests;
