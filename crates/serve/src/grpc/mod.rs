//! The registry API over gRPC.
//!
//! `connection` serves one connection over `wire`, `quiet` handles it before its first call, `methods` defines the
//! queries of the methods, `request` and `call` handle a call of them, and `foreign` a call of any other service.
//! `memory_budget` bounds the memory of all that, and `piece` holds bytes with their reservation.

mod call;
pub(crate) mod connection;
mod foreign;
mod gather;
mod health;
pub(crate) mod memory_budget;
mod methods;
pub(crate) mod observe;
mod piece;
mod quiet;
mod reflection;
mod request;
mod wire;

/// Requests, made from `proto/registry.proto` by `cargo xtask codegen`.
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

/// Messages and services for the reflection API.
const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");

/// Returns the services on the gRPC port other than the registry API.
///
/// # Errors
/// Fails when the descriptors cannot be decoded, which would be a bug in the build.
pub(crate) fn routes(live: &Arc<Live>, max_request: usize, services: Services) -> Result<Routes, prost::DecodeError> {
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
    let health = HealthServer::new(health::Health { live: Arc::clone(live) }).max_decoding_message_size(max_request);
    Ok(Routes::new(health)
        .add_service(ReflectionV1::new(reflection.clone()).max_decoding_message_size(max_request))
        .add_service(ReflectionV1Alpha::new(reflection).max_decoding_message_size(max_request)))
}
