//! What only the expansion of `#[idempotent]` names.

/// The type of a return that never happens.
///
/// The expansion writes `if false { return never(); }` as the first statement of the body's block. It tells the
/// compiler what the body returns, so that a mistake in the body is reported as in the plain function.
#[must_use]
pub fn never<T>() -> T {
    loop {
        std::thread::park();
    }
}
