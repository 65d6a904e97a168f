//! Why a template has no result.

use serde::{Deserialize, Serialize};

/// Rendering gave nothing. It is never worth a second try with the same data, unless the reason is `Unavailable`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RenderError {
    pub reason: Reason,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    #[serde(rename = "template_syntax")]
    Syntax,
    #[serde(rename = "template_undefined")]
    Undefined,
    #[serde(rename = "template_filter_unknown")]
    FilterUnknown,
    /// The data is too large to be read.
    #[serde(rename = "template_too_large")]
    TooLarge,
    #[serde(rename = "template_time")]
    Time,
    /// The result, or what is needed on the way to it, is too large.
    #[serde(rename = "template_output")]
    Output,
    /// The data does not fit what the template does with it.
    #[serde(rename = "template_failed")]
    Failed,
    /// What was rendered is not what the action takes.
    #[serde(rename = "invalid_params")]
    Misfit,
    #[serde(rename = "when_not_boolean")]
    WhenNotBoolean,
    /// No worker could be had. Nothing was rendered, and trying again is safe.
    #[serde(rename = "template_unavailable")]
    Unavailable,
}

impl Reason {
    pub fn code(self) -> &'static str {
        match self {
            Self::Syntax => "template_syntax",
            Self::Undefined => "template_undefined",
            Self::FilterUnknown => "template_filter_unknown",
            Self::TooLarge => "template_too_large",
            Self::Time => "template_time",
            Self::Output => "template_output",
            Self::Failed => "template_failed",
            Self::Misfit => "invalid_params",
            Self::WhenNotBoolean => "when_not_boolean",
            Self::Unavailable => "template_unavailable",
        }
    }
}

impl RenderError {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    pub fn code(&self) -> &'static str {
        self.reason.code()
    }

    pub fn is_transient(&self) -> bool {
        self.reason == Reason::Unavailable
    }
}
