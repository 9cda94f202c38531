//! A permit cannot be copied.

mod hand {
    use portcullis_gate::{Deed, Permit, Settled};
    use portcullis_proto::{Facts, Failure};

    pub struct Key(());
    pub struct Look(());

    impl Look {
        pub fn new() -> Self {
            Self(())
        }
    }

    impl Deed for Look {
        type Key = Key;
        fn facts(&self) -> Facts {
            unimplemented!()
        }
    }

    pub fn look(permit: Permit<Look>) -> Result<(), Failure> {
        permit.spend(Key(()), |_, _, _| Ok(((), Settled::default())))
    }
}

fn copy(permit: portcullis_gate::Permit<hand::Look>) {
    let copy = Clone::clone(&permit);
    let _ = hand::look(permit);
    let _ = hand::look(copy);
}

fn main() {}
