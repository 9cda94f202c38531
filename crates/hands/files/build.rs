//! Switches the oracle on: with `PORTCULLIS_ORACLE=1` in the environment of the
//! build, every handle is asked where it really is. An environment variable and
//! not a cargo feature, so that no dependent can switch it on by accident.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "a build script reads its environment and prints to cargo"
)]

fn main() {
    println!("cargo:rerun-if-env-changed=PORTCULLIS_ORACLE");
    if std::env::var_os("PORTCULLIS_ORACLE").is_some_and(|value| value == "1") {
        println!("cargo:rustc-cfg=portcullis_oracle");
    }
}
