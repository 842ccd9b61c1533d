//! Explanations as text.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use super::{ExplainedProblem, ExplainedSource, Explanation};

impl Display for Explanation {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        line(out, "image", &self.reference)?;
        let settings = match (self.registries_conf.as_slice(), &self.rule) {
            ([], _) => "none".to_owned(),
            (files, None) => format!("{}; none is about this image", paths(files)),
            (files, Some(rule)) => format!("{}; this image is meant in {}", paths(files), rule.display()),
        };
        line(out, "settings", &settings)?;
        let policy = self.policy.as_deref().map(Path::display);
        line(
            out,
            "policy",
            &policy.map_or_else(|| "none, so that all images are allowed".to_owned(), |it| it.to_string()),
        )?;
        if !self.signatures.is_empty() {
            let (kinds, reference) = (self.signatures.join(", "), &self.reference);
            line(out, "signatures", &format!("{kinds}; opm verify {reference} checks them"))?;
        }
        problem(out, self.problem.as_ref())?;
        for place in &self.places {
            writeln!(out)?;
            write_place(out, place)?;
        }
        Ok(())
    }
}

fn write_place(out: &mut Formatter<'_>, place: &ExplainedSource) -> fmt::Result {
    line(out, if place.mirror { "mirror" } else { "registry" }, &place.reference)?;
    let plain = place.address.starts_with("http:");
    let checked = match (plain, place.verified) {
        (true, _) => "without TLS",
        (false, true) => "its certificate is checked",
        (false, false) => "its certificate is not checked",
    };
    line(out, "address", &format!("{}, {checked}", place.address))?;
    line(out, "proxy", place.proxy.as_deref().unwrap_or("none"))?;
    if !plain {
        let own = &place.certificates;
        let host = match &own.directory {
            None => format!("none for this host in {}", paths(&own.searched)),
            Some(directory) => {
                let ours = own.ours.as_ref().map(|path| format!("; we show {}", path.display())).unwrap_or_default();
                format!("{} for this host in {}{ours}", own.authorities.len(), directory.display())
            }
        };
        line(out, "certificates", &format!("{} known everywhere; {host}", own.roots))?;
    }
    let credentials = match &place.credentials {
        None => format!("none in {}", paths(&place.searched)),
        Some(used) => {
            let helper =
                used.helper.as_ref().map(|name| format!(", from docker-credential-{name}")).unwrap_or_default();
            format!("{} of {:?} in {}{helper}", used.kind, used.key, used.file.display())
        }
    };
    line(out, "credentials", &credentials)?;
    if let (Some(status), Some(asks_for)) = (place.status, &place.asks_for) {
        line(out, "answer", &format!("status {status}; it asks for {asks_for}"))?;
    }
    if let (Some(digest), Some(media_type)) = (&place.digest, &place.media_type) {
        line(out, "has", &format!("{digest}, {media_type}"))?;
    }
    problem(out, place.problem.as_ref())?;
    if !place.tags.is_empty() {
        line(out, "tags", &place.tags.join(", "))?;
    }
    line(out, "time", &format!("{} ms", place.milliseconds))
}

fn problem(out: &mut Formatter<'_>, problem: Option<&ExplainedProblem>) -> fmt::Result {
    if let Some(problem) = problem {
        line(out, "problem", &problem.text)?;
        if let Some(help) = &problem.help {
            line(out, "help", help)?;
        }
    }
    Ok(())
}

fn line(out: &mut Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(out, "{:<14}{text}", format!("{name}:"))
}

fn paths(paths: &[PathBuf]) -> String {
    let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    if all.is_empty() { "nothing".into() } else { all.join(", ") }
}
