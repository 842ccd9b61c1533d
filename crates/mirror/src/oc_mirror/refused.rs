//! Flags of `oc-mirror` without a meaning here. opm refuses each of them and names the alternative, because ignoring one
//! silently would mislead the user.

/// A flag: its long name, its short name, whether it takes a value, and the alternative.
pub type RefusedFlag = (&'static str, Option<char>, bool, &'static str);

/// Flags of the command without a subcommand.
pub const COPY: [RefusedFlag; 8] = [
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

/// Flags of `delete`.
pub const DELETE: [RefusedFlag; 2] = [
    ("force-cache-delete", None, false, "there is no cache; omit it"),
    (
        "delete-v1-images",
        None,
        false,
        "opm does not compute the tags of oc-mirror v1; 'opm mirror prune --list FILE' removes the images of a list",
    ),
];

/// Flags of both.
pub const ALL: [RefusedFlag; 18] = [
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
