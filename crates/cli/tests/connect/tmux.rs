//! A real terminal: tmux, with a server of its own for each test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::sandbox::Sandbox;

const PATIENCE: Duration = portcullis_testkit::PATIENCE;

pub(crate) struct Tmux {
    socket: PathBuf,
}

/// What a terminal is begun with.
#[derive(Default)]
pub(crate) struct Begun<'a> {
    pub(crate) env: &'a [(&'a str, &'a str)],
    /// Where standard output goes, if not to the terminal.
    pub(crate) out: Option<&'a Path>,
}

impl Tmux {
    /// Runs `portcullis` with these arguments in a terminal, and keeps the
    /// terminal after its end.
    pub(crate) fn run(sandbox: &Sandbox, args: &[&str]) -> Self {
        Self::begin(sandbox, args, &Begun::default())
    }

    pub(crate) fn begin(sandbox: &Sandbox, args: &[&str], begun: &Begun<'_>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pc-tmux-{}-{n}", std::process::id());
        let tmux = Self {
            socket: std::env::temp_dir().join(name),
        };
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let env = begun
            .env
            .iter()
            .map(|(name, value)| format!("{name}='{value}'"));
        let env: Vec<String> = env.collect();
        let out = begun
            .out
            .map_or(String::new(), |file| format!(" >'{}'", file.display()));
        let home = sandbox.data();
        let home = home.parent().unwrap().display();
        let command = format!(
            "cd '{}' && env -i HOME='{home}' USER=tester TERM=screen PATH=/usr/bin:/bin \
             PORTCULLIS_DATA_DIR='{}' {} '{}' {}{out}; echo \"ended with $?.\"; exec sleep 600",
            sandbox.dir().display(),
            sandbox.data().display(),
            env.join(" "),
            env!("CARGO_BIN_EXE_portcullis"),
            quoted.join(" ")
        );
        tmux.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "110",
            "-y",
            "50",
            &command,
        ]);
        tmux
    }

    fn tmux(&self, args: &[&str]) -> String {
        let came = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("tmux, which ./test installs");
        assert!(came.status.success(), "{args:?}: {came:?}");
        String::from_utf8_lossy(&came.stdout).into_owned()
    }

    /// Presses keys, and waits for nothing.
    pub(crate) fn press(&self, keys: &[&str]) {
        let mut args = vec!["send-keys"];
        args.extend(keys);
        self.tmux(&args);
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.press(keys);
        // A prompt that is being drawn anew hears the next ones.
        std::thread::sleep(Duration::from_millis(150));
    }

    /// Presses a number until its choice is pointed at: none is for a moment after
    /// something else was typed.
    #[track_caller]
    pub(crate) fn point_at(&self, number: usize) {
        let (pointed, key) = (format!("> {number}. "), number.to_string());
        let began = Instant::now();
        while self.count(&pointed) == 0 {
            assert!(began.elapsed() < PATIENCE, "{}", self.screen());
            std::thread::sleep(Duration::from_millis(750));
            self.keys(&[&key]);
        }
    }

    /// What is on it, lines that it broke put together again.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-200"])
    }

    /// How often a part is on the screen.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.screen().matches(part).count()
    }

    /// Waits until a part is on the screen so often.
    #[track_caller]
    pub(crate) fn until(&self, part: &str, count: usize) {
        self.shown_after(Instant::now(), part, count);
    }

    /// The same for a part that is not there at `before`: the last moment at which it
    /// was not there yet.
    #[track_caller]
    pub(crate) fn shown_after(&self, mut before: Instant, part: &str, count: usize) -> Instant {
        let began = Instant::now();
        loop {
            let looked = Instant::now();
            let screen = self.screen();
            if screen.matches(part).count() >= count {
                return before;
            }
            before = looked;
            assert!(began.elapsed() < PATIENCE, "no {part:?} in\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Closes the terminal.
    pub(crate) fn close(&self) {
        self.tmux(&["kill-session"]);
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut end = Command::new("tmux");
        end.arg("-S").arg(&self.socket).arg("kill-server");
        // One whose terminal was closed has ended by itself.
        end.output().ok();
        std::fs::remove_file(&self.socket).ok();
    }
}
