//! Help at the command line. What it says is compared with committed files where it is laid out, in `args/help.rs`.

use crate::countersign::User;

#[test]
fn help_by_word_is_help_by_flag() {
    for command in [vec![], vec!["inbox"], vec!["action", "invoke"]] {
        let by_word = nobody().run(&[vec!["help"], command.clone()].concat()).ok().stdout;
        let by_flag = nobody().run(&[command, vec!["--help"]].concat()).ok().stdout;
        assert_eq!(by_word.trim_end(), by_flag.trim_end());
    }
    nobody().run(&["help", "nonsense"]).exits(2);
}

#[test]
fn exit_codes_have_their_own_page() {
    let page = nobody().run(&["help", "exit-codes"]).ok().stdout;
    let codes: Vec<_> = page.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(codes, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "130"]);
}

fn nobody() -> User {
    User::new(&std::env::temp_dir(), &crate::fake::nobody(), None)
}
