//! Handlers that must not compile, and handlers that must.

#[test]
fn refusals() {
    trybuild::TestCases::new().compile_fail("ui/refuse/*/*.rs");
}
