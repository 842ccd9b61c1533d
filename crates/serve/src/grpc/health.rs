//! The health API.

use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::Stream;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{self, HealthCheckRequest, HealthCheckResponse};

use crate::live::{LiveCatalog, ServerState};

/// The header with details that the status cannot express.
const DETAIL: &str = "opm-detail";

/// Answers the health API: the same for every service, since all of them answer from one catalog.
pub(super) struct Health {
    pub(super) live: Arc<LiveCatalog>,
}

fn reply(state: &ServerState) -> HealthCheckResponse {
    let status = if state.serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl pb::health_server::Health for Health {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let state = self.live.state();
        let mut response = Response::new(reply(&state));
        // A header holds visible ASCII only.
        let detail: String =
            state.detail.chars().map(|c| if matches!(c, ' '..='~') { c } else { ' ' }).take(1024).collect();
        if let Ok(detail) = MetadataValue::try_from(detail.trim())
            && !detail.is_empty()
        {
            response.metadata_mut().insert(DETAIL, detail);
        }
        Ok(response)
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let mut states = self.live.states();
        let mut last = None;
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let now = reply(&states.borrow_and_update());
                if last.as_ref() != Some(&now) {
                    last = Some(now);
                    if sender.send(Ok(now)).await.is_err() {
                        return;
                    }
                }
                tokio::select! {
                    changed = states.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receiver))))
    }
}
