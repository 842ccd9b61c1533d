//! The methods of the registry API: their requests, and the queries that answer them.

use std::sync::Arc;

use bytes::Bytes;
use catalog::query::{ApiType, Query, QueryAnswer, QueryError, Rows};
use http::HeaderMap;
use prost::Message;
use tonic::Status;

use super::api;
use crate::server::Services;

/// The header with which a client acknowledges that the method is experimental.
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

/// A query that one message answers.
pub(super) enum UnaryQuery {
    Package(api::GetPackageRequest),
    Bundle(api::GetBundleRequest),
    Head(api::GetBundleInChannelRequest),
    Replacement(api::GetReplacementRequest),
    DefaultProvider(ApiType),
}

/// A query that a list of messages answers.
pub(super) enum ListQuery {
    Packages,
    Bundles,
    Replacements(api::GetAllReplacementsRequest),
    Providers(ApiType),
    LatestProviders(ApiType),
    Custom(api::ExperimentalListPackageCustomSchemasRequest),
    Nothing,
}

/// The query of a request.
pub(super) enum MethodQuery {
    One(UnaryQuery),
    Many(ListQuery),
}

impl Method {
    /// Returns the method with this path.
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

    /// Decodes the request of a call.
    ///
    /// # Errors
    /// Fails with the status for the caller when the request is invalid.
    pub(super) fn read(self, headers: &HeaderMap, message: Bytes) -> Result<MethodQuery, Status> {
        Ok(match self {
            Method::ListPackages => {
                decode::<api::ListPackageRequest>(message)?;
                MethodQuery::Many(ListQuery::Packages)
            }
            Method::ListBundles => {
                decode::<api::ListBundlesRequest>(message)?;
                MethodQuery::Many(ListQuery::Bundles)
            }
            Method::GetPackage => MethodQuery::One(UnaryQuery::Package(decode(message)?)),
            Method::GetBundle => MethodQuery::One(UnaryQuery::Bundle(decode(message)?)),
            Method::GetBundleForChannel => MethodQuery::One(UnaryQuery::Head(decode(message)?)),
            Method::GetBundleThatReplaces => MethodQuery::One(UnaryQuery::Replacement(decode(message)?)),
            Method::GetChannelEntriesThatReplace => MethodQuery::Many(ListQuery::Replacements(decode(message)?)),
            Method::GetChannelEntriesThatProvide => {
                let api::GetAllProvidersRequest { group, version, kind, .. } = decode(message)?;
                MethodQuery::Many(ListQuery::Providers(ApiType { group, version, kind }))
            }
            Method::GetLatestChannelEntriesThatProvide => {
                let api::GetLatestProvidersRequest { group, version, kind, .. } = decode(message)?;
                MethodQuery::Many(ListQuery::LatestProviders(ApiType { group, version, kind }))
            }
            Method::GetDefaultBundleThatProvides => {
                let api::GetDefaultProviderRequest { group, version, kind, .. } = decode(message)?;
                MethodQuery::One(UnaryQuery::DefaultProvider(ApiType { group, version, kind }))
            }
            Method::ListPackageCustomSchemas => MethodQuery::Many(custom(headers, decode(message)?)?),
        })
    }
}

fn decode<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|error| Status::internal(format!("cannot decode the request: {error}")))
}

fn custom(headers: &HeaderMap, request: api::ExperimentalListPackageCustomSchemasRequest) -> Result<ListQuery, Status> {
    if !headers.get_all(ACKNOWLEDGE).iter().any(|value| value == "true") {
        return Ok(ListQuery::Nothing);
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
    Ok(ListQuery::Custom(request))
}

fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

impl UnaryQuery {
    /// Computes the answer. The same catalog always returns the same answer.
    pub(super) fn answer(&self, catalog: &dyn Query) -> QueryAnswer {
        match self {
            UnaryQuery::Package(request) => catalog.package(&request.name),
            UnaryQuery::Bundle(request) => catalog.bundle(&request.pkg_name, &request.channel_name, &request.csv_name),
            UnaryQuery::Head(request) => catalog.head(&request.pkg_name, &request.channel_name),
            UnaryQuery::Replacement(request) => {
                catalog.replacement(&request.csv_name, &request.pkg_name, &request.channel_name)
            }
            UnaryQuery::DefaultProvider(api) => catalog.default_provider(api),
        }
    }
}

impl ListQuery {
    /// Returns the answers, each computed when it is requested.
    pub(super) fn answer(&self, catalog: Arc<dyn Query>) -> Result<Rows, QueryError> {
        match self {
            ListQuery::Packages => Ok(catalog.packages()),
            ListQuery::Bundles => Ok(catalog.bundles()),
            ListQuery::Replacements(request) => catalog.replacements(&request.csv_name),
            ListQuery::Providers(api) => catalog.providers(api),
            ListQuery::LatestProviders(api) => catalog.latest_providers(api),
            ListQuery::Custom(request) => Ok(catalog.custom(&request.schema, &request.package_name)),
            ListQuery::Nothing => Ok(Box::new(std::iter::empty())),
        }
    }
}
