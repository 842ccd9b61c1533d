//! The methods of the registry API: what each of them asks, and what answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use prost::Message;
use registry_api::{Answer, Api, Query, QueryError, Rows};
use tonic::Status;

use super::api;
use crate::server::Services;

/// The header with which a client says that it knows what experimental means.
const ACKNOWLEDGE: &str = "x-acknowledge-experimental";

/// A method of the registry API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    ListPackages,
    GetPackage,
    GetBundle,
    GetBundleForChannel,
    GetChannelEntriesThatReplace,
    GetBundleThatReplaces,
    GetChannelEntriesThatProvide,
    GetLatestChannelEntriesThatProvide,
    GetDefaultBundleThatProvides,
    ListBundles,
    ListPackageCustomSchemas,
}

/// A question that one message answers.
pub(super) enum One {
    Package(api::GetPackageRequest),
    Bundle(api::GetBundleRequest),
    Head(api::GetBundleInChannelRequest),
    Replacement(api::GetReplacementRequest),
    DefaultProvider(Api),
}

/// A question that a list of messages answers.
pub(super) enum Many {
    Packages,
    Bundles,
    Replacements(api::GetAllReplacementsRequest),
    Providers(Api),
    LatestProviders(Api),
    Custom(api::ExperimentalListPackageCustomSchemasRequest),
    Nothing,
}

/// What a request asks.
pub(super) enum Question {
    One(One),
    Many(Many),
}

impl Method {
    /// Finds the method that a path names.
    pub(super) fn of(path: &str, services: Services) -> Option<Method> {
        if let Some(method) = path.strip_prefix("/api.Registry/") {
            return Some(match method {
                "ListPackages" => Method::ListPackages,
                "GetPackage" => Method::GetPackage,
                "GetBundle" => Method::GetBundle,
                "GetBundleForChannel" => Method::GetBundleForChannel,
                "GetChannelEntriesThatReplace" => Method::GetChannelEntriesThatReplace,
                "GetBundleThatReplaces" => Method::GetBundleThatReplaces,
                "GetChannelEntriesThatProvide" => Method::GetChannelEntriesThatProvide,
                "GetLatestChannelEntriesThatProvide" => Method::GetLatestChannelEntriesThatProvide,
                "GetDefaultBundleThatProvides" => Method::GetDefaultBundleThatProvides,
                "ListBundles" => Method::ListBundles,
                _ => return None,
            });
        }
        let experimental =
            services == Services::All && path == "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
        experimental.then_some(Method::ListPackageCustomSchemas)
    }

    /// Reads the request of a call.
    ///
    /// # Errors
    /// Fails with the status for the caller when it makes no sense.
    pub(super) fn read(self, headers: &HeaderMap, message: Bytes) -> Result<Question, Status> {
        Ok(match self {
            Method::ListPackages => {
                decode::<api::ListPackageRequest>(message)?;
                Question::Many(Many::Packages)
            }
            Method::ListBundles => {
                decode::<api::ListBundlesRequest>(message)?;
                Question::Many(Many::Bundles)
            }
            Method::GetPackage => Question::One(One::Package(decode(message)?)),
            Method::GetBundle => Question::One(One::Bundle(decode(message)?)),
            Method::GetBundleForChannel => Question::One(One::Head(decode(message)?)),
            Method::GetBundleThatReplaces => Question::One(One::Replacement(decode(message)?)),
            Method::GetChannelEntriesThatReplace => Question::Many(Many::Replacements(decode(message)?)),
            Method::GetChannelEntriesThatProvide => {
                let api::GetAllProvidersRequest { group, version, kind, .. } = decode(message)?;
                Question::Many(Many::Providers(Api { group, version, kind }))
            }
            Method::GetLatestChannelEntriesThatProvide => {
                let api::GetLatestProvidersRequest { group, version, kind, .. } = decode(message)?;
                Question::Many(Many::LatestProviders(Api { group, version, kind }))
            }
            Method::GetDefaultBundleThatProvides => {
                let api::GetDefaultProviderRequest { group, version, kind, .. } = decode(message)?;
                Question::One(One::DefaultProvider(Api { group, version, kind }))
            }
            Method::ListPackageCustomSchemas => Question::Many(custom(headers, decode(message)?)?),
        })
    }
}

fn decode<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|error| Status::internal(format!("request cannot be decoded: {error}")))
}

fn custom(headers: &HeaderMap, request: api::ExperimentalListPackageCustomSchemasRequest) -> Result<Many, Status> {
    if !headers.get_all(ACKNOWLEDGE).iter().any(|value| value == "true") {
        return Ok(Many::Nothing);
    }
    if request.schema.is_empty() {
        return Err(Status::invalid_argument("schema is required"));
    }
    for (field, value) in [("schema", &request.schema), ("packageName", &request.package_name)] {
        if !value.is_empty() && !is_name(value) {
            return Err(Status::invalid_argument(format!(
                "invalid custom schema query: invalid {field} {}: must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
                fbc::quote::quote(value)
            )));
        }
    }
    Ok(Many::Custom(request))
}

fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

impl One {
    /// Makes the answer. The same catalog always gives the same one.
    pub(super) fn answer(&self, catalog: &dyn Query) -> Answer {
        match self {
            One::Package(request) => catalog.package(&request.name),
            One::Bundle(request) => catalog.bundle(&request.pkg_name, &request.channel_name, &request.csv_name),
            One::Head(request) => catalog.head(&request.pkg_name, &request.channel_name),
            One::Replacement(request) => {
                catalog.replacement(&request.csv_name, &request.pkg_name, &request.channel_name)
            }
            One::DefaultProvider(api) => catalog.default_provider(api),
        }
    }
}

impl Many {
    /// Returns the answers, each of which is made when it is taken.
    pub(super) fn answer(&self, catalog: Arc<dyn Query>) -> Result<Rows, QueryError> {
        match self {
            Many::Packages => Ok(catalog.packages()),
            Many::Bundles => Ok(catalog.bundles()),
            Many::Replacements(request) => catalog.replacements(&request.csv_name),
            Many::Providers(api) => catalog.providers(api),
            Many::LatestProviders(api) => catalog.latest_providers(api),
            Many::Custom(request) => Ok(catalog.custom(&request.schema, &request.package_name)),
            Many::Nothing => Ok(Box::new(std::iter::empty())),
        }
    }
}
