//! What was typed.

use std::path::PathBuf;

/// How to call it.
pub(crate) const USAGE: &str = "\
What Portcullis costs, side by side with its peers; exits 1 when a limit is missed.

usage: portcullis-bench [--smoke] [--only NAME]… [--json FILE] [--peers DIR] [--binary FILE]

  --smoke        few iterations; fails where a row cannot be measured, on no limit
  --only NAME    rows whose name has NAME in it; can be repeated
  --json FILE    write the rows there as well
  --peers DIR    where the peers are installed [default: benches/peers]
  --binary FILE  the portcullis to measure [default: beside this program]
";

/// What was typed, and the defaults of what was not.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) smoke: bool,
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) peers: PathBuf,
    pub(crate) binary: Option<PathBuf>,
    pub(crate) help: bool,
}

impl Args {
    pub(crate) fn parse(mut typed: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            smoke: false,
            only: Vec::new(),
            json: None,
            peers: PathBuf::from("benches/peers"),
            binary: None,
            help: false,
        };
        while let Some(flag) = typed.next() {
            let mut value = || typed.next().ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--smoke" => args.smoke = true,
                "--only" => args.only.push(value()?),
                "--json" => args.json = Some(value()?.into()),
                "--peers" => args.peers = value()?.into(),
                "--binary" => args.binary = Some(value()?.into()),
                "-h" | "--help" => args.help = true,
                _ => return Err(format!("unknown option {flag}")),
            }
        }
        Ok(args)
    }

    /// Whether the row called `name` is to be measured.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.contains(only))
    }
}
