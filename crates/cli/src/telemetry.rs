//! Where telemetry goes, as flags and the environment say, and what sending it
//! needs of the world.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis_server::{
    Dialling, Endpoint, Exporting, Headers, Outside, Reporting, Server, Telemetry, Trusted,
};

use crate::args::OperatingArgs;
use crate::clock::SystemClock;
use crate::environment::OtelEnvironment;
use crate::log::Log;
use crate::problem::Problem;
use crate::sockets;

/// What we are called where nobody says otherwise.
const SERVICE: &str = "portcullis";
/// The longest name of a service.
const MAX_SERVICE: usize = 255;
/// How often numbers are sent where nobody says otherwise.
const METRICS_EVERY: Duration = Duration::from_secs(10);
/// The shortest and the longest that can be said.
const METRICS_AT_MOST: Duration = Duration::from_millis(100);
const METRICS_AT_LEAST: Duration = Duration::from_hours(1);
/// The largest file of certificates: a system's own has some 250 KiB.
const MAX_PEM: u64 = 1024 * 1024;

/// What is reported and to whom; nothing where nobody asked for it.
pub(crate) fn wanted(
    args: &OperatingArgs,
    env: &OtelEnvironment,
    log: Log,
) -> Result<Option<Reporting>, Problem> {
    let (url, said_by) = match (&args.otlp_endpoint, &env.endpoint) {
        (Some(url), _) => (url, "--otlp-endpoint"),
        (None, Some(_)) if env.is_disabled => return Ok(None),
        (None, Some(url)) => (url, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (None, None) => return Ok(None),
    };
    let trusted = match args.otlp_ca.as_ref().or(env.certificate.as_ref()) {
        Some(file) => Some(trusted(file)?),
        None => None,
    };
    let headers = headers(env)?;
    let endpoint = Endpoint::parse(url, headers, trusted.as_ref()).map_err(|bad| {
        // The address is not repeated: it may hold what it should not.
        Problem::usage(format!(
            "{said_by} does not name a collector that can be used: {bad}."
        ))
        .hint("Give the address of its OTLP/HTTP receiver, as in http://127.0.0.1:4318, and for https --otlp-ca FILE as well.")
    })?;
    // The other way over HTTP has the same port.
    if env.protocol.as_deref() == Some("grpc") {
        log.warn(format_args!(
            "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and {endpoint} is sent JSON over HTTP, which a collector takes at another port: 4318 unless it was changed"
        ));
    }
    let service = env.service_name.as_deref().unwrap_or(SERVICE);
    Ok(Some(Reporting {
        endpoint,
        service: service.chars().take(MAX_SERVICE).collect(),
        metrics_every: metrics_every(env)?,
    }))
}

fn trusted(file: &Path) -> Result<Trusted, Problem> {
    let pem = portcullis_files::read_own_text(file, MAX_PEM)?
        .ok_or_else(|| Problem::usage(format!("There is no file at {}.", file.display())))?;
    Trusted::from_pem(pem.as_bytes()).map_err(|bad| {
        Problem::usage(format!("{} cannot be trusted: {bad}.", file.display()))
            .hint("Give --otlp-ca the certificate of who signed the collector's, as PEM.")
    })
}

fn headers(env: &OtelEnvironment) -> Result<Headers, Problem> {
    let Some(secret) = &env.headers else {
        return Ok(Headers::default());
    };
    let unusable = |bad: &dyn std::fmt::Display| {
        Problem::usage(format!("OTEL_EXPORTER_OTLP_HEADERS cannot be used: {bad}."))
            .hint("Write it as name=value,name=value, with %2C for a comma in a value.")
    };
    let text = std::str::from_utf8(secret.expose()).map_err(|_| unusable(&"it is no text"))?;
    Headers::parse(text).map_err(|bad| unusable(&bad))
}

fn metrics_every(env: &OtelEnvironment) -> Result<Duration, Problem> {
    let Some(said) = &env.metric_interval else {
        return Ok(METRICS_EVERY);
    };
    let every = said.parse().map(Duration::from_millis).map_err(|_| {
        Problem::usage("OTEL_METRIC_EXPORT_INTERVAL is not a number of milliseconds.")
            .hint("Leave it out for 10000.")
    })?;
    Ok(every.clamp(METRICS_AT_MOST, METRICS_AT_LEAST))
}

/// Takes note from now on.
pub(crate) fn noting() -> Arc<Telemetry> {
    Telemetry::new(Arc::new(SystemClock::new()))
}

/// Sends what is noted, until it is finished.
pub(crate) fn start(server: &Arc<Server>, reporting: Reporting, log: Log) -> Option<Exporting> {
    Exporting::start(server, reporting, Arc::new(OurOutside(log)))
}

/// Connects by our sockets, and tells our log.
struct OurOutside(Log);

impl Outside for OurOutside {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialling<'a> {
        Box::pin(sockets::dial(host, port))
    }

    fn warn(&self, what: &str) {
        self.0.warn(what);
    }

    fn info(&self, what: &str) {
        self.0.info(what);
    }
}
