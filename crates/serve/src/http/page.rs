//! The plain HTML page of the HTTP server.

use std::fmt::Write;

use fbc::spelling::html::escaped;
use fbc::spelling::percent;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};

use super::body::ReplyBody;
use super::{Reply, Site};
use crate::live::Blobs;

/// Lists the served packages.
pub(super) fn list(site: &Site, name: &str) -> Reply {
    let state = site.live.state();
    let name = escaped(name);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Catalog {name}</title></head>\n\
         <body>\n<h1>Catalog {name}</h1>\n"
    );
    if !state.detail.is_empty() {
        let _ = writeln!(html, "<p><strong>{}</strong></p>", escaped(&state.detail));
    }
    match site.live.blobs() {
        Blobs::Loading => html.push_str("<p>The catalog is still being loaded.</p>\n"),
        Blobs::Unavailable(reason) => {
            let _ = writeln!(html, "<p>The catalog cannot be served over HTTP: {}</p>", escaped(&reason));
        }
        Blobs::Ready(content) => {
            let packages = content.packages();
            let _ = writeln!(html, "<p>{} packages; <a href=\"/openapi.json\">API</a></p>\n<ul>", packages.len());
            for package in packages {
                let link = percent::encode(package);
                let _ = writeln!(
                    html,
                    "<li><a href=\"/catalogs/{name}/api/v1/packages/{link}\">{}</a></li>",
                    escaped(package)
                );
            }
            html.push_str("</ul>\n");
        }
    }
    html.push_str("</body>\n</html>\n");
    let mut response = super::text(StatusCode::OK, "");
    *response.body_mut() = ReplyBody::from(bytes::Bytes::from(html));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

/// Returns the OpenAPI description.
pub(super) fn openapi(name: &str) -> Reply {
    let mut response = super::text(StatusCode::OK, &include_str!("openapi.json").replace("{catalog}", name));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
