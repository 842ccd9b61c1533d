//! The hidden flags that are refused.

use clap::{Arg, Command};
use mirror::oc_mirror::refused::{ALL, COPY, DELETE, RefusedFlag};

use crate::choice::InvalidValue;

/// Accepts only the default log level, because there is no other.
fn level(text: &str) -> Result<String, InvalidValue> {
    match text {
        "info" => Ok(text.to_owned()),
        _ => Err("opm has a single log level; omit it".into()),
    }
}

/// Adds the flags, hidden, to the command and its subcommands.
pub(super) fn add(command: Command) -> Command {
    let command = command.mut_subcommand("delete", |delete| with(with(delete, &ALL), &DELETE).arg(log_level()));
    with(with(command, &ALL), &COPY).arg(log_level())
}

fn log_level() -> Arg {
    Arg::new("log-level").long("log-level").hide(true).value_name("LEVEL").value_parser(level)
}

fn with(mut command: Command, flags: &'static [RefusedFlag]) -> Command {
    for (name, letter, has_value, instead) in flags {
        let mut flag = Arg::new(*name).long(*name).hide(true).value_name("VALUE");
        flag = match has_value {
            true => flag.num_args(1),
            false => flag.num_args(0..=1).require_equals(true).default_missing_value("true"),
        };
        if let Some(letter) = letter {
            flag = flag.short(*letter);
        }
        command = command.arg(flag.value_parser(|_: &str| Err::<String, InvalidValue>((*instead).into())));
    }
    command
}
