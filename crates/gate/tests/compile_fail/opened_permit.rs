//! What a permit is about cannot be taken out of it.

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

fn open(permit: portcullis_gate::Permit<hand::Look>) -> hand::Look {
    permit.deed
}

fn main() {}
