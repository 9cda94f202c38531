//! The audit as it is written, by whatever process.

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_proto::Failure;
use rustix::io::Errno;

use super::files::{self, chains, open_read, segment_name, segments};
use super::lines::Lines;
use super::log::parse;
use super::record::{Filter, Record};
use crate::private_dir::{PrivateDir, os_failure};

/// How often the iterator looks for new lines.
const EVERY: Duration = Duration::from_millis(200);

/// New lines, as they come. As an iterator it waits and never ends; [`poll`]
/// does not wait.
///
/// [`poll`]: Self::poll
#[derive(Debug)]
pub struct Follow {
    audit: PrivateDir,
    filter: Filter,
    places: BTreeMap<String, Place>,
    /// Read and not yet given out; the next one is last.
    ready: Vec<Record>,
}

/// How far a chain has been read.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: u32,
    offset: u64,
    /// Its process has ended and all of it was read.
    done: bool,
}

impl Follow {
    pub(crate) fn new(audit: PrivateDir, filter: Filter) -> Result<Self, Failure> {
        let mut places = BTreeMap::new();
        for name in chains(&audit)? {
            let dir = audit.existing(&name)?;
            let done = !files::is_live(&dir);
            let segment = segments(&dir)?.last().copied().unwrap_or_default();
            let offset = match open_read(&dir, &segment_name(segment)) {
                Ok(file) => files::length(file),
                Err(Errno::NOENT) => Ok(0),
                Err(errno) => Err(errno),
            };
            let offset = offset.map_err(|errno| os_failure(errno, dir.path()))?;
            places.insert(
                name,
                Place {
                    segment,
                    offset,
                    done,
                },
            );
        }
        Ok(Self {
            audit,
            filter,
            places,
            ready: Vec::new(),
        })
    }

    /// What was written since the last look, oldest first.
    pub fn poll(&mut self) -> Result<Vec<Record>, Failure> {
        let mut records = std::mem::take(&mut self.ready);
        records.reverse();
        for name in chains(&self.audit)? {
            let mut place = self.places.get(&name).copied().unwrap_or(Place {
                segment: 0,
                offset: 0,
                done: false,
            });
            if !place.done {
                self.catch_up(&name, &mut place, &mut records)?;
            }
            self.places.insert(name, place);
        }
        // Chains are read one after the other; a person reads by time.
        records.sort_by(|a, b| a.timestamp.cmp(&b.timestamp));
        Ok(records)
    }

    fn catch_up(
        &self,
        name: &str,
        place: &mut Place,
        records: &mut Vec<Record>,
    ) -> Result<(), Failure> {
        let dir = self.audit.existing(name)?;
        // Looked at first: what is written before the process ends is read below.
        let live = files::is_live(&dir);
        let failed = |errno| os_failure(errno, dir.path());
        let last = segments(&dir)?.last().copied().unwrap_or_default();
        loop {
            let file = match open_read(&dir, &segment_name(place.segment)) {
                Ok(file) => file,
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(failed(errno)),
            };
            let mut lines = Lines::new(file, place.offset);
            while let Some(raw) = lines.next().map_err(failed)? {
                if !raw.ends_with(b"\n") {
                    break;
                }
                // A line that cannot be read is for `verify` to report.
                if let Ok(record) = parse(raw, name)
                    && self.filter.admits(&record)
                {
                    records.push(record);
                }
                place.offset = lines.position();
            }
            if place.segment >= last {
                break;
            }
            place.segment += 1;
            place.offset = 0;
        }
        // A chain without a first line may be one that is about to start.
        place.done = !live && place.offset > 0;
        Ok(())
    }
}

impl Iterator for Follow {
    type Item = Result<Record, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop() {
                return Some(Ok(record));
            }
            match self.poll() {
                Ok(mut records) => {
                    records.reverse();
                    self.ready = records;
                }
                Err(failure) => return Some(Err(failure)),
            }
            if self.ready.is_empty() {
                std::thread::sleep(EVERY);
            }
        }
    }
}
