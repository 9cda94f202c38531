//! Only the hand that made the deed can spend its permit.

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

fn elsewhere(permit: portcullis_gate::Permit<hand::Look>) {
    let _ = permit.spend(hand::Key(()), |_, _, _| {
        Ok(((), portcullis_gate::Settled::default()))
    });
}

fn main() {}
