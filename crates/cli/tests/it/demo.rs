//! The demo plays its whole story by itself, on a real server, and leaves nothing behind.

use crate::countersign::User;

/// What the line of each chapter says, in order.
const CHAPTERS: [(&str, &[&str]); 9] = [
    ("approve", &["its refund of 240 EUR waited for a person, ran once, and has receipt #"]),
    ("deny", &["`crm.delete_customer` (R4) is denied: the mode is `deny`, inferred from the tier"]),
    ("grant", &["3 of 3 calls of the grant ran without a person; the next waited for one again, and was denied"]),
    ("drift", &["`allow` became `require_approval`: `merge_pull_request` now takes `bypass_checks`"]),
    ("automation", &["`Morning note` is saved, and fires at 09:00 on weekdays (UTC): `look` runs by itself, `tell` asks first"]),
    ("run", &["until `tell`, which waited for a person inside the run and said “Files in reports: 2”; receipts #", ", #"]),
    ("dead_letter", &["`shop.order_paid` was given up after 3 deliveries", "asked for once more, it is booked: 240.00 EUR"]),
    ("in_doubt", &["settled as succeeded by a person; posted once"]),
    ("tamper", &["entries verify; with one byte flipped, receipt `rcp_", "` (entry #", ") does not hold"]),
];

#[test]
fn the_demo_plays_by_itself_and_every_chapter_ends_as_told() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let somebody = User::new(folder.path(), &crate::fake::nobody(), None).with_variable("TMPDIR", temporary.to_str().unwrap());
    let ran = somebody.with_binary().run(&["demo", "--script"]).ok();
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), CHAPTERS.len(), "{ran:#?}");
    for (line, (chapter, words)) in lines.iter().zip(CHAPTERS) {
        assert!(line.starts_with(&format!("✓ {chapter}: ")) && words.iter().all(|words| line.contains(words)), "{line}\n{}", ran.stderr);
    }
    // The copy fails at the receipt of the first chapter, and at no other.
    let number = |line: &str, mark: &str| line.split_once(mark).and_then(|(_, rest)| rest.split(')').next()).map(str::to_owned);
    assert_eq!(number(lines[8], "(entry #"), number(lines[0], "receipt #"), "{ran:#?}");
    // Beside the chapters it says why a call was denied, by a rule and by a person, and how each step of the run ended.
    for told in
        ["why: action `crm.delete_customer` (R4) is denied", "why: a person denied the call: enough for today", "✓ look files.list #"]
    {
        assert!(ran.stderr.contains(told), "{told}\n{}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "everything of the demo is deleted");
    somebody.run(&["demo", "--dry-run"]).exits(2);
}
