//! The throw-away mail server of `make test`, aiosmtpd (`clients/mail/server.py`), and what it has taken. All tests of a run share it, so a
//! test must use addresses that no other test uses. The names `unknown`, `later`, `full`, `silent` and `gone` before the `@` make it fail.

use std::path::PathBuf;

/// The user and the password that the server with STARTTLS accepts.
pub const LOGIN: (&str, &str) = ("countersign", "open sesame");

/// Takes mail in the clear.
#[track_caller]
pub fn plain() -> String {
    format!("smtp://127.0.0.1:{}?tls=none", port(0))
}

/// Takes mail after STARTTLS and a login. `certificates::ROOT` has signed its certificate.
#[track_caller]
pub fn secured() -> String {
    format!("smtp://127.0.0.1:{}", port(1))
}

/// A mail as the server took it.
#[derive(Clone, Debug)]
pub struct Taken {
    pub from: String,
    pub to: Vec<String>,
    pub with_login: bool,
    pub with_tls: bool,
    /// Headers and body, as they arrived.
    pub text: String,
}

/// The mails to this address, the oldest first.
#[track_caller]
pub fn to(address: &str) -> Vec<Taken> {
    let spool = PathBuf::from(crate::from_make_test("TEST_SMTP_SPOOL"));
    let files = std::fs::read_dir(spool).expect("the spool of the mail server is readable");
    let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "mail"));
    // `<process>-<number>.mail`
    files.sort_by_key(|path| path.file_stem().and_then(|stem| stem.to_str()?.rsplit_once('-')?.1.parse::<u64>().ok()));
    let mails = files.iter().map(|path| taken(&std::fs::read(path).expect("a mail in the spool is readable")));
    mails.filter(|mail| mail.to.iter().any(|to| to == address)).collect()
}

fn taken(bytes: &[u8]) -> Taken {
    let text = String::from_utf8_lossy(bytes);
    let (told, mail) = text.split_once('\n').expect("a mail in the spool begins with a line about it");
    let told: serde_json::Value = serde_json::from_str(told).expect("that line is JSON");
    let is = |name: &str| told[name] == true;
    let to = told["to"].as_array().into_iter().flatten().filter_map(|to| to.as_str()).map(str::to_owned).collect();
    Taken {
        from: told["from"].as_str().unwrap_or_default().to_owned(),
        to,
        with_login: is("login"),
        with_tls: is("tls"),
        // Long lines are broken for the way, and put together by whoever shows the mail.
        text: mail.replace("=\r\n", "").replace("=3D", "="),
    }
}

fn port(at: usize) -> u16 {
    let ports = crate::from_make_test("TEST_SMTP_PORTS");
    let port = ports.split_whitespace().nth(at).and_then(|port| port.parse().ok());
    port.expect("`TEST_SMTP_PORTS` names two ports")
}
