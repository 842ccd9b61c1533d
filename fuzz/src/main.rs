//! Runs the target that `FUZZ_TARGET` names, with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::selected()(bytes));
