//! Reports of commands and their schemas.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Checks standard input against a schema file, and that the schema names every field of it.
const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator

def close(schema):
    if isinstance(schema, dict):
        if 'properties' in schema and 'additionalProperties' not in schema:
            schema['unevaluatedProperties'] = False
        for value in schema.values():
            close(value)
    elif isinstance(schema, list):
        for value in schema:
            close(value)

schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
close(schema)
for error in Draft202012Validator(schema).iter_errors(json.load(sys.stdin)):
    print(error.json_path, str(error.message)[:300])
";

/// Returns the file of the schema of a report.
pub fn report_schema(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/reports").join(format!("{name}.json"))
}

/// Asserts that a report is JSON in the form of its schema, without a field that the schema does not describe.
///
/// # Panics
/// Panics if it is not. Without the Python module jsonschema, reports that and checks nothing.
pub fn assert_report(name: &str, printed: &[u8]) {
    if !crate::python_module("jsonschema") {
        return;
    }
    let mut python = Command::new("python3")
        .args(["-c", VALIDATE])
        .arg(report_schema(name))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    python.stdin.take().expect("a pipe").write_all(printed).expect("the report is read");
    let output = python.wait_with_output().expect("python3 ends");
    let faults = String::from_utf8_lossy(&output.stdout).into_owned();
    let printed = String::from_utf8_lossy(printed);
    assert!(output.status.success() && faults.is_empty(), "report/{name}: {faults}\n{printed}");
}
