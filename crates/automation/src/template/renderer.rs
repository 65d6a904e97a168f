//! Renders what was checked: trivial templates here, all others in a worker.

use super::Template;
use super::context::Context;
use super::engine;
use super::error::{Reason, RenderError};
use super::worker::{Answer, Form, Request};
use crate::limits::RENDER_LINE_BYTES_MAX;
use countersign_core::Future;
use serde_json::Value;
use std::sync::Arc;

/// Processes that run `worker::serve` and can be killed.
///
/// An implementation gives a request, which is one line without its end, to a process that works on nothing else, and returns the line that it
/// answers. It ends with `Time` a request that takes more than `RENDER_CPU_MS` of processor time, and with `Output` one that needs more than
/// `RENDER_MEMORY_BYTES`; in both cases the process is killed. `Unavailable` means that nothing was rendered.
pub trait Workers: Send + Sync {
    fn ask(&self, request: String) -> Future<'_, Result<String, RenderError>>;
}

/// Renders templates. A clone is cheap.
#[derive(Clone)]
pub struct Renderer(Arc<dyn Workers>);

impl Renderer {
    pub fn new(workers: Arc<dyn Workers>) -> Self {
        Self(workers)
    }

    /// A template as text.
    pub async fn render(&self, template: &Template, context: &Context) -> Result<String, RenderError> {
        if template.is_trivial {
            return engine::text(&template.source, converted(template, context));
        }
        let answer = self.ask(Form::Text, &template.source, template, context).await?;
        answer.as_str().map(str::to_owned).ok_or_else(|| unreadable(&answer))
    }

    /// A leaf of a step's config. Where its schema does not allow a string, a template that is exactly one `{{ … }}` keeps its JSON type.
    pub async fn render_value(&self, template: &Template, context: &Context, allows_string: bool) -> Result<Value, RenderError> {
        match &template.expression {
            Some(expression) if !allows_string => {
                if template.is_trivial {
                    return engine::value(expression, converted(template, context));
                }
                self.ask(Form::Value, expression, template, context).await
            }
            Some(_) | None => self.render(template, context).await.map(Value::String),
        }
    }

    /// Whether a predicate holds, as Jinja sees it: nothing, zero and what is empty do not. A string is refused.
    pub async fn evaluate_predicate(&self, predicate: &Template, context: &Context) -> Result<bool, RenderError> {
        let expression = predicate.expression.as_deref().unwrap_or(&predicate.source);
        if predicate.is_trivial {
            return engine::holds(expression, converted(predicate, context));
        }
        let answer = self.ask(Form::Predicate, expression, predicate, context).await?;
        answer.as_bool().ok_or_else(|| unreadable(&answer))
    }

    async fn ask(&self, form: Form, source: &str, template: &Template, context: &Context) -> Result<Value, RenderError> {
        let members = template.reads.iter().filter_map(|name| Some((name.as_str(), context.json(name)?))).collect();
        let request = Request { form, source, context: members };
        let request = serde_json::to_string(&request).map_err(|error| RenderError::new(Reason::Failed, error.to_string()))?;
        if request.len() > RENDER_LINE_BYTES_MAX {
            let message = format!("the data that the template reads is larger than {RENDER_LINE_BYTES_MAX} bytes");
            return Err(RenderError::new(Reason::TooLarge, message));
        }
        let answer = self.0.ask(request).await?;
        match serde_json::from_str(&answer) {
            Ok(Answer::Done(value)) => Ok(value),
            Ok(Answer::Failed(error)) => Err(error),
            Err(error) => Err(unreadable(&error)),
        }
    }
}

/// The part of the context that the template reads, as the engine takes it.
fn converted(template: &Template, context: &Context) -> minijinja::Value {
    minijinja::Value::from_pairs(template.reads.iter().filter_map(|name| Some((name.clone(), context.converted(name)?))))
}

fn unreadable(what: &dyn std::fmt::Display) -> RenderError {
    RenderError::new(Reason::Unavailable, format!("the render worker gave an answer that cannot be read: {what}"))
}
