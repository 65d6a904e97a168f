//! Rules that people set before calls are made: reviews and policies, and the current state of an action under them.

pub(crate) mod grants;
pub(crate) mod observe;
pub(crate) mod policies;
pub(crate) mod review;
pub(crate) mod standing;
