//! The writing half of a scope: every method is attempt, enter, act.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use portcullis_gate::{Attempt, Permit, Settled};
use portcullis_policy::Terms;
use portcullis_proto::{Access, Digest, Entity, Failure, Reason, RelPath, Verb};

use crate::deeds::{Changing, change};
use crate::guards::{Expecting, check, mismatch, must_be_there, takes_most};
use crate::options::{Changed, Expect, TextShape, WriteMode, WriteOptions};
use crate::pinning::{in_a_row, is_looked_into, may_be_exposed, with_options};
use crate::scoped::{INLINE_BYTES, ScopedFs, elsewhere};
use crate::showing::{self, Telling};
use crate::text::{
    self, Bom, Charset, Edit, EncodingChoice, PROBE_BYTES_MCP, WriteEncoding, WriteEnding,
    WriteText,
};
use crate::writing::{
    Before, Content, Place, Receipt, Rules, Want, digest, digest_file, make_directory, publish,
    set_mode,
};

/// How often a change that met another one is tried again.
const TRIES: usize = 64;

/// How text is added to a file: as the file has it, with no mark in its middle.
const CONTINUED: WriteText = WriteText {
    encoding: WriteEncoding::KeepOrUtf8,
    bom: Bom::No,
    line_ending: WriteEnding::Keep,
};

/// Makes the new content of what was before. Told, too, whether what was before
/// is not what the caller saw.
type Make = dyn Fn(Option<&Before<'_>>, bool) -> Result<Made, Failure> + Send + Sync;

/// New content, and how it is written where it is text.
struct Made {
    bytes: Arc<Vec<u8>>,
    text: Option<TextShape>,
}

impl Made {
    fn text(bytes: Vec<u8>, charset: Charset) -> Self {
        Self {
            text: Some(TextShape::of(&bytes, charset)),
            bytes: Arc::new(bytes),
        }
    }
}

/// A change of one file, before it is tried.
struct Plan<'a> {
    verb: Verb,
    path: &'a str,
    want: Want,
    options: &'a WriteOptions,
    /// Digest of what the caller sent.
    shown: Digest,
    /// The size it comes to, where that is known before the file is read.
    size: Option<u64>,
    make: Arc<Make>,
}

/// What one try of a change learnt, besides how it ended.
#[derive(Debug, Default)]
struct Learnt {
    /// It would have taken most of the file away, and nobody was asked.
    shrinks: AtomicBool,
    /// Another writer was faster.
    outrun: AtomicBool,
    /// It does not fit what is there, and would not the next time.
    settled: AtomicBool,
    /// It was made on a change of somebody else's, which its caller has not seen.
    rebased: AtomicBool,
    /// How its text is written.
    text: Mutex<Option<TextShape>>,
}

