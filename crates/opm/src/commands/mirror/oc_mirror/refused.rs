//! Flags of `oc-mirror` without a meaning here. opm refuses each of them and names the alternative, because ignoring one
//! silently would mislead the user.

use clap::{Arg, Command};

use crate::choice::InvalidValue;

/// A flag: its long name, its short name, whether it takes a value, and the alternative.
type Refused = (&'static str, Option<char>, bool, &'static str);

const COPY: [Refused; 8] = [
    (
        "since",
        None,
        true,
        "archives hold the whole set, without a history; 'opm mirror pull --have LIST' writes volumes with only the \
         blobs that the other side lacks",
    ),
    (
        "image-timeout",
        None,
        true,
        "images have no time limit; opm replaces a connection after 60 s of silence and resumes the transfer",
    ),
    ("force", Some('f'), false, "there is nothing to force; omit it"),
    ("quiet", Some('q'), false, "progress goes to stderr; 2>/dev/null hides it"),
    ("rootless-storage-path", None, true, "opm uses no container storage; omit it"),
    ("ignore-release-signature", None, false, "opm does not mirror OpenShift releases; omit it"),
    ("dir", None, true, "file://DIR defines the directory; omit it"),
    ("strict", None, false, "this is a flag of oc-mirror v1; omit it"),
];

const DELETE: [Refused; 2] = [
    ("force-cache-delete", None, false, "there is no cache; omit it"),
    (
        "delete-v1-images",
        None,
        false,
        "opm does not compute the tags of oc-mirror v1; 'opm mirror prune --list FILE' removes the images of a list",
    ),
];

const ALL: [Refused; 18] = [
    (
        "cache-dir",
        None,
        true,
        "there is no cache: the directory of file://DIR keeps blobs below working-dir/set; omit it",
    ),
    ("port", Some('p'), true, "opm starts no registry and needs no port; omit it"),
    ("registries.d", None, true, "put the files in ~/.config/containers/registries.d or /etc/containers/registries.d"),
    ("cpu-prof", None, false, "opm writes no profiles; use perf"),
    ("mem-prof", None, false, "opm writes no profiles; use heaptrack"),
    ("tls-verify", None, false, "use --src-tls-verify or --dest-tls-verify"),
    ("src-authfile", None, true, CREDENTIALS),
    ("src-creds", None, true, CREDENTIALS),
    ("src-username", None, true, CREDENTIALS),
    ("src-password", None, true, CREDENTIALS),
    ("src-registry-token", None, true, CREDENTIALS),
    ("src-cert-dir", None, true, CERTIFICATES),
    ("dest-authfile", None, true, CREDENTIALS),
    ("dest-creds", None, true, CREDENTIALS),
    ("dest-username", None, true, CREDENTIALS),
    ("dest-password", None, true, CREDENTIALS),
    ("dest-registry-token", None, true, CREDENTIALS),
    ("dest-cert-dir", None, true, CERTIFICATES),
];

const CREDENTIALS: &str = "credentials of both sides come from --authfile, or from the file that 'podman login' writes";
const CERTIFICATES: &str = "put certificates in /etc/containers/certs.d/HOST";

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

fn with(mut command: Command, flags: &'static [Refused]) -> Command {
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
