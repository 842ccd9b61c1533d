//! The program called as `oc-mirror`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use testkit::{DockerRegistry, FakeRegistry, RegistryPlan, ResponseFault};

use crate::kit::{Kit, names};
use crate::proxy::forward;

fn oc_mirror(kit: &Kit, arguments: &[&str]) -> Output {
    command(kit, arguments).output().unwrap()
}

fn command(kit: &Kit, arguments: &[&str]) -> Command {
    let program = kit.path("oc-mirror");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_opm"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(kit.path(""))
        .env_clear()
        .env("HOME", kit.path("home"))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

#[test]
fn to_disk_from_disk_and_between_registries() {
    let Some(mut kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    let plain = ["--v2", "--src-tls-verify=false", "--dest-tls-verify=false"];
    let place = format!("file://{}", kit.path("data").display());
    let run = |kit: &Kit, words: &[&str]| oc_mirror(kit, &[&plain[..], words].concat());
    let to = format!("docker://{}", kit.to());
    // A dry run first.
    let looked = run(&kit, &["-c", &file, "--dry-run", &place]);
    assert!(looked.status.success(), "{looked:?}");
    let mapping = kit.read("data/working-dir/dry-run/mapping.txt");
    assert!(
        mapping.contains(&format!("docker://{}/ns/alpha-bundle:v2.0.0=docker://ns/alpha-bundle:v2.0.0\n", kit.host)),
        "{mapping}"
    );
    assert_eq!(kit.read("data/working-dir/dry-run/missing.txt"), mapping);
    let stored = run(&kit, &["-c", &file, &place]);
    assert!(stored.status.success(), "{stored:?}");
    assert!(names(&kit.path("data")).iter().any(|name| name.ends_with("-0001.tar")));
    let between = run(&kit, &["-c", &file, "--workspace", &place, &format!("docker://{}/direct", kit.closed.host())]);
    assert!(between.status.success(), "{between:?}");
    // An image is missing: exit code 4 for operators.
    let digest = kit.digest_of("ns/alpha:v3").unwrap();
    fs::remove_file(kit.source.as_ref().unwrap().blob_file(&digest.hex())).unwrap();
    let other = format!("file://{}", kit.path("other").display());
    assert_eq!(run(&kit, &["-c", &file, &other]).status.code(), Some(4));
    drop(kit.source.take());
    // A dry run on the closed side uses only the archives; it sends no request to the registry either.
    fs::remove_dir_all(kit.path("data/working-dir")).unwrap();
    let looked = run(&kit, &["-c", &file, "--from", &place, "--dry-run", "docker://reg.test/m"]);
    assert!(looked.status.success(), "{looked:?}");
    assert!(kit.read("data/working-dir/dry-run/mapping.txt").contains("=docker://reg.test/m/ns/alpha-bundle:v2.0.0\n"));
    assert!(kit.read("data/working-dir/cluster-resources/cs-index-v1.yaml").contains("reg.test/m/ns/index:v1"));
    let pushed = run(&kit, &["-c", &file, "--from", &place, &to]);
    assert!(pushed.status.success(), "{pushed:?}");
    assert!(names(&kit.path("data/working-dir/cluster-resources")).contains(&"cs-index-v1.yaml".to_owned()));
    assert_eq!(kit.closed_digest("m/ns/index:v1"), kit.closed_digest("direct/ns/index:v1"));
    for (words, expected) in [
        (&["--v2", "-c", "set.yaml", "docker://reg.test"][..], "--from file://DIR or --workspace"),
        (&["-c", "set.yaml", "file://x"], "add --v2"),
        (&["--v2", "-c", "set.yaml", "/x"], "expected file://DIR or docker://"),
    ] {
        let output = oc_mirror(&kit, words);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
}

#[test]
fn delete_writes_a_list_first_and_removes_the_listed_images() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n    - name: beta\n");
    kit.mirror(&["copy", &file, &kit.to()]);
    let delete = kit.read(&kit.set("d.yaml", "    - name: alpha\n"));
    let delete =
        delete.replace("ImageSetConfiguration", "DeleteImageSetConfiguration").replace("\nmirror:", "\ndelete:");
    fs::write(kit.path("delete.yaml"), delete).unwrap();
    let place = format!("file://{}", kit.path("data").display());
    let (to, plain) = (format!("docker://{}", kit.to()), ["--v2", "--src-tls-verify=false", "--dest-tls-verify=false"]);
    let run = |words: &[&str]| oc_mirror(&kit, &[&["delete"], &plain[..], words].concat());
    let generated = run(&["--generate", "-c", "delete.yaml", "--workspace", &place, &to]);
    assert!(generated.status.success(), "{generated:?}");
    let list = kit.read("data/working-dir/delete/delete-images.yaml");
    assert!(list.starts_with("apiVersion: mirror.openshift.io/v2alpha1\nitems:\n- imageName: "), "{list}");
    assert!(list.contains("type: operatorBundle\n") && list.ends_with("kind: DeleteImageList\n"), "{list}");
    let removed = run(&["--delete-yaml-file", "data/working-dir/delete/delete-images.yaml", &to]);
    assert!(removed.status.success(), "{removed:?}");
    assert!(kit.closed_digest("m/ns/alpha-bundle:v2.0.0").is_none());
    assert!(kit.closed_digest("m/ns/beta-bundle:v0.1.0").is_some() && kit.closed_digest("m/ns/index:v1").is_some());
    let elsewhere = run(&["--delete-yaml-file", "data/working-dir/delete/delete-images.yaml", "docker://reg.test/x"]);
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("not below reg.test/x"), "{elsewhere:?}");
}

#[test]
fn an_unsupported_flag_is_rejected_with_advice() {
    let Some(kit) = Kit::new() else { return };
    let (file, place) = (kit.set("set.yaml", "    - name: beta\n"), format!("file://{}", kit.path("data").display()));
    for (words, expected) in [
        (&["--since", "2026-01-01"][..], "'opm mirror pull --have LIST' writes volumes"),
        (&["--cache-dir", "/tmp/cache"], "there is no cache"),
        (&["--image-timeout", "60m"], "replaces a connection after 60 s of silence"),
        (&["--image-timeout=60m"], "replaces a connection after 60 s of silence"),
        (&["-p", "55001"], "needs no port"),
        (&["--force"], "nothing to force"),
        (&["--log-level", "debug"], "a single log level"),
        (&["--dest-creds", "user:secret"], "come from --authfile"),
        (&["--registries.d", "/x"], "/etc/containers/registries.d"),
        (&["--retry-times", "1000"], "--retry-times"),
        (&["--retry-delay", "soon"], "expected a duration such as 5s"),
        (&["--parallel-layers", "11"], "--parallel-layers"),
        (&["--authfile", "nowhere.json"], "nowhere.json: No such file"),
    ] {
        let output = oc_mirror(&kit, &[&["--v2", "-c", &file], words, &[&place]].concat());
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {messages}");
        assert!(messages.contains(expected), "{words:?}: {messages}");
        assert!(names(&kit.path("data/working-dir/set/blobs/sha256")).is_empty(), "{words:?}");
    }
    for (flag, expected) in [("--force-cache-delete", "there is no cache"), ("--delete-v1-images", "prune --list")] {
        let output = oc_mirror(&kit, &["delete", "--v2", "--generate", flag, "docker://reg.test"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
    // Flags for behaviour that always applies are accepted.
    let plain = ["--v2", "--src-tls-verify=false", "--log-level", "info", "--strict-archive", "-c", &file, &place];
    let output = oc_mirror(&kit, &plain);
    assert!(output.status.success(), "{output:?}");
    let places = ["--dry-run", "--dry-run-manifest-lists"];
    let index = kit.index("ns/many:v1", &["amd64", "arm64"]);
    let more = format!("  additionalImages: [{{name: '{}/ns/many:v1'}}]\n", kit.host);
    let other = kit.set_of("many.yaml", "v1", "    - name: beta\n", &more);
    let words = ["--v2", "--src-tls-verify=false", "-c", &other, &place];
    let output = oc_mirror(&kit, &[&words[..], &places].concat());
    assert!(output.status.success(), "{output:?}");
    let mapping = kit.read("data/working-dir/dry-run/mapping.txt");
    let children = mapping.lines().filter(|line| line.contains("/ns/many@sha256:")).count();
    assert!(children == 2 && !mapping.contains(&index.to_string()), "{mapping}");
}

#[test]
fn each_side_has_its_own_certificates_credentials_and_retries() {
    let Some(kit) = Kit::new() else { return };
    let closed = DockerRegistry::start(RegistryPlan { password: true, ..RegistryPlan::default() }).unwrap();
    let file = kit.set("set.yaml", "    - name: beta\n");
    let place = format!("file://{}", kit.path("data").display());
    let to = format!("docker://{}/m", closed.host());
    let run = |words: &[&str]| {
        let output = oc_mirror(&kit, &[&["--v2", "-c", &file, "--workspace", &place, &to], words].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // "user" and "secret" in base64.
    let auths = serde_json::json!({"auths": {closed.host(): {"auth": "dXNlcjpzZWNyZXQ="}}});
    fs::write(kit.path("auth.json"), auths.to_string()).unwrap();
    let auth = ["--authfile", "auth.json", "--retry-times", "0"];
    // Both registries have no TLS, so a side that verifies certificates is unreachable.
    let (code, messages) = run(&[&auth[..], &["--dest-tls-verify=false"]].concat());
    assert!(code != Some(0) && messages.contains(&format!("https://{}", kit.host)), "{messages}");
    let (code, messages) = run(&[&auth[..], &["--src-tls-verify=false"]].concat());
    assert!(code != Some(0) && messages.contains(&format!("https://{}", closed.host())), "{messages}");
    let loose = ["--src-tls-verify=false", "--dest-tls-verify=false"];
    let (code, messages) = run(&[&loose[..], &["--retry-times", "0"]].concat());
    assert!(code != Some(0) && messages.contains("unauthorized"), "{messages}");
    let (code, messages) = run(&[&loose[..], &auth].concat());
    assert_eq!(code, Some(0), "{messages}");
}

#[test]
fn the_command_line_sets_number_and_delay_of_retries() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: beta\n");
    let host = kit.source.as_ref().unwrap().host().to_owned();
    let conf = kit.path("registries.conf");
    for (times, delay, least) in [("2", "0", Duration::ZERO), ("3", "700ms", Duration::from_millis(1500))] {
        let host = host.clone();
        let fake = FakeRegistry::start(move |request| {
            let broken = request.path.contains("/manifests/v1");
            (if broken { ResponseFault::Status(502) } else { ResponseFault::None }, Some(forward(&host, request)))
        });
        let text = format!("[[registry]]\nprefix = {:?}\nlocation = {:?}\ninsecure = true\n", kit.host, fake.host());
        fs::write(&conf, text).unwrap();
        let place = format!("file://{}", kit.path(&format!("data-{times}")).display());
        let words =
            ["--v2", "-c", &file, "--retry-times", times, "--retry-delay", delay, "--src-tls-verify=false", &place];
        let begun = Instant::now();
        let output = command(&kit, &words).env("CONTAINERS_REGISTRIES_CONF", &conf).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        let request = fake.log().iter().filter(|request| request.path.contains("/manifests/v1")).count();
        assert_eq!(request, times.parse::<usize>().unwrap() + 1, "{output:?}");
        assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    }
}

#[test]
fn signatures_are_mirrored_on_request() {
    let Some(kit) = Kit::new() else { return };
    let digest = kit.digest_of("ns/beta:v1").unwrap();
    let signature = kit.sign("ns/beta", digest, true);
    let file = kit.set("set.yaml", "    - name: beta\n");
    kit.mirror(&["copy", &file, &kit.to()]);
    let tag = format!("m/ns/beta:sha256-{}.sig", digest.hex());
    assert_eq!(kit.closed_digest(&tag), Some(signature));
    let name = format!("docker://{}/ns/beta:sha256-{}", kit.to(), digest.hex());
    let list = format!("kind: DeleteImageList\nitems:\n- {{imageName: x, imageReference: '{name}', type: generic}}\n");
    fs::write(kit.path("list.yaml"), list).unwrap();
    let to = format!("docker://{}", kit.to());
    let words = ["delete", "--v2", "--dest-tls-verify=false", "--delete-yaml-file", "list.yaml", &to];
    let output = oc_mirror(&kit, &[&words[..], &["--delete-signatures"]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!((kit.closed_digest(&tag), kit.closed_digest("m/ns/beta:v1")), (None, None));
}
