//! The throw-away Redis of `make test`.

/// The URL of the server. All tests of a run share it, so a test must use keys that no other test uses.
#[track_caller]
pub fn url() -> String {
    crate::from_make_test("TEST_REDIS_URL")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    #[test]
    fn the_server_answers() {
        let url = super::url();
        let address = url.strip_prefix("redis://").unwrap().trim_end_matches('/');
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
    }
}
