//! A container: its root directory, the volumes of its pod, and a process.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::image::Image;
use crate::kube_api::Process;

/// The port of registries in their pods.
pub(super) const PORT: u16 = 50051;
/// The path of the program under test, if the image does not have it.
const PROGRAM: &str = "/opt/opm";

/// A container to run.
pub(super) struct Container<'a> {
    /// Its spec in the pod.
    pub(super) spec: &'a Value,
    /// Its image, if available locally.
    pub(super) image: Option<&'a Image>,
    /// The directory of its pod.
    pub(super) directory: &'a Path,
    /// The program under test.
    pub(super) program: &'a Path,
    /// The port to listen on, instead of the given one.
    pub(super) port: u16,
    /// The kubeconfig and its files.
    pub(super) kubeconfig: &'a Path,
    pub(super) certificates: &'a Path,
}

fn words(value: &Value) -> Vec<String> {
    let words = value.as_array().cloned().unwrap_or_default();
    words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Container<'_> {
    fn name(&self) -> &str {
        self.spec["name"].as_str().unwrap_or_default()
    }

    fn root(&self) -> PathBuf {
        self.directory.join("roots").join(self.name())
    }

    /// Returns the log file of the container.
    pub(super) fn log(&self) -> PathBuf {
        self.directory.join(format!("{}.log", self.name()))
    }

    /// Returns the command line of the pod, or else of the image.
    fn command(&self) -> Vec<String> {
        let command = words(&self.spec["command"]);
        let arguments = words(&self.spec["args"]);
        match (command.is_empty(), arguments.is_empty(), self.image) {
            (true, true, Some(image)) => image.entrypoint.clone(),
            (true, false, Some(image)) => {
                [image.entrypoint.iter().take(1).cloned().collect::<Vec<_>>(), arguments].concat()
            }
            _ => [command, arguments].concat(),
        }
    }

    /// Starts the process of the container.
    pub(super) fn start(&self) -> Result<Process, String> {
        let root = self.root();
        match self.image {
            Some(image) => image.unpack(&root)?,
            None => std::fs::create_dir_all(&root).map_err(|error| error.to_string())?,
        }
        let mut command = self.command();
        let is_opm = |word: &String| word.rsplit('/').next() == Some("opm");
        if command.first().is_some_and(is_opm) {
            if self.image.is_none() {
                command[0] = format!("{PROGRAM}/opm");
            }
            replace_port(&mut command, self.port);
        } else if self.image.is_some() {
            // A script for a shell in the image.
            let port = self.port.to_string();
            command.iter_mut().for_each(|word| *word = word.replace(&PORT.to_string(), &port));
        }
        if command.is_empty() {
            return Err("the image names no command".into());
        }
        let script = self.script(&root, &command);
        let path = self.directory.join(format!("{}.sh", self.name()));
        std::fs::write(&path, script).map_err(|error| error.to_string())?;
        let namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh"];
        let mut line: Vec<String> = namespaces.iter().map(|word| (*word).to_owned()).collect();
        line.push(path.display().to_string());
        Ok(Process::start(&line, &self.log()))
    }

    /// Returns a script that prepares the root directory and execs the process.
    fn script(&self, root: &Path, command: &[String]) -> String {
        let mut script = format!("set -e\nroot={}\n", quoted(&root.display().to_string()));
        script += "mkdir -p $root/tmp $root/dev $root/proc $root/usr $root/root\nmount --rbind /proc $root/proc\n";
        script += "for name in null zero random urandom; do touch $root/dev/$name; \
            mount --bind /dev/$name $root/dev/$name; done\n";
        // Host programs need their libraries at the host's paths.
        let shared: &[&str] = if self.image.is_some() { &["lib", "lib64"] } else { &["lib", "lib64", "bin", "sbin"] };
        for name in shared {
            let _ = writeln!(
                script,
                "if [ -L /{name} ]; then [ -e $root/{name} ] || ln -s $(readlink /{name}) $root/{name}; \
                 elif [ -d /{name} ]; then mkdir -p $root/{name}; mount --rbind /{name} $root/{name}; fi\n\
                 if [ -d /usr/{name} ] && [ ! -L /usr/{name} ]; then mkdir -p $root/usr/{name}; \
                 mount --rbind /usr/{name} $root/usr/{name}; fi"
            );
        }
        let program = quoted(&self.program.display().to_string());
        match self.image {
            Some(_) => {
                let _ = writeln!(script, "if [ -e $root/bin/opm ]; then mount --bind {program} $root/bin/opm; fi");
            }
            None => {
                let _ = writeln!(
                    script,
                    "mkdir -p $root{PROGRAM} $root/etc\ntouch $root{PROGRAM}/program\n\
                     mount --bind {program} $root{PROGRAM}/program\ncat >$root{PROGRAM}/opm <<'END'\n{}END\n\
                     chmod +x $root{PROGRAM}/opm",
                    self.wrapper()
                );
            }
        }
        for mount in self.spec["volumeMounts"].as_array().into_iter().flatten() {
            let text = |key: &str| mount[key].as_str().unwrap_or_default();
            let volume = self.directory.join("volumes").join(text("name")).join(text("subPath"));
            let (volume, path) = (quoted(&volume.display().to_string()), quoted(text("mountPath")));
            let _ = writeln!(script, "mkdir -p {volume} $root{path}\nmount --rbind {volume} $root{path}");
        }
        for directory in [Some(self.certificates), self.kubeconfig.parent()].into_iter().flatten() {
            let directory = quoted(&directory.display().to_string());
            let _ = writeln!(script, "mkdir -p $root{directory}\nmount --bind {directory} $root{directory}");
        }
        let mut settings = vec![
            format!("PATH={PROGRAM}:/usr/local/bin:/usr/bin:/bin"),
            "HOME=/root".to_owned(),
            format!("KUBECONFIG={}", self.kubeconfig.display()),
        ];
        for setting in self.spec["env"].as_array().into_iter().flatten() {
            let text = |key: &str| setting[key].as_str().unwrap_or_default();
            settings.push(format!("{}={}", text("name"), text("value")));
        }
        let words: Vec<String> = settings.iter().chain(command).map(|word| quoted(word)).collect();
        let (settings, command) = words.split_at(settings.len());
        let _ = writeln!(script, "exec env -i {} $(command -v chroot) $root {}", settings.join(" "), command.join(" "));
        script
    }

    /// Returns a wrapper that listens on another port than the given one, because all pods share the host's ports.
    fn wrapper(&self) -> String {
        format!(
            "#!/bin/sh\nport=\ncount=$#\nwhile [ $count -gt 0 ]; do\n  word=$1; shift; count=$((count - 1))\n  \
             if [ \"$word\" = {PORT} ]; then word={0}; port={0}; fi\n  set -- \"$@\" \"$word\"\ndone\n\
             if [ \"$1\" = serve ] && [ -z \"$port\" ]; then set -- \"$@\" -p {0}; fi\n\
             exec {PROGRAM}/program \"$@\"\n",
            self.port
        )
    }
}

/// Replaces the port that a command listens on.
fn replace_port(command: &mut Vec<String>, port: u16) {
    let given = PORT.to_string();
    match command.iter().position(|word| *word == given) {
        Some(at) => command[at] = port.to_string(),
        None if command.get(1).is_some_and(|word| word == "serve") => {
            command.extend(["-p".to_owned(), port.to_string()]);
        }
        None => {}
    }
}