impl Learnt {
    fn shape(&self, text: Option<TextShape>) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn text(&self) -> Option<TextShape> {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScopedFs {
    /// Writes bytes.
    pub async fn write_bytes(
        &self,
        path: &str,
        bytes: impl Into<Arc<Vec<u8>>>,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let bytes: Arc<Vec<u8>> = bytes.into();
        let shown = if bytes.len() as u64 <= INLINE_BYTES {
            digest(&bytes)
        } else {
            let hashed = Arc::clone(&bytes);
            elsewhere(move || Ok(digest(&hashed))).await?
        };
        self.put(Plan {
            verb: Verb::Write,
            path,
            want: Want::FileOrNothing,
            options,
            shown,
            size: Some(bytes.len() as u64),
            make: Arc::new(move |_, _| {
                Ok(Made {
                    bytes: Arc::clone(&bytes),
                    text: None,
                })
            }),
        })
        .await
    }

    /// Writes text, in the encoding and with the line ends the file has, unless
    /// told otherwise.
    pub async fn write_text(
        &self,
        path: &str,
        content: String,
        how: WriteText,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        self.put(Plan {
            verb: Verb::Write,
            path,
            want: Want::FileOrNothing,
            options,
            shown: if how == WriteText::default() {
                digest(content.as_bytes())
            } else {
                in_a_row([content.as_bytes(), format!("{how:?}").as_bytes()])
            },
            size: Some(content.len() as u64),
            make: Arc::new(move |before, _| {
                let old = before.and_then(|before| before.bytes);
                let (bytes, charset) = text::encode_in(&content, how, old)?;
                Ok(Made::text(bytes, charset))
            }),
        })
        .await
    }

    /// Writes JSON, indented and with a final newline.
    pub async fn write_json(
        &self,
        path: &str,
        value: &serde_json::Value,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let mut bytes = serde_json::to_vec_pretty(value)
            .map_err(|error| Failure::from(Reason::BadJson).detail(error))?;
        bytes.push(b'\n');
        self.write_bytes(path, bytes, options).await
    }

    /// Adds text to the end of a file, in its own encoding, or makes the file.
    pub async fn append(
        &self,
        path: &str,
        content: String,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        self.put(Plan {
            verb: Verb::Append,
            path,
            want: Want::FileOrNothing,
            options,
            shown: digest(content.as_bytes()),
            size: None,
            make: Arc::new(move |before, _| {
                let Some(before) = before else {
                    let bytes = content.as_bytes().to_vec();
                    return Ok(Made::text(bytes, Charset::UTF_8));
                };
                let old = whole(before)?;
                let (added, charset) = text::encode_in(&content, CONTINUED, Some(old))?;
                Ok(Made::text([old, &added].concat(), charset))
            }),
        })
        .await
    }

    /// Replaces exact, unambiguous pieces of a file; every other byte stays.
    pub async fn edit(
        &self,
        path: &str,
        edits: Vec<Edit>,
        encoding: EncodingChoice,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let named = format!("{encoding:?}");
        let told = edits.iter().flat_map(|edit| {
            let all: &[u8] = if edit.all { b"all" } else { b"one" };
            [edit.old.as_bytes(), edit.new.as_bytes(), all]
        });
        let shown = in_a_row(told.chain([named.as_bytes()]));
        self.put(Plan {
            verb: Verb::Edit,
            path,
            want: Want::File,
            options,
            shown,
            size: None,
            make: Arc::new(move |before, moved_on| {
                let old = whole(before.ok_or(Reason::NotFound)?)?;
                let planned = text::plan(old, &edits, encoding, PROBE_BYTES_MCP);
                let planned = planned.map_err(|why| {
                    // It fitted what the caller saw: that very text was changed.
                    let overlaps = moved_on && why.reason() == Reason::TextNotFound;
                    if overlaps { mismatch() } else { why }
                })?;
                let bytes = text::apply(old, &planned.splices);
                Ok(Made::text(bytes, planned.charset))
            }),
        })
        .await
    }

    /// Makes a directory, and those above it. One that is there is as good.
    pub async fn mkdir(&self, path: &str) -> Result<Receipt, Failure> {
        let permit = self
            .changing(Verb::Mkdir, path, None, |path, terms| {
                self.deed(Verb::Mkdir, path, terms, Want::DirectoryOrNothing)
            })
            .await?;
        let (undo, modes) = (self.undo(), self.modes());
        elsewhere(move || {
            change(permit, |deed, _, live| {
                let receipt = make_directory(deed.place, live, undo?.as_deref(), modes.directory)?;
                Ok((receipt, Settled::default()))
            })
        })
        .await
    }

    /// Changes the permission bits of a file or directory.
    pub async fn chmod(&self, path: &str, mode: u32) -> Result<Receipt, Failure> {
        let shown = digest(&mode.to_le_bytes());
        let permit = self
            .changing(Verb::Chmod, path, Some(shown), |path, terms| {
                if mode & !0o777 != 0 {
                    return Err(Failure::new(
                        Reason::BadArguments,
                        "Only the nine permission bits can be set.",
                    ));
                }
                let mut deed = self.deed(Verb::Chmod, path, terms, Want::Existing)?;
                deed.unkept = self.declared().lacks_room_for(0);
                deed.shown = Some(shown);
                Ok(deed)
            })
            .await?;
        let undo = self.undo();
        let path = permit.deed().place.path.clone();
        let reads = permit.terms().reads_unasked(&path) && self.may_read();
        let seen = self.last_seen(&path);
        let (receipt, was_seen) = elsewhere(move || {
            change(permit, |deed, _, live| {
                let base = deed.place.base.as_ref().ok_or(Reason::NotFound)?;
                // A change of the bits is no change of what was seen.
                let was_seen = match seen.filter(|_| base.meta.entity == Entity::File) {
                    Some(version) => {
                        let hash = digest_file(&base.handle)?;
                        base.meta.is_version(&version, Some(&hash))
                    }
                    None => false,
                };
                let receipt = set_mode(&deed.place, mode, Verb::Chmod, live, undo?.as_deref())?;
                Ok(((receipt, was_seen), Settled::default()))
            })
        })
        .await?;
        if was_seen {
            self.note_seen(&path, &receipt.version);
        }
        // Of a directory nothing is told by its size.
        Ok(receipt.shown_to(reads))
    }

    /// Tries a change of one file until it meets no other.
    async fn put(&self, plan: Plan<'_>) -> Result<Changed, Failure> {
        let mut asks_about_shrinking = false;
        for _ in 1..TRIES {
            let _turn = self.tickets().wait(plan.path).await;
            let learnt = Arc::new(Learnt::default());
            match self.put_once(&plan, asks_about_shrinking, &learnt).await {
                Ok(changed) => return Ok(changed),
                Err(_) if learnt.shrinks.load(Ordering::Relaxed) && !asks_about_shrinking => {
                    asks_about_shrinking = true;
                }
                Err(_) if learnt.outrun.load(Ordering::Relaxed) => {}
                Err(failure) => return Err(failure),
            }
        }
        let last = Arc::new(Learnt::default());
        self.put_once(&plan, asks_about_shrinking, &last).await
    }

    async fn put_once(
        &self,
        plan: &Plan<'_>,
        asks_about_shrinking: bool,
        learnt: &Arc<Learnt>,
    ) -> Result<Changed, Failure> {
        let shown = with_options(Some(plan.shown), plan.options);
        let permit = self
            .changing(plan.verb, plan.path, shown, |path, terms| {
                let mut deed = self
                    .deed(plan.verb, path, terms, plan.want)
                    .map_err(|why| taken(why, plan.options.mode))?;
                deed.shown = shown;
                let size = deed.place.base.as_ref().map(|base| base.meta.size);
                must_be_there(&deed.place, plan.options.mode)?;
                if !plan.options.parents && !deed.place.missing.is_empty() {
                    return Err(Failure::new(
                        Reason::NotFound,
                        "The directory it would stand in is not there.",
                    )
                    .hint("Make the directory first."));
                }
                let most = plan.options.max_bytes;
                if plan.verb == Verb::Edit && size.is_some_and(|size| size > most) {
                    let telling = Telling {
                        verb: plan.verb,
                        tells: self.tells(&deed.place.path, terms),
                    };
                    return Err(telling.of(Failure::new(
                        Reason::TooLarge,
                        format!("Files of up to {most} bytes are edited, and it is larger."),
                    )));
                }
                deed.unkept = size.is_some_and(|size| self.declared().lacks_room_for(size));
                let told = size.zip(plan.size);
                deed.shrinks = asks_about_shrinking
                    || told.is_some_and(|(before, after)| text::shrinks(before, after));
                Ok(deed)
            })
            .await?;
        let path = permit.deed().place.path.clone();
        let may_read = permit.terms().reads_unasked(&path) && self.may_read();
        let may_see = may_read && self.may_be_shown();
        let telling = Telling {
            verb: plan.verb,
            // Whoever names the hash of it has read it.
            tells: self.tells(&path, permit.terms())
                || (may_read && matches!(plan.options.expect, Expect::Hash(_))),
        };
        let asked_about_shrinking = permit.deed().shrinks;
        let (expecting, mode) = (
            self.expecting(&path, &plan.options.expect),
            plan.options.mode,
        );
        let rules = self.rules(plan.verb, plan.options);
        let undo = self.undo();
        let limit = permit.terms().max_file_bytes().min(plan.options.max_bytes);
        // What adds or edits is made on what is there now, if it still fits;
        // what replaces everything is not.
        let rebases = plan.verb != Verb::Write && plan.options.expect == Expect::LastSeen;
        let ignored_by = (plan.options.classify)
            .then(|| self.ignored_by(&path, permit.terms()))
            .flatten();
        let (make, told) = (Arc::clone(&plan.make), Arc::clone(learnt));
        let learnt = Arc::clone(learnt);
        let published = elsewhere(move || {
            change(permit, |deed, terms, live| {
                let expected = expecting.replacing(terms, &deed.place, mode)?;
                let published = publish(deed.place, &rules, live, undo?.as_deref(), |before| {
                    let fits = check(before, &expected);
                    let moved_on = fits.is_err();
                    if !rebases || before.is_none() {
                        learnt.settled.store(moved_on, Ordering::Relaxed);
                        fits?;
                    }
                    learnt.rebased.store(moved_on, Ordering::Relaxed);
                    // What is refused on what is there now is refused again.
                    let Made { bytes, text } = make(before, moved_on)
                        .inspect_err(|_| learnt.settled.store(true, Ordering::Relaxed))
                        .map_err(|why| telling.of(why))?;
                    let size = bytes.len() as u64;
                    if size > limit {
                        return Err(telling.of(Failure::new(
                            Reason::TooLarge,
                            format!("It would have {size} bytes; {limit} are the most."),
                        )));
                    }
                    let was = before.map_or(0, |before| before.meta.size);
                    if text::shrinks(was, size) && !asked_about_shrinking {
                        learnt.shrinks.store(true, Ordering::Relaxed);
                        return Err(takes_most());
                    }
                    learnt.shape(text);
                    Ok(Content::Bytes(bytes))
                })
                .inspect_err(|why| {
                    let outrun = rebases
                        && why.reason() == Reason::VersionMismatch
                        && !learnt.settled.load(Ordering::Relaxed);
                    learnt.outrun.store(outrun, Ordering::Relaxed);
                })?;
                let settled = settled(&published.receipt);
                Ok((published, settled))
            })
        })
        .await?;
        let diff = showing::of_written(&published, may_see);
        let (bytes, created) = (published.receipt.bytes, published.receipt.created);
        let mut receipt = published.receipt;
        if told.rebased.load(Ordering::Relaxed) {
            // Somebody's change is in it that the caller has not seen: nothing it
            // is told lets it write over that.
            receipt = receipt.rebased_over(self.last_seen(&path), telling.tells);
        } else if plan.verb == Verb::Write || telling.tells || created || !self.is_hooked() {
            self.note_seen(&receipt.path, &receipt.version);
        }
        receipt = receipt.shown_to(may_see);
        receipt.bytes = bytes.filter(|_| telling.tells || created);
        Ok(Changed {
            receipt,
            diff,
            text: told.text().filter(|_| telling.tells || created),
            ignored_by,
        })
    }

    /// From attempt to permit, for a change of one place, and of what is written
    /// there as far as the call tells.
    pub(crate) async fn changing(
        &self,
        verb: Verb,
        alleged: &str,
        shown: Option<Digest>,
        resolve: impl Fn(&RelPath, &Terms) -> Result<Changing, Failure>,
    ) -> Result<Permit<Changing>, Failure> {
        self.look_at_undo().await;
        let (attempt, path) = self.attempted(verb, alleged, None, shown)?;
        attempt.enter(|terms| resolve(&path, terms)).await
    }

    /// The attempt of a change, and the path it names first.
    fn attempted(
        &self,
        verb: Verb,
        alleged: &str,
        to: Option<(&Self, &str)>,
        shown: Option<Digest>,
    ) -> Result<(Attempt, RelPath), Failure> {
        let mut attempt = self.attempt(verb, alleged)?;
        if let Some(shown) = shown {
            attempt = attempt.showing(shown);
        }
        let path = attempt.path();
        if let Some((to, destination)) = to {
            attempt = attempt.and(to.declared().entry(), destination, Access::Write)?;
        }
        if verb == Verb::Move {
            attempt = attempt.and(self.declared().entry(), alleged, Access::Delete)?;
        }
        Ok((attempt, path))
    }

    /// As [`changing`](Self::changing), where what is asked about may stand deep in
    /// what was named: `look` finds it, on a thread that may wait for the disk.
    pub(crate) async fn changing_after_look(
        &self,
        verb: Verb,
        alleged: &str,
        to: Option<(&Self, &str)>,
        shown: Option<Digest>,
        resolve: impl Fn(&RelPath, &Terms) -> Result<Changing, Failure>,
        look: impl Fn(&mut Changing, &Terms) -> Result<(), Failure> + Clone + Send + 'static,
    ) -> Result<Permit<Changing>, Failure> {
        for scope in [Some(self), to.map(|(to, _)| to)].into_iter().flatten() {
            scope.look_at_undo().await;
        }
        let (attempt, path) = self.attempted(verb, alleged, to, shown)?;
        let may_read = self.may_read();
        attempt
            .enter_in_time(|terms| {
                let (resolved, look) = (resolve(&path, &terms), look.clone());
                async move {
                    let mut deed = resolved?;
                    if !is_looked_into(&deed) {
                        return Ok(deed);
                    }
                    elsewhere(move || {
                        look(&mut deed, &terms)?;
                        may_be_exposed(&deed, may_read)?;
                        Ok(deed)
                    })
                    .await
                }
            })
            .await
    }

    pub(crate) fn deed(
        &self,
        verb: Verb,
        path: &RelPath,
        terms: &Terms,
        want: Want,
    ) -> Result<Changing, Failure> {
        let declared = self.declared();
        Ok(Changing {
            verb,
            place: Place::resolve(declared.entry(), declared.root(), path, terms, want)?,
            to: None,
            shown: None,
            pinned: None,
            content: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            exposes: false,
            unkept: false,
        })
    }

    pub(crate) fn destination(&self, alleged: &str, terms: &Terms) -> Result<Place, Failure> {
        let path = RelPath::parse(alleged)?;
        let declared = self.declared();
        let want = Want::FileOrNothing;
        match Place::resolve(declared.entry(), declared.root(), &path, terms, want) {
            Err(failure) if failure.reason() == Reason::IsDirectory => {
                Err(Failure::from(Reason::AlreadyExists)
                    .hint("A directory is there. Name where in it the new name should stand."))
            }
            other => other,
        }
    }

    pub(crate) fn rules(&self, verb: Verb, options: &WriteOptions) -> Rules {
        let modes = self.modes();
        Rules {
            verb,
            replace: options.mode != WriteMode::Create,
            read_only_too: options.read_only_too,
            new_file: modes.file,
            new_directory: modes.directory,
            permissions: options.permissions,
            durable: options.durable,
        }
    }

    /// What this caller expects at `path`.
    pub(crate) fn expecting(&self, path: &RelPath, expect: &Expect) -> Expecting {
        Expecting {
            expect: expect.clone(),
            seen: self.last_seen(path),
            may_read: self.may_read(),
        }
    }
}

/// What is no file is in the way of a new one all the same.
fn taken(why: Failure, mode: WriteMode) -> Failure {
    let stands = matches!(why.reason(), Reason::IsDirectory | Reason::SpecialFile);
    if mode == WriteMode::Create && stands {
        return Reason::AlreadyExists.into();
    }
    why
}

fn whole<'b>(before: &Before<'b>) -> Result<&'b [u8], Failure> {
    before.bytes.ok_or_else(|| {
        Failure::new(
            Reason::TooLarge,
            "The file is too large to be changed in part.",
        )
    })
}

pub(crate) fn settled(receipt: &Receipt) -> Settled {
    Settled {
        bytes: receipt.bytes,
        hash: receipt.hash,
        counts: None,
    }
}
