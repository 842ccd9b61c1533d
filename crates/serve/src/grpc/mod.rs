//! The registry API over gRPC.
//!
//! `connection` serves one connection over `wire`, `methods` defines the queries of the methods, `request` and `call`
//! handle a call of them, and `foreign` a call of any other service. `memory_budget` bounds the memory of all that, and
//! `piece` holds bytes with their reservation.

mod call;
pub(crate) mod connection;
mod foreign;
mod gather;
mod health;
pub(crate) mod memory_budget;
mod methods;
pub(crate) mod observe;
mod piece;
mod reflection;
mod request;
mod wire;

/// Requests, made from `proto/registry.proto` by `cargo xtask codegen`.
#[expect(unreachable_pub, reason = "generated code")]
#[rustfmt::skip]
mod api {
    include!("gen/api.rs");
}

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::pb::v1::server_reflection_server::ServerReflectionServer as ReflectionV1;
use tonic_reflection::pb::v1alpha::server_reflection_server::ServerReflectionServer as ReflectionV1Alpha;

use tower::Service;

use crate::live::LiveCatalog;
use crate::server::Services;

/// Messages and services for the reflection API.
const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");

type Health = HealthServer<health::Health>;
type Reflection = ReflectionV1<reflection::Reflection>;
type ReflectionAlpha = ReflectionV1Alpha<reflection::Reflection>;

/// The services on the gRPC port other than the registry API.
#[derive(Clone)]
pub(crate) struct OtherServices {
    health: Health,
    reflection: Reflection,
    reflection_alpha: ReflectionAlpha,
}

impl OtherServices {
    /// # Errors
    /// Fails when the descriptors cannot be decoded, which would be a bug in the build.
    pub(crate) fn new(
        live: &Arc<LiveCatalog>,
        max_request: usize,
        services: Services,
    ) -> Result<OtherServices, prost::DecodeError> {
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
        let health = health::Health { live: Arc::clone(live) };
        Ok(OtherServices {
            health: Health::new(health).max_decoding_message_size(max_request),
            reflection: Reflection::new(reflection.clone()).max_decoding_message_size(max_request),
            reflection_alpha: ReflectionAlpha::new(reflection).max_decoding_message_size(max_request),
        })
    }

    /// Answers a call.
    async fn call(&mut self, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path();
        let service = path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(service, _)| service);
        let answered: Result<_, Infallible> = match service {
            // The services are always ready.
            Some(Health::NAME) => self.health.call(request).await,
            Some(Reflection::NAME) => self.reflection.call(request).await,
            Some(ReflectionAlpha::NAME) => self.reflection_alpha.call(request).await,
            _ => Ok(Status::unimplemented("").into_http()),
        };
        let Ok(response) = answered;
        response
    }
}
