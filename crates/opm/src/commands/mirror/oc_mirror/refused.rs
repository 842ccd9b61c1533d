//! Flags of `oc-mirror` that mean nothing here. Each is refused with what to do instead, so that nobody believes in them.

use clap::{Arg, Command};

/// A flag: its name, its letter, whether a value follows it, and what to do instead.
type Refused = (&'static str, Option<char>, bool, &'static str);

const COPY: [Refused; 8] = [
    (
        "since",
        None,
        true,
        "archives hold the whole set, and no history is kept; 'opm mirror pull --have LIST' writes volumes with what is \
         not on the other side yet",
    ),
    (
        "image-timeout",
        None,
        true,
        "an image may take as long as it needs; a connection that is silent for 60 s is replaced, and goes on where it was",
    ),
    ("force", Some('f'), false, "there is nothing to force; leave it out"),
    ("quiet", Some('q'), false, "progress is a line on stderr; 2>/dev/null hides it"),
    ("rootless-storage-path", None, true, "no container storage is used; leave it out"),
    ("ignore-release-signature", None, false, "releases of OpenShift are not mirrored; leave it out"),
    ("dir", None, true, "the directory is that of file://DIR; leave it out"),
    ("strict", None, false, "this was a flag of the first version; leave it out"),
];

const DELETE: [Refused; 2] = [
    ("force-cache-delete", None, false, "nothing is cached; leave it out"),
    (
        "delete-v1-images",
        None,
        false,
        "tags of the first version are not computed; 'opm mirror prune --list FILE' removes what a list names",
    ),
];

const ALL: [Refused; 18] = [
    (
        "cache-dir",
        None,
        true,
        "nothing is cached: blobs are kept in the directory that file://DIR names, below working-dir/set; leave it out",
    ),
    ("port", Some('p'), true, "no registry is started, so that no port is needed; leave it out"),
    (
        "registries.d",
        None,
        true,
        "put the files into ~/.config/containers/registries.d or /etc/containers/registries.d",
    ),
    ("cpu-prof", None, false, "this program writes no profiles; use perf"),
    ("mem-prof", None, false, "this program writes no profiles; use heaptrack"),
    ("tls-verify", None, false, "say --src-tls-verify or --dest-tls-verify"),
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

const CREDENTIALS: &str = "credentials of both sides come from --authfile, or from where 'podman login' puts them";
const CERTIFICATES: &str = "put certificates into /etc/containers/certs.d/HOST";

/// Takes the level of the log that is always there, and no other.
fn level(text: &str) -> Result<String, String> {
    match text {
        "info" => Ok(text.to_owned()),
        _ => Err("what happens is reported on stderr, the same at any level; leave it out".to_owned()),
    }
}

/// Adds the flags, hidden, to the command and to those below it.
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
        command = command.arg(flag.value_parser(|_: &str| Err::<String, String>((*instead).to_owned())));
    }
    command
}
