use super::*;
use testkit::certificates::{EXPIRED, FIRST, ROOT, SECOND, replace};

const NOW: &str = "2030-01-01T00:00:00Z";

fn now() -> Timestamp {
    Timestamp::parse(NOW).unwrap()
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") }
}

fn shown(tls: &Tls) -> Vec<u8> {
    tls.shown.0.read().cert[0].to_vec()
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let check = |cert: Option<&str>, key: Option<&str>, expected: &str| {
        for (name, text) in [("cert.pem", cert), ("key.pem", key)] {
            let _absent = std::fs::remove_file(folder.path().join(name));
            text.map(|text| replace(folder.path(), name, text));
        }
        let error = Tls::open(files(folder.path()), now()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    check(None, None, "cert.pem` cannot be read: No such file");
    check(Some(FIRST.cert), None, "key.pem` cannot be read: No such file");
    check(Some(""), Some(FIRST.key), "cert.pem` holds no certificate in PEM");
    check(Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), Some(FIRST.key), "cert.pem` holds no certificate in PEM");
    check(Some(FIRST.cert), Some(FIRST.cert), "key.pem` holds no private key in PEM without a passphrase");
    check(Some(FIRST.cert), Some(SECOND.key), "key.pem` is not the key of the certificate in");
    check(Some(EXPIRED.cert), Some(EXPIRED.key), "has expired: it was valid until 2021-01-01T00:00:00");
    check(Some(&"x".repeat(TLS_FILE_BYTES_MAX + 1)), Some(FIRST.key), "it is larger than");
    check(Some(&format!("{}{ROOT}", FIRST.cert)), Some(FIRST.key), "");
    assert!(Tls::open(files(folder.path()), now()).is_ok(), "the chain follows the certificate");
}

#[test]
fn a_certificate_of_the_future_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    FIRST.write(folder.path());
    let early = Timestamp::parse("2020-01-01T00:00:00Z").unwrap();
    assert!(matches!(Tls::open(files(folder.path()), early), Err(TlsError::NotYetValid { .. })));
}

#[test]
fn new_files_are_taken_and_broken_ones_leave_the_old_certificate() {
    let folder = tempfile::tempdir().unwrap();
    FIRST.write(folder.path());
    let tls = Tls::open(files(folder.path()), now()).unwrap();
    let first = shown(&tls);
    assert_eq!(tls.look(now()), Look::Unchanged);

    // Half of a renewal: the certificate is new, the key is not yet. It is refused once, not at every look.
    replace(folder.path(), "cert.pem", SECOND.cert);
    assert!(matches!(tls.look(now()), Look::Refused(TlsError::Mismatch { .. })));
    assert_eq!(tls.look(now()), Look::Unchanged);
    assert_eq!(shown(&tls), first);

    replace(folder.path(), "key.pem", SECOND.key);
    assert!(matches!(tls.look(now()), Look::Renewed(until) if until > now()));
    let second = shown(&tls);
    assert_ne!(second, first);

    EXPIRED.write(folder.path());
    assert!(matches!(tls.look(now()), Look::Refused(TlsError::Expired { .. })));
    std::fs::remove_file(folder.path().join("key.pem")).unwrap();
    assert!(matches!(tls.look(now()), Look::Refused(TlsError::Unreadable { .. })));
    assert_eq!(shown(&tls), second);
}

#[test]
fn a_pair_that_is_still_being_written_is_read_again_until_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    FIRST.write(folder.path());
    let tls = Tls::open(files(folder.path()), now()).unwrap();
    let first = shown(&tls);
    let at = std::time::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    // Written into the same file, with a clock that is too coarse to tell the halves apart: its mark stays the same.
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
    };
    let (half, rest) = SECOND.key.split_at(SECOND.key.len() / 2);
    write("cert.pem", SECOND.cert);
    write("key.pem", &format!("{half}{}", "\n".repeat(rest.len())));
    assert!(matches!(tls.look(now()), Look::Refused(_)));
    assert_eq!(tls.look(now()), Look::Unchanged, "it is said once");
    assert_eq!(shown(&tls), first);
    write("key.pem", SECOND.key);
    assert!(matches!(tls.look(now()), Look::Renewed(_)));
    assert_ne!(shown(&tls), first);
    // The old pair in its place again is no news of a refusal.
    write("cert.pem", &SECOND.cert[..SECOND.cert.len() / 2]);
    assert!(matches!(tls.look(now()), Look::Refused(TlsError::NoCertificate { .. })));
    write("cert.pem", SECOND.cert);
    assert_eq!(tls.look(now()), Look::Unchanged);
}

#[test]
fn the_end_of_a_certificate_is_told_once_and_in_time() {
    let folder = tempfile::tempdir().unwrap();
    FIRST.write(folder.path());
    let tls = Tls::open(files(folder.path()), now()).unwrap();
    let until = tls.seen.lock().until;
    assert_eq!(tls.ends_soon(now()), None);
    assert_eq!(tls.ends_soon(until.minus_seconds(TLS_WARNING_SECONDS)), Some(until));
    assert_eq!(tls.ends_soon(until), None);
}
