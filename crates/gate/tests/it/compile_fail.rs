//! What must not compile, with the compiler's own words checked.

#[test]
fn a_permit_cannot_be_forged_copied_spent_twice_or_done_without() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
