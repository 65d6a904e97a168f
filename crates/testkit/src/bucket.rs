//! The throw-away server of `make test` that speaks S3, moto (`clients/artifacts/server.py`). All tests of a run share its bucket, so a test
//! must use a prefix that no other test uses.

/// The bucket that it has.
pub const NAME: &str = "countersign-test";

/// Where it is.
#[track_caller]
pub fn endpoint() -> String {
    crate::from_make_test("TEST_S3_ENDPOINT")
}
