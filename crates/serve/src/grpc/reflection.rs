//! The reflection API, for clients that discover services at run time.
//!
//! Errors are replies here, as in other servers: a client may continue on the same stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// The status code "not found".
const NOT_FOUND: i32 = 5;

/// The descriptors of the services, by file and symbol.
#[derive(Clone)]
pub(super) struct Reflection {
    index: Arc<Index>,
}

#[derive(Default)]
struct Index {
    /// Files by name: encoded, and the names of their dependencies.
    files: BTreeMap<String, (Vec<u8>, Vec<String>)>,
    /// The file of each symbol.
    symbols: BTreeMap<String, String>,
    services: BTreeSet<String>,
}

/// An answer, independent of the version of the API.
enum ReflectionAnswer {
    Files(Vec<Vec<u8>>),
    Services(Vec<String>),
    NotFound(String),
}

impl Reflection {
    /// Decodes sets of descriptors; `hidden` services are not listed.
    ///
    /// # Errors
    /// Fails when a set cannot be decoded.
    pub(super) fn new(sets: &[&[u8]], hidden: &[&str]) -> Result<Reflection, prost::DecodeError> {
        let mut index = Index::default();
        for set in sets {
            for file in FileDescriptorSet::decode(*set)?.file {
                index.add(&file);
            }
        }
        index.services.retain(|service| !hidden.contains(&service.as_str()));
        Ok(Reflection { index: Arc::new(index) })
    }
}

impl Index {
    fn add(&mut self, file: &FileDescriptorProto) {
        let name = file.name().to_owned();
        let prefix = if file.package().is_empty() { String::new() } else { format!("{}.", file.package()) };
        for message in &file.message_type {
            self.add_message(&prefix, message, &name);
        }
        for one in &file.enum_type {
            self.add_enum(&prefix, one, &name);
        }
        for service in &file.service {
            let symbol = format!("{prefix}{}", service.name());
            for method in &service.method {
                self.symbols.insert(format!("{symbol}.{}", method.name()), name.clone());
            }
            self.symbols.insert(symbol.clone(), name.clone());
            self.services.insert(symbol);
        }
        self.files.insert(name, (file.encode_to_vec(), file.dependency.clone()));
    }

    fn add_message(&mut self, prefix: &str, message: &DescriptorProto, file: &str) {
        let symbol = format!("{prefix}{}", message.name());
        let inner = format!("{symbol}.");
        for field in &message.field {
            self.symbols.insert(format!("{inner}{}", field.name()), file.to_owned());
        }
        message.nested_type.iter().for_each(|nested| self.add_message(&inner, nested, file));
        message.enum_type.iter().for_each(|nested| self.add_enum(&inner, nested, file));
        self.symbols.insert(symbol, file.to_owned());
    }

    fn add_enum(&mut self, prefix: &str, one: &EnumDescriptorProto, file: &str) {
        for value in &one.value {
            self.symbols.insert(format!("{prefix}{}", value.name()), file.to_owned());
        }
        self.symbols.insert(format!("{prefix}{}", one.name()), file.to_owned());
    }

    /// Returns a file and its dependencies.
    fn file(&self, name: &str) -> ReflectionAnswer {
        if !self.files.contains_key(name) {
            return ReflectionAnswer::NotFound(format!("file not found: {name}"));
        }
        let (mut names, mut at) = (vec![name], 0);
        let mut files = Vec::new();
        while let Some(name) = names.get(at).copied() {
            at += 1;
            let Some((bytes, needs)) = self.files.get(name) else { continue };
            files.push(bytes.clone());
            for need in needs {
                if !names.contains(&need.as_str()) {
                    names.push(need);
                }
            }
        }
        ReflectionAnswer::Files(files)
    }

    fn symbol(&self, name: &str) -> ReflectionAnswer {
        match self.symbols.get(name.trim_start_matches('.')) {
            Some(file) => self.file(file),
            None => ReflectionAnswer::NotFound(format!("symbol not found: {name}")),
        }
    }

    fn services(&self) -> ReflectionAnswer {
        ReflectionAnswer::Services(self.services.iter().cloned().collect())
    }
}

/// Implements one version of the API; they differ only in their types.
macro_rules! version {
    ($pb:ident) => {
        #[tonic::async_trait]
        impl tonic_reflection::pb::$pb::server_reflection_server::ServerReflection for Reflection {
            type ServerReflectionInfoStream =
                ReceiverStream<Result<tonic_reflection::pb::$pb::ServerReflectionResponse, Status>>;

            async fn server_reflection_info(
                &self,
                request: Request<Streaming<tonic_reflection::pb::$pb::ServerReflectionRequest>>,
            ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
                use tonic_reflection::pb::$pb as pb;
                use tonic_reflection::pb::$pb::server_reflection_request::MessageRequest;
                use tonic_reflection::pb::$pb::server_reflection_response::MessageResponse;

                let index = Arc::clone(&self.index);
                let mut requests = request.into_inner();
                // The channel holds one answer: the next request waits until the client reads it.
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(async move {
                    while let Ok(Some(request)) = requests.message().await {
                        let answer = match &request.message_request {
                            Some(MessageRequest::FileByFilename(name)) => index.file(name),
                            Some(MessageRequest::FileContainingSymbol(name)) => index.symbol(name),
                            Some(MessageRequest::ListServices(_)) => index.services(),
                            Some(MessageRequest::FileContainingExtension(one)) => {
                                ReflectionAnswer::NotFound(format!("extension not found: {}", one.containing_type))
                            }
                            Some(MessageRequest::AllExtensionNumbersOfType(name)) => {
                                ReflectionAnswer::NotFound(format!("type has no extensions: {name}"))
                            }
                            None => {
                                let _ = sender.send(Err(Status::invalid_argument("request asks for nothing"))).await;
                                return;
                            }
                        };
                        let answer = match answer {
                            ReflectionAnswer::Files(file_descriptor_proto) => {
                                MessageResponse::FileDescriptorResponse(pb::FileDescriptorResponse {
                                    file_descriptor_proto,
                                })
                            }
                            ReflectionAnswer::Services(names) => {
                                let service = names.into_iter().map(|name| pb::ServiceResponse { name }).collect();
                                MessageResponse::ListServicesResponse(pb::ListServiceResponse { service })
                            }
                            ReflectionAnswer::NotFound(error_message) => {
                                MessageResponse::ErrorResponse(pb::ErrorResponse {
                                    error_code: NOT_FOUND,
                                    error_message,
                                })
                            }
                        };
                        let response = pb::ServerReflectionResponse {
                            valid_host: request.host.clone(),
                            original_request: Some(request),
                            message_response: Some(answer),
                        };
                        if sender.send(Ok(response)).await.is_err() {
                            return;
                        }
                    }
                });
                Ok(Response::new(ReceiverStream::new(receiver)))
            }
        }
    };
}

version!(v1);
version!(v1alpha);
