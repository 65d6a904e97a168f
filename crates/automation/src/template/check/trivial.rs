//! Which templates cost so little that they may render in this process: text, and `{{ dotted.path | filter(literals) }}`.

use crate::limits::{TEMPLATE_TRIVIAL_FILTERS_IN_A_ROW_MAX, TEMPLATE_TRIVIAL_FILTERS_MAX};
use crate::template::filters::FILTERS;
use minijinja::machinery::ast::{CallArg, Expr, Stmt};

pub(super) fn statements(statements: &[Stmt<'_>]) -> bool {
    let mut filters = 0;
    statements.iter().all(|statement| match statement {
        Stmt::EmitRaw(_) => true,
        Stmt::EmitExpr(emitted) => match filters_on_path(&emitted.expr) {
            Some(more) => {
                filters += more;
                filters <= TEMPLATE_TRIVIAL_FILTERS_MAX
            }
            None => false,
        },
        Stmt::Template(_)
        | Stmt::ForLoop(_)
        | Stmt::IfCond(_)
        | Stmt::WithBlock(_)
        | Stmt::Set(_)
        | Stmt::SetBlock(_)
        | Stmt::AutoEscape(_)
        | Stmt::FilterBlock(_)
        | Stmt::Do(_) => false,
    })
}

pub(super) fn alone(expression: &Expr<'_>) -> bool {
    filters_on_path(expression).is_some()
}

/// How many filters are applied to a dotted path; `None` for whatever else the expression is.
fn filters_on_path(mut expression: &Expr<'_>) -> Option<usize> {
    let mut filters = 0;
    while let Expr::Filter(filter) = expression {
        filters += 1;
        let literal = |argument: &CallArg<'_>| match argument {
            CallArg::Pos(Expr::Const(_)) | CallArg::Kwarg(_, Expr::Const(_)) => true,
            CallArg::Pos(_) | CallArg::Kwarg(..) | CallArg::PosSplat(_) | CallArg::KwargSplat(_) => false,
        };
        if filters > TEMPLATE_TRIVIAL_FILTERS_IN_A_ROW_MAX || !FILTERS.contains(&filter.name) || !filter.args.iter().all(literal) {
            return None;
        }
        expression = filter.expr.as_ref()?;
    }
    while let Expr::GetAttr(member) = expression {
        expression = &member.expr;
    }
    matches!(expression, Expr::Var(_)).then_some(filters)
}
