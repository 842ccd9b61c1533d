//! What each method of the registry API does.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use catalog::query::{Answer, Api, Query, QueryError, Rows};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::api;
use super::codec::Encoded;
use crate::live::Live;

/// The header with which a client says that it knows what experimental means.
const ACKNOWLEDGE: &str = "x-acknowledge-experimental";

/// Answers the methods of the registry API from the catalog of the moment.
#[derive(Clone)]
pub(super) struct Registry {
    pub(super) live: Arc<Live>,
}

type Unary = Result<Response<Encoded>, Status>;
type Streaming = Result<Response<Replies>, Status>;

/// Replies that are made when there is room to send them.
pub(super) struct Replies {
    rows: Rows,
    asked: Asked,
}

impl Stream for Replies {
    type Item = Result<Encoded, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.rows.next();
        Poll::Ready(next.map(|answer| self.asked.encoded(answer)))
    }
}

impl Registry {
    fn catalog(&self) -> Result<Asked, Status> {
        let catalog = self.live.catalog().ok_or_else(|| Status::unavailable("the catalog is still being loaded"))?;
        Ok(Asked { live: Arc::clone(&self.live), catalog })
    }
}

/// The catalog that a call is answered from.
#[derive(Clone)]
struct Asked {
    live: Arc<Live>,
    catalog: Arc<dyn Query>,
}

impl Asked {
    fn unary(&self, ask: impl FnOnce(&dyn Query) -> Answer) -> Unary {
        self.encoded(ask(&*self.catalog)).map(Response::new)
    }

    fn rows(self, ask: impl FnOnce(Arc<dyn Query>) -> Rows) -> Streaming {
        self.streaming(|catalog| Ok(ask(catalog)))
    }

    fn streaming(self, ask: impl FnOnce(Arc<dyn Query>) -> Result<Rows, QueryError>) -> Streaming {
        match ask(Arc::clone(&self.catalog)) {
            Ok(rows) => Ok(Response::new(Replies { rows, asked: self })),
            Err(error) => Err(self.status(error)),
        }
    }

    fn encoded(&self, answer: Answer) -> Result<Encoded, Status> {
        answer.map(Encoded).map_err(|error| self.status(error))
    }

    /// Errors have always been of the code "unknown"; clients look at the text.
    fn status(&self, error: QueryError) -> Status {
        match error {
            QueryError::Absent(text) => Status::unknown(text),
            QueryError::Damaged(text) => {
                tracing::error!(error = text, "answer could not be read");
                self.live.found_damage(&self.catalog);
                Status::data_loss(text)
            }
        }
    }
}

#[tonic::async_trait]
impl api::registry_server::Registry for Registry {
    type ListPackagesStream = Replies;
    type GetChannelEntriesThatReplaceStream = Replies;
    type GetChannelEntriesThatProvideStream = Replies;
    type GetLatestChannelEntriesThatProvideStream = Replies;
    type ListBundlesStream = Replies;

    async fn list_packages(&self, _: Request<api::ListPackageRequest>) -> Streaming {
        self.catalog()?.rows(|catalog| catalog.packages())
    }

    async fn get_package(&self, request: Request<api::GetPackageRequest>) -> Unary {
        self.catalog()?.unary(|catalog| catalog.package(&request.get_ref().name))
    }

    async fn get_bundle(&self, request: Request<api::GetBundleRequest>) -> Unary {
        let request = request.get_ref();
        self.catalog()?.unary(|catalog| catalog.bundle(&request.pkg_name, &request.channel_name, &request.csv_name))
    }

    async fn get_bundle_for_channel(&self, request: Request<api::GetBundleInChannelRequest>) -> Unary {
        let request = request.get_ref();
        self.catalog()?.unary(|catalog| catalog.head(&request.pkg_name, &request.channel_name))
    }

    async fn get_channel_entries_that_replace(&self, request: Request<api::GetAllReplacementsRequest>) -> Streaming {
        self.catalog()?.streaming(|catalog| catalog.replacements(&request.get_ref().csv_name))
    }

    async fn get_bundle_that_replaces(&self, request: Request<api::GetReplacementRequest>) -> Unary {
        let request = request.get_ref();
        self.catalog()?
            .unary(|catalog| catalog.replacement(&request.csv_name, &request.pkg_name, &request.channel_name))
    }

    async fn get_channel_entries_that_provide(&self, request: Request<api::GetAllProvidersRequest>) -> Streaming {
        let request = request.into_inner();
        let api = Api { group: request.group, version: request.version, kind: request.kind };
        self.catalog()?.streaming(|catalog| catalog.providers(&api))
    }

    async fn get_latest_channel_entries_that_provide(
        &self,
        request: Request<api::GetLatestProvidersRequest>,
    ) -> Streaming {
        let request = request.into_inner();
        let api = Api { group: request.group, version: request.version, kind: request.kind };
        self.catalog()?.streaming(|catalog| catalog.latest_providers(&api))
    }

    async fn get_default_bundle_that_provides(&self, request: Request<api::GetDefaultProviderRequest>) -> Unary {
        let request = request.into_inner();
        let api = Api { group: request.group, version: request.version, kind: request.kind };
        self.catalog()?.unary(|catalog| catalog.default_provider(&api))
    }

    async fn list_bundles(&self, _: Request<api::ListBundlesRequest>) -> Streaming {
        self.catalog()?.rows(|catalog| catalog.bundles())
    }
}

#[tonic::async_trait]
impl api::experimental_registry_server::ExperimentalRegistry for Registry {
    type ExperimentalListPackageCustomSchemasStream = Replies;

    async fn experimental_list_package_custom_schemas(
        &self,
        request: Request<api::ExperimentalListPackageCustomSchemasRequest>,
    ) -> Streaming {
        let acknowledged = request.metadata().get_all(ACKNOWLEDGE).iter().any(|value| value == "true");
        if !acknowledged {
            return self.catalog()?.rows(|_| Box::new(std::iter::empty()));
        }
        let request = request.get_ref();
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
        self.catalog()?.rows(|catalog| catalog.custom(&request.schema, &request.package_name))
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
