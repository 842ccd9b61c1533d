//! The registry API over gRPC.

pub(crate) mod codec;
mod health;
mod observe;
mod reflection;
mod service;

/// Requests and service traits, made from `proto/registry.proto` by `cargo xtask codegen`.
#[expect(unreachable_pub, reason = "generated code")]
#[rustfmt::skip]
mod api {
    include!("gen/api.rs");
}

use std::sync::Arc;

use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::pb::v1::server_reflection_server::ServerReflectionServer as ReflectionV1;
use tonic_reflection::pb::v1alpha::server_reflection_server::ServerReflectionServer as ReflectionV1Alpha;

use crate::live::Live;
use crate::server::Services;
use api::experimental_registry_server::ExperimentalRegistryServer;
use api::registry_server::RegistryServer;
pub(crate) use observe::Observe;

/// Messages and services as clients of the reflection API see them.
const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");

/// Returns everything that is answered on the gRPC port.
///
/// # Errors
/// Fails when the descriptors cannot be read, which would be a mistake of the build.
pub(crate) fn routes(live: &Arc<Live>, max_request: usize, services: Services) -> Result<Routes, prost::DecodeError> {
    let registry = service::Registry { live: Arc::clone(live) };
    let hidden: &[&str] = if services == Services::All { &[] } else { &["api.ExperimentalRegistry"] };
    let reflection = reflection::Reflection::new(
        &[
            DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ],
        hidden,
    )?;
    let mut routes = Routes::new(RegistryServer::new(registry.clone()).max_decoding_message_size(max_request));
    if services == Services::All {
        routes = routes.add_service(ExperimentalRegistryServer::new(registry).max_decoding_message_size(max_request));
    }
    Ok(routes
        .add_service(
            HealthServer::new(health::Health { live: Arc::clone(live) }).max_decoding_message_size(max_request),
        )
        .add_service(ReflectionV1::new(reflection.clone()).max_decoding_message_size(max_request))
        .add_service(ReflectionV1Alpha::new(reflection).max_decoding_message_size(max_request)))
}
