//! Recorded results of the existing tools, one test for each file of `fixtures/recorded`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use testkit::Recorded;

const OPM: &str = env!("CARGO_BIN_EXE_opm");

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recorded");
    let cases = cases(&root);
    assert!(cases.len() > 300, "{} cases", cases.len());
    let mut trials: Vec<Trial> = cases
        .iter()
        .map(|(name, path)| {
            Trial::test(name, {
                let path = path.clone();
                move || check(&path)
            })
        })
        .collect();
    trials.push(Trial::test("every_rule_has_a_case", move || every_rule_has_a_case(&cases)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Returns the cases by their names: area and file.
fn cases(root: &Path) -> Vec<(String, PathBuf)> {
    let list = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).expect("a directory");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let areas = list(root).into_iter().filter(|path| path.is_dir());
    areas
        .flat_map(|area| {
            list(&area).into_iter().map(|path| (format!("{}::{}", name(&area), name(&path)), path)).collect::<Vec<_>>()
        })
        .collect()
}

fn read(path: &Path) -> Result<Recorded, Failed> {
    let text = fs::read_to_string(path)?;
    Ok(Recorded::parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))?)
}

fn check(path: &Path) -> Result<(), Failed> {
    let (wrong, _) = read(path)?.run(Path::new(OPM));
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}:\n{}", path.display(), wrong.join("\n")).into()) }
}

/// No recorded package has neither channels nor a default channel: with a default channel, the existing tools report that
/// this one is empty.
const WITHOUT_CASE: [&str; 1] = ["package-has-channels"];

/// Every rule of `opm validate` is reported for a recorded catalog: the existing tools reject it too.
fn every_rule_has_a_case(cases: &[(String, PathBuf)]) -> Result<(), Failed> {
    let validated: Vec<&PathBuf> =
        cases.iter().filter(|(name, _)| name.starts_with("fbc-validate::")).map(|(_, path)| path).collect();
    let messages = |path: &&PathBuf| read(path).map(|case| case.run(Path::new(OPM)).1);
    let messages: Vec<String> = validated.par_iter().map(messages).collect::<Result<_, Failed>>()?;
    let lines = messages.iter().flat_map(|text| text.lines());
    let reported: BTreeSet<&str> =
        lines.filter_map(|line| line.strip_suffix(']')?.rsplit_once(" [")).map(|(_, name)| name).collect();
    let rules: BTreeSet<&str> = catalog::rules::RULES.iter().map(|rule| rule.name).collect();
    let missing: Vec<&str> = rules.into_iter().filter(|rule| !reported.contains(*rule)).collect();
    if missing == WITHOUT_CASE { Ok(()) } else { Err(format!("no recorded case shows {missing:?}").into()) }
}
