//! What holds for packages, without a jail.
