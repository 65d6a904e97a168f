//! Explains the first record that does not verify: where it is, what that means, and what to do about it.

use crate::shared::*;
use receipt::verify::{Class, Finding};

/// `entries` is the number of entries that were verified, and `line` the last line that was read.
pub(super) fn failure(finding: &Finding, entries: u64, line: u64) -> Failure {
    let class = Class::ALL.into_iter().find(|class| class.number() == finding.class);
    let meaning = class.map_or("it is not what was signed", meaning);
    let message = format!("{} does not hold: {}", subject(finding, class, line), reason(&finding.reason));
    let cause = format!("{meaning} (`{}`, class {} of what can be wrong); {}", finding.name, finding.class, holds(finding, class, entries));
    Failure::failed(message).cause(cause).hint(class.map_or(COMPARE, hint))
}

const COMPARE: &str = "compare with another copy of the log";

fn subject(finding: &Finding, class: Option<Class>, line: u64) -> String {
    let place = finding.seq.map(|seq| format!(" (entry #{seq})")).unwrap_or_default();
    match (&finding.receipt_id, &finding.invocation_id, finding.seq) {
        (Some(receipt), _, _) => format!("receipt `{receipt}`{place}"),
        (None, Some(invocation), _) => format!("the record of `{invocation}`{place}"),
        (None, None, Some(seq)) => format!("entry #{seq}"),
        // A line that cannot be parsed has no position in the log, only one in the file.
        (None, None, None) if is_of_line(class) => format!("line {line}"),
        (None, None, None) => "the log".to_owned(),
    }
}

const fn is_of_line(class: Option<Class>) -> bool {
    matches!(class, Some(Class::NotCanonical | Class::UnknownShape | Class::Unreadable))
}

/// Removes the line number from a parser's message. Each line is parsed on its own, so the number would always be 1; the message names the
/// real line already.
fn reason(text: &str) -> String {
    let text = text.strip_prefix("a line of the bundle: ").unwrap_or(text);
    text.replace(" at line 1 column ", " at column ")
}

fn holds(finding: &Finding, class: Option<Class>, entries: u64) -> String {
    if finding.seq.is_none() && !is_of_line(class) {
        // The finding is about the log as a whole, so no statement is made about single entries.
        return format!("{} read", counted(entries, "entry was", "entries were"));
    }
    match (entries, finding.seq.is_some_and(|seq| seq < entries)) {
        (0, _) => "nothing stands before it".to_owned(),
        // The finding came after all entries were read, so the entries themselves are as they were signed.
        (1, true) => "the one entry there is was signed as it stands".to_owned(),
        (entries, true) => format!("all {entries} entries there are were signed as they stand"),
        (1, false) => "the one entry before it holds".to_owned(),
        (entries, false) => format!("the {} before it hold", counted(entries, "entry", "entries")),
    }
}

const fn meaning(class: Class) -> &'static str {
    match class {
        Class::EditedBody => "somebody changed it after it was signed",
        Class::SwappedPayload => "the content of another entry was put in its place",
        Class::WrongKey => "it was not signed by the key that may sign here",
        Class::LaxSignature => "its signature or its key is not in the one form that is accepted",
        Class::DeletedEntry => "an entry was taken out",
        Class::InsertedOrReordered => "an entry was put in, or stands in another place than it was written",
        Class::Duplicate => "it stands in the log twice",
        Class::TruncatedTail => "the end is missing",
        Class::ForgedRoot => "a checkpoint does not fit the entries it covers",
        Class::ForkOrRollback => "it does not go on from what was signed before: earlier entries were rewritten or removed",
        Class::OtherLog => "it belongs to another log",
        Class::TimeBackwards => "its time lies before that of what came before it",
        Class::UnpairedOutcome => "an effect and its announcement do not belong together",
        Class::EffectDespiteDenial => "it had an effect that nobody allowed",
        Class::DecisionNotReproduced => "the decision does not follow from the rules in the log",
        Class::ArtifactDiffers => "what it produced is not what was recorded",
        Class::NotCanonical => "it is not written in the one way in which it is signed",
        Class::UnknownShape => "it has a form that this version does not know",
        Class::KeyReused => "one idempotency key answered for two different calls",
        Class::UnpairedEvent => "an event and its receipt do not belong together",
        Class::Unreadable => "it cannot be read",
    }
}

const fn hint(class: Class) -> &'static str {
    match class {
        Class::WrongKey => {
            "is the key that of this log's beginning? its server gives it with `countersign receipt key`, and keeps it as receipt.pub in its data folder"
        }
        Class::TruncatedTail => "write it again with `countersign receipt export FILE`, or compare with another copy of the log",
        Class::NotCanonical | Class::UnknownShape | Class::Unreadable => {
            "write it again with `countersign receipt export FILE`, and check it with the version that wrote it"
        }
        Class::ForkOrRollback => {
            "is the file older than the checkpoint? write it again with `countersign receipt export FILE`; if that does not hold either, compare with another copy of the log"
        }
        Class::EditedBody
        | Class::SwappedPayload
        | Class::LaxSignature
        | Class::DeletedEntry
        | Class::InsertedOrReordered
        | Class::Duplicate
        | Class::ForgedRoot
        | Class::OtherLog
        | Class::TimeBackwards
        | Class::UnpairedOutcome
        | Class::EffectDespiteDenial
        | Class::DecisionNotReproduced
        | Class::ArtifactDiffers
        | Class::KeyReused
        | Class::UnpairedEvent => COMPARE,
    }
}
