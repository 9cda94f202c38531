//! Redaction: keys stay, values go, and a planted secret never comes through.

use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [7; 32];

/// The text with each placeholder shortened to `<>`.
fn short(name: &str, text: &str) -> String {
    let mut shown = redact(name, text, &KEY).text;
    while let Some(at) = shown.find("<redacted sha256:") {
        let end = at + shown.get(at..).unwrap().find('>').unwrap();
        shown.replace_range(at..=end, "\u{1}");
    }
    shown.replace('\u{1}', "<>")
}

#[track_caller]
fn check(name: &str, text: &str, want: &str) {
    assert_eq!(short(name, text), want, "{name}: {text:?}");
}

#[test]
fn when_a_value_is_taken_out_then_its_length_and_keyed_hash_stand_for_it() {
    let one = redact(".env", "A=secret\nB='secret'\nC=other1\n", &KEY);
    let lines: Vec<_> = one
        .text
        .lines()
        .map(|line| line.get(2..).unwrap())
        .collect();
    assert_eq!(lines[0], lines[1]);
    assert_ne!(lines[0], lines[2]);
    assert!(
        lines[0].starts_with("<redacted sha256:") && lines[0].ends_with(" len 6>"),
        "{}",
        one.text
    );
    assert_eq!(one.values, 3);
    assert_ne!(
        one.text,
        redact(".env", "A=secret\nB='secret'\nC=other1\n", &[8; 32]).text
    );
}

#[test]
fn when_the_file_is_for_a_shell_then_names_are_kept() {
    check(
        ".env",
        "API_KEY=abc\nEMPTY=\n\nexport DB_URL=\"a=b\"\r\n",
        "API_KEY=<>\nEMPTY=\n\nexport DB_URL=<>\r\n",
    );
    check(
        ".env.local",
        "# OLD=abc\nA = b # c\nnonsense\n",
        "# <>\nA = <>\n<>\n",
    );
    check("a.sh", "A=\"one\ntwo\nthree\" B=x\nC=d\n", "A=<>\nC=<>\n");
    check(
        "a.sh",
        "A=$(cat <<EOF\nsecret=1\nEOF\n)\nB=1\n",
        "A=<>\nB=<>\n",
    );
    check(
        "a.sh",
        "cat <<-'EOF' > f\npassword=1\nEOF\nB=1\n",
        "<>\nB=<>\n",
    );
    check(
        "a.sh",
        "A=(one\n two)\nB=1 \\\n  2\nC=it's\nD=1",
        "A=<>\nB=<>\nC=<>\nD=<>",
    );
    check(".env", "A=\"never closed\nB=1\n", "A=<>");
    check(
        ".env",
        "KEY=\"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\"\nB=1\n",
        "KEY=<>\nB=<>\n",
    );
    check(
        ".env",
        "KEY=-----BEGIN PRIVATE KEY-----\nabc=\n-----END PRIVATE KEY-----\nB=1\n",
        "KEY=<>\nB=<>\n",
    );
}

#[test]
fn when_the_file_is_ini_toml_or_properties_then_sections_and_keys_are_kept() {
    check(
        "credentials",
        "[default]\naws_secret_access_key = abc\n; old\n",
        "[default]\naws_secret_access_key = <>\n; <>\n",
    );
    check(
        ".gitconfig",
        "[remote \"origin\"]\n\turl = x\n",
        "[remote \"origin\"]\n\turl = <>\n",
    );
    check(
        "a.toml",
        "a.b = \"\"\"x\ny=1\n\"\"\"\nlist = [\n 'x',\n 'y',\n]\n\"k\" = 1\n",
        "a.b = <>\nlist = <>\n\"k\" = <>\n",
    );
    check(
        "a.properties",
        "db.password:abc\\\n  def\nkey value\n",
        "db.password:<>\n<>\n",
    );
    check(
        "notes.txt",
        "just text\npassword: hunter2\nhttps://u:p@host\n",
        "<>\npassword: <>\nhttps:<>\n",
    );
    check(
        "key.txt",
        "c2VjcmV0IHZhbHVlIGhlcmU=\nAQIDBAUGBwgJ==\nabcdefghijkl=\n",
        "<>\n<>\n<>\n",
    );
}

#[test]
fn when_the_file_is_yaml_then_structure_is_kept() {
    check(
        "a.yml",
        "---\nuser: x\nlist:\n  - name: a\n    pass: b\n  - plain\n",
        "---\nuser: <>\nlist:\n  - name: <>\n    pass: <>\n  - <>\n",
    );
    check(
        "a.yaml",
        "cert: |\n  abc: 1\n\n  def\nnext: 1\n",
        "cert: <>\nnext: <>\n",
    );
    check(
        "a.yaml",
        "a: \"x\n  y: z\"\nb: {c: d,\n e: f}\n",
        "a: <>\nb: <>\n",
    );
    check(
        "a.yaml",
        "a: one\n  two: three\nb: &x\n  c: 1\n",
        "a: <>\nb: <>\n  c: <>\n",
    );
}

