//! One server for all test processes of a user: starting one takes longer than most tests.
//!
//! Every process holds a shared lock while it lives. A shell script supervises the server, and stops it when no
//! process has held the lock for 15 seconds.

use std::fs::{self, File, OpenOptions};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{KubeApi, crds, etcd_command, log_end, prepare, server_command};
use crate::free_port;
use crate::olm;

/// The programs that run with a shared API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerProgram {
    /// None: nothing acts on objects.
    Plain,
    /// Kubernetes' controllers and OLM.
    Olm,
}

/// The supervisor: starts scripts and waits until the server is unused.
///
/// `$1` is the directory, `$2` its lock, `$3` and `$4` are scripts; scripts that appear in the directory `later` are
/// started, too.
const SUPERVISOR: &str = r#"
sh "$3" >>"$1/etcd.log" 2>&1 & etcd=$!
sh "$4" >>"$1/server.log" 2>&1 & server=$!
idle=0
later=
while [ $idle -lt 15 ] && kill -0 $etcd 2>/dev/null && kill -0 $server 2>/dev/null; do
    for script in "$1"/later/*.sh; do
        if [ -e "$script" ]; then
            mv "$script" "$script.started"
            sh "$script.started" >>"$script.log" 2>&1 & later="$later $!"
        fi
    done
    sleep 1
    if flock -n -x "$2" true; then idle=$((idle + 1)); else idle=0; fi
done
exec 9<>"$2"
flock -x 9
rm -f "$1/port"
kill -9 $later $server $etcd 2>/dev/null
mv -f "$1/server.log" "$1/../server.log"
mv -f "$1/etcd.log" "$1/../etcd.log"
rm -rf "$1"
"#;

/// The locks that this process holds.
static JOINED: Mutex<Vec<(ServerProgram, File)>> = Mutex::new(Vec::new());

/// Returns the shared server with a set of programs; the first process starts both.
pub(crate) fn join(set: ServerProgram) -> KubeApi {
    join_with(set, |_| {})
}

/// Returns the shared server after `complete` has added programs; no other process starts or completes it meanwhile.
pub(crate) fn join_with(set: ServerProgram, complete: impl FnOnce(&KubeApi)) -> KubeApi {
    let name = match set {
        ServerProgram::Plain => "kube",
        ServerProgram::Olm => "olm",
    };
    let base = std::env::temp_dir().join(format!("opm-test-{name}-{}", user()));
    fs::create_dir_all(&base).expect("a directory for the server");
    let open = |name: &str| {
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(base.join(name));
        file.expect("a lock")
    };
    let mut joined = JOINED.lock().unwrap_or_else(PoisonError::into_inner);
    if !joined.iter().any(|(held, _)| *held == set) {
        let lock = open("users");
        lock.lock_shared().expect("locked");
        joined.push((set, lock));
    }
    let starting = open("starting");
    starting.lock().expect("locked");
    let directory = base.join("server");
    let api = running(&directory).unwrap_or_else(|| start(&base, directory, set));
    complete(&api);
    api
}

/// Starts a program with a shared server; it stops with the server.
pub(crate) fn start_program(api: &KubeApi, name: &str, words: &[String]) {
    let later = api.directory.join("later");
    script(&api.directory.join(name), words);
    fs::create_dir_all(&later).expect("a directory for scripts");
    fs::rename(api.directory.join(name), later.join(format!("{name}.sh"))).expect("a script");
}

fn user() -> u32 {
    fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid())
}

/// Returns the running server, if there is one.
fn running(directory: &Path) -> Option<KubeApi> {
    let port: u16 = fs::read_to_string(directory.join("port")).ok()?.parse().ok()?;
    TcpStream::connect(("127.0.0.1", port)).ok()?;
    Some(KubeApi { directory: directory.to_path_buf(), port, exclusive: None })
}

fn start(base: &Path, directory: PathBuf, set: ServerProgram) -> KubeApi {
    // Remove the files of a server that was killed with its supervisor.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory for the server");
    prepare(&directory);
    let (etcd_port, port) = (free_port(), free_port());
    script(&directory.join("etcd.sh"), &etcd_command(&directory, etcd_port));
    let mut server = server_command(&directory, etcd_port, port);
    if set == ServerProgram::Olm {
        server.extend(olm::server_flags(&directory));
    }
    script(&directory.join("server.sh"), &server);
    let mut supervisor = Command::new("setsid");
    supervisor.args(["--fork", "sh", "-c", SUPERVISOR, "keeper"]).arg(&directory).arg(base.join("users"));
    supervisor.arg(directory.join("etcd.sh")).arg(directory.join("server.sh")).current_dir("/");
    supervisor.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(supervisor.status().expect("setsid, of util-linux, runs").success(), "the supervisor does not start");
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = log_end(&directory.join("server.log"));
        assert!(start.elapsed() < super::START_TIMEOUT, "the API server does not start:\n{log}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let api = KubeApi { directory, port, exclusive: None };
    api.write_kubeconfig("admin");
    api.wait_until_ready();
    match set {
        ServerProgram::Plain => api.block_on(crds::apply),
        ServerProgram::Olm => {
            api.block_on(olm::install);
            for (name, words) in olm::programs(&api.directory, &api.kubeconfig()) {
                start_program(&api, &name, &words);
            }
        }
    }
    fs::write(api.directory.join("port"), port.to_string()).expect("the port is written");
    api
}

/// Writes a script that execs a command.
fn script(path: &Path, words: &[String]) {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    fs::write(path, format!("exec {}\n", quoted.join(" "))).expect("a script");
}
