//! `grpc_health_probe`: checks the health of a gRPC server, for container probes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serve::probe::{Probe, ProbeError, ProbeTls};

use super::serve::duration;
use crate::choice::InvalidValue;
use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;

const INVALID_ARGUMENTS: u8 = 1;
const CONNECTION_FAILURE: u8 = 2;
const RPC_FAILURE: u8 = 3;
const UNHEALTHY: u8 = 4;

pub(crate) const USAGE: &str = "Usage: grpc_health_probe -addr=HOST:PORT [flags]

Checks the health of a gRPC server. Flags take one dash or two.

  -addr string              address of the server: HOST:PORT or unix:PATH (required)
  -service string           service to check (default: the whole server)
  -connect-timeout duration timeout of the connection (default 1s)
  -rpc-timeout duration     timeout of the health check (default 1s)
  -tls                      use TLS
  -tls-ca-cert file         CA certificates that the server certificate must chain to
  -tls-client-cert file     client certificate
  -tls-client-key file      key of the client certificate
  -tls-server-name string   expected name in the server certificate
  -tls-no-verify            do not verify the server certificate

Exit codes: 0 healthy, 1 invalid arguments, 2 connection failed, 3 call failed, 4 unhealthy.
";

/// Parses the flags and checks the server.
pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let Some(probe) = parse(&arguments).map_err(|reason| Failure::Exit(INVALID_ARGUMENTS, reason.to_string()))? else {
        write!(printer.data(), "{USAGE}")?;
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Exit(CONNECTION_FAILURE, error.to_string()))?;
    match runtime.block_on(probe.run()) {
        Ok(()) => {
            printer.report("status: SERVING");
            Ok(())
        }
        Err(error) => {
            let code = match &error {
                ProbeError::Invalid(_) => INVALID_ARGUMENTS,
                ProbeError::Connect(_) => CONNECTION_FAILURE,
                ProbeError::Rpc(_) => RPC_FAILURE,
                ProbeError::Unhealthy(_) => UNHEALTHY,
            };
            Err(Failure::Exit(code, error.to_string()))
        }
    }
}

/// Parses the flags. Returns `None` for `-help`.
fn parse(arguments: &[OsString]) -> Result<Option<Probe>, InvalidValue> {
    let mut probe = Probe {
        address: String::new(),
        service: String::new(),
        connect_timeout: Duration::from_secs(1),
        rpc_timeout: Duration::from_secs(1),
        tls: None,
    };
    let (mut tls, mut with_tls) = (ProbeTls::default(), false);
    let (mut certificate, mut key) = (None, None);
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let argument = argument.to_str().ok_or("arguments must be valid UTF-8")?;
        let flag = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let flag = flag.ok_or_else(|| format!("unexpected argument {argument:?}\n\n{USAGE}"))?;
        let (name, given) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let switch = |given: Option<String>| given.map_or(Ok(true), |value| crate::cli::parse_bool(&value));
        let mut value = |given: Option<String>| match given {
            Some(value) => Ok(value),
            None => rest
                .next()
                .and_then(|next| next.to_str())
                .map(str::to_owned)
                .ok_or_else(|| format!("flag needs an argument: -{name}")),
        };
        match name {
            "h" | "help" => return Ok(None),
            "addr" => probe.address = value(given)?,
            "service" => probe.service = value(given)?,
            "connect-timeout" => probe.connect_timeout = duration(&value(given)?)?,
            "rpc-timeout" => probe.rpc_timeout = duration(&value(given)?)?,
            "tls" => with_tls = switch(given)?,
            "tls-no-verify" => tls.no_verify = switch(given)?,
            "tls-ca-cert" => tls.ca = Some(PathBuf::from(value(given)?)),
            "tls-client-cert" => certificate = Some(PathBuf::from(value(given)?)),
            "tls-client-key" => key = Some(PathBuf::from(value(given)?)),
            "tls-server-name" => tls.server_name = Some(value(given)?),
            _ => return Err(format!("flag provided but not defined: -{name}\n\n{USAGE}").into()),
        }
    }
    if probe.address.is_empty() {
        return Err("-addr not specified".into());
    }
    tls.client = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => return Err("-tls-client-cert and -tls-client-key must be given together".into()),
    };
    let needs_tls = tls.no_verify || tls.ca.is_some() || tls.client.is_some() || tls.server_name.is_some();
    if needs_tls && !with_tls {
        return Err("TLS flags require -tls".into());
    }
    probe.tls = with_tls.then_some(tls);
    Ok(Some(probe))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Probe>, InvalidValue> {
        parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_accept_one_or_two_dashes() {
        let probe = parsed("grpc_health_probe -addr=:50051 --connect-timeout 3s -rpc-timeout=250ms").unwrap().unwrap();
        assert_eq!(probe.address, ":50051");
        assert_eq!((probe.connect_timeout, probe.rpc_timeout), (Duration::from_secs(3), Duration::from_millis(250)));
        assert!(parsed("grpc_health_probe").is_err());
        assert!(parsed("grpc_health_probe -addr").is_err());
        assert!(parsed("grpc_health_probe -addr=x -tls-no-verify").is_err());
        assert!(parsed("grpc_health_probe -addr=x -spiffe").is_err());
        assert!(parsed("grpc_health_probe -help").unwrap().is_none());
    }
}
