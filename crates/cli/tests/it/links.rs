//! Lending a machine from a terminal: made, listed, removed, and on the record.

use portcullis_store::{Lent, Store};

use crate::sandbox::Sandbox;

/// Later than the tokens these tests make, and before they end.
fn pair(sandbox: &Sandbox, token: &str, host: &str) {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    let lent = Lent {
        named: None,
        host,
        root: "/home/ada/work",
        surface: "{}",
    };
    let now = u64::try_from(now.as_millis()).unwrap();
    let paired = Store::new(sandbox.data()).pair(token, lent, now).unwrap();
    assert!(paired.is_some());
}

fn create(sandbox: &Sandbox, args: &[&str]) -> (String, String) {
    let came = sandbox
        .run(&[&["link", "create"][..], args].concat())
        .with(0);
    let words: Vec<&str> = came.out.split_whitespace().collect();
    assert_eq!(words[..2], ["portcullis", "connect"], "{came:?}");
    assert_eq!(words.len(), 4, "the command stands alone");
    assert!(came.err.contains("npx @n8n/computer-use"), "{came:?}");
    (words[2].to_owned(), words[3].to_owned())
}

#[test]
fn a_machine_is_lent_listed_and_removed() {
    let sandbox = Sandbox::new();
    sandbox.run(&["link", "create"]).with(1).err_has("no user");
    sandbox.run(&["user", "add", "ada"]).with(0);
    sandbox.run(&["user", "add", "bob"]).with(0);
    sandbox
        .run(&["link", "list"])
        .with(0)
        .out_has("portcullis link create");
    let (url, token) = create(&sandbox, &[]);
    assert_eq!(url, "http://127.0.0.1:7654");
    assert!(token.starts_with("gw_") && token.len() == 35);
    pair(&sandbox, &token, "ada@laptop");
    let (url, token) = create(
        &sandbox,
        &["--user", "bob", "--url", "https://files.example/"],
    );
    assert_eq!(url, "https://files.example");
    pair(&sandbox, &token, "bob@desk");
    let listed = sandbox.run(&["link", "list"]).with(0).out;
    assert!(
        listed.contains("laptop") && listed.contains("desk"),
        "{listed}"
    );
    let own = sandbox.run(&["link", "list", "--user", "bob"]).with(0).out;
    assert!(!own.contains("laptop") && own.contains("✓ paired"), "{own}");
    sandbox
        .run(&["link", "remove", "laptop", "--user", "bob"])
        .with(1)
        .err_has("There is no machine");
    sandbox
        .run(&["link", "remove", "desk", "--user", "bob"])
        .with(0);
    let id = listed
        .split_whitespace()
        .find(|word| word.starts_with("m_"))
        .unwrap();
    sandbox.run(&["link", "remove", id]).with(0);
    sandbox
        .run(&["link", "remove", id])
        .with(1)
        .err_has("hint: portcullis link list");
    let audit = sandbox.run(&["audit", "query", "--operation", "administer"]);
    assert!(!audit.out.contains(&token) && !audit.err.contains(&token));
}
