//! What people decide ahead of calls: reviews, policies, and how an action stands by them.

pub(crate) mod grants;
pub(crate) mod policies;
pub(crate) mod review;
pub(crate) mod standing;
