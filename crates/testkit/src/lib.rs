//! Test helpers: temporary catalogs and bundles, registries, a Kubernetes API server and a browser.

#[cfg(feature = "browser")]
mod browser;
mod bundle_dir;
mod certificates;
mod docker_registry;
mod fake_registry;
mod growth;
#[cfg(feature = "kube")]
mod kube_api;
mod needs;
#[cfg(feature = "kube")]
mod olm;
mod port;
mod program;
pub mod published;
#[cfg(feature = "recorded")]
mod recorded;
mod reports;
pub mod requests;
mod rounds;
mod running;

#[cfg(feature = "browser")]
pub use browser::{Browser, Setup, Tab};
pub use bundle_dir::BundleDir;
pub use docker_registry::{DockerRegistry, RegistryPlan};
pub use fake_registry::{FakeRegistry, FakeRequest, FakeResponse, ResponseFault};
pub use growth::assert_linear;
#[cfg(feature = "kube")]
pub use kube_api::{KubeApi, OLM_CRDS, Trial, User, mirror_set_crds};
pub use needs::{installed, missing, python_module, skipped};
#[cfg(feature = "kube")]
pub use olm::{Node, OLM_NAMESPACE, Olm, OlmV1, Response, plain_client, post, request};
pub use port::free_port;
pub use program::static_program;
#[cfg(feature = "recorded")]
pub use recorded::Recorded;
pub use reports::{assert_report, report_schema};
pub use rounds::kill_rounds;
pub use running::Running;
