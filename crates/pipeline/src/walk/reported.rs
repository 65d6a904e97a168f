//! What is kept of a source's answer that the call failed: scanned, redacted and cut, as a result is.

use super::gate::caught;
use super::ground::Walk;
use super::media;
use super::record::withheld;
use super::truncate::truncate;
use crate::limits::RESULT_STORED_BYTES_MAX;
use countersign_core::Invocation;
use countersign_core::source;
use serde_json::{Value, json};

impl Walk {
    /// The answer as far as it may be shown; `None` if the error is no answer.
    pub(super) async fn reported(&self, invocation: &Invocation, error: &source::Error) -> Option<Value> {
        let content = error.reported()?;
        let findings = policy::scan_output(content);
        let (mut handed_on, unreadable) = self.take_out_of_answer(&invocation.org, &invocation.space, content).await;
        let mut caught = caught(&findings);
        caught.extend(unreadable);
        if !findings.is_empty() {
            self.label_untrusted(&invocation.org, &invocation.session, &invocation.id).await;
        }
        // An answer that the call failed has its bytes for nobody: what is stored of it is cut, and cut bytes are nothing.
        for lifted in media::take_out(&mut handed_on) {
            media::put_in(&mut handed_on, &lifted.pointer, json!({ "problem": "it is not kept, because the call failed" }));
        }
        let safe = if caught.is_empty() { policy::redact(&handed_on).value } else { withheld(&caught) };
        Some(truncate(safe, RESULT_STORED_BYTES_MAX))
    }
}