#[test]
fn when_the_file_is_json_then_it_stays_json() {
    let text = r#"{"a": {"b": [1, "x\"y", null]}, "sk_live_4eC39HqLyjWDarjt": true, "e": ""}"#;
    check(
        "a.json",
        text,
        r#"{"a": {"b": ["<>", "<>", "<>"]}, "<>": "<>", "e": ""}"#,
    );
    serde_json::from_str::<serde_json::Value>(&redact("a.json", text, &KEY).text).unwrap();
    check(
        "settings",
        "{ // old\n 'k': 'v' /* x */ }",
        "{ // <>\n \"k\": \"<>\" // <>\n }",
    );
    check(
        "a.json",
        "{\"a\": \"open, \"b\": 1}",
        "{\"a\": \"<>\"\"<>\"\"<>\"",
    );
}

#[test]
fn when_the_file_is_netrc_or_pem_then_its_words_are_kept() {
    check(
        ".netrc",
        "machine example.com login me\n password \"a b\"\n# x\nmacdef init\ncd x\n\ndefault login a password b",
        "machine <> login <>\n password <>\n# <>\nmacdef <>\n\ndefault login <> password <>",
    );
    check(
        "id.pem",
        "-----BEGIN PRIVATE KEY-----\nabc=\ndef\n-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\n<>\n-----END PRIVATE KEY-----\n",
    );
    check(
        "id.pem",
        "-----BEGIN PRIVATE KEY-----\nA=1\nB=2\n",
        "-----BEGIN PRIVATE KEY-----\n<>",
    );
    check(
        "id.pem",
        "-----BEGIN HIDDEN-----\nA=1\n-----END HIDDEN-----\n",
        "<>\n<>\n<>\n",
    );
}

/// What no name is made of, with what a format may stumble over in between.
fn canary() -> impl Strategy<Value = String> {
    let piece = "[a-zA-Z]{2}[0-9]([a-zA-Z]{1,2}[0-9]){3,6}";
    (
        proptest::collection::vec(piece, 1..4),
        proptest::sample::select(
            &[
                "", "=", ":", ": ", "+/", "\"", "'", "#", "\\n", " ", "\n", "\n  ", "==\n", "{",
                "]", "<<X\n", "-", "_", "é",
            ][..],
        ),
    )
        .prop_map(|(pieces, between)| {
            pieces.join(between) + if between.starts_with('=') { "==" } else { "" }
        })
}

fn holds(shown: &str, canary: &str) -> Option<String> {
    let chars: Vec<char> = canary.chars().collect();
    let is_word = |window: &&[char]| window.iter().all(char::is_ascii_alphanumeric);
    chars
        .windows(6)
        .filter(is_word)
        .map(|window| window.iter().collect::<String>())
        .find(|part| shown.contains(part))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_planted_value_never_comes_through(
        name in proptest::sample::select(&[".env", "a.sh", "a.ini", "a.properties", "a.toml", "a.yaml", "a.json", ".netrc", "id_rsa.pem", "unknown", "x.conf"][..]),
        parts in proptest::collection::vec((0usize..26, any::<bool>()), 1..14),
        canary in canary(), cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        const FRAMES: &[&str] = &[
            "KEY=@\n", "export KEY=\"@\"\n", "key: @\n", "key: '@'\n", "key: |\n  @\n  @\n", "- @\n", "# @\n",
            "{\"key\": \"@\", \"list\": [\"@\", {\"k\": \"@\"}]}\n", "\"key\": \"@\",\n", "[@]\n", "[section]\n", "@\n",
            "@=\n", "@: x\n", "key = \"\"\"\n@\n\"\"\"\n", "key = [\n\"@\",\n@]\n", "cat <<EOF\n@\nEOF\n",
            "machine h login @ password @\n", "-----BEGIN PRIVATE KEY-----\n@\n@==\n-----END PRIVATE KEY-----\n",
            "KEY=\"\n@\n", "  @", "key = one \\\n  @\n", "-----BEGIN X @-----\n", "/* @ */ // @\n", "macdef m\n@\n\n", "'@': @\r\n",
        ];
        let mut text: String = parts.iter()
            .map(|(frame, plant)| FRAMES[*frame].replace('@', if *plant { &canary } else { "plain" }))
            .collect();
        if let Some(cut) = cut {
            let mut at = cut.index(text.len() + 1);
            while !text.is_char_boundary(at) { at -= 1; }
            text.truncate(at);
        }
        let shown = redact(name, &text, &KEY).text;
        if let Some(part) = holds(&shown, &canary) {
            prop_assert!(false, "{part:?} of {canary:?} in {shown:?} of {text:?}");
        }
    }

    #[test]
    fn any_text_is_redacted_without_a_panic(text in "[ -~\n\r\té=:\"'#{}\\[\\]\\\\-]{0,200}", name in proptest::sample::select(&[".env", "a.yaml", "a.json", ".netrc", "x"][..])) {
        let shown = redact(name, &text, &KEY);
        prop_assert_eq!(shown.values, shown.text.matches("<redacted sha256:").count() as u64);
    }
}
