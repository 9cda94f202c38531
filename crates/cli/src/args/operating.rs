//! What was typed about how a server is looked after.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Clone, Debug, Args)]
pub(crate) struct OperatingArgs {
    /// How the log is written: for people, or one JSON object a line [default:
    /// PORTCULLIS_LOG_FORMAT, then text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Send spans and metrics to the OpenTelemetry collector here, as OTLP over HTTP in JSON:
    /// http://127.0.0.1:4318. What a collector wants to hear to let you in is read from
    /// OTEL_EXPORTER_OTLP_HEADERS (name=value,…) alone, the name of the service from
    /// OTEL_SERVICE_NAME [default: OTEL_EXPORTER_OTLP_ENDPOINT, then nowhere]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// The certificates to trust there (PEM); https needs them, as none of the system's are read
    /// [default: OTEL_EXPORTER_OTLP_CERTIFICATE]
    #[arg(long, value_name = "FILE")]
    pub(crate) otlp_ca: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of words
    #[default]
    Text,
    /// An object a line
    Json,
}
