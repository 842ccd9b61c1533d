//! The registry API over gRPC.
//!
//! `connection` is one connection on `wire`, `quiet` before its first call, `question` what the methods ask, `request` and `call` a call of
//! them, `foreign` a call of anything else. `room` bounds the memory of all that, and `piece` is what holds it.

mod call;
pub(crate) mod connection;
mod foreign;
mod gather;
mod health;
mod observe;
mod piece;
mod question;
mod quiet;
mod reflection;
mod request;
pub(crate) mod room;
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

/// Messages and services as clients of the reflection API see them.
const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");

/// Returns what is answered on the gRPC port besides the registry API.
///
/// # Errors
/// Fails when the descriptors cannot be read, which would be a mistake of the build.
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
