//! The committed generated files match the code.

use std::process::Command;

fn assert_current(what: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_generate")).args([what, "--check"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn pages_and_schemas_are_up_to_date() {
    assert_current("docs");
}

#[test]
fn generated_code_is_up_to_date() {
    assert_current("codegen");
}
