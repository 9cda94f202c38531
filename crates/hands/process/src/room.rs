//! Room for handles: a server has one for every connection, and must not run
//! out of those it opens files with.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many handles as the system lets this process have, and says how
/// many that are.
pub fn take_all_handles() -> u64 {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    // Where it is refused, what there was stays.
    let raised = setrlimit(Resource::Nofile, wanted).is_ok();
    let limit = if raised { now.maximum } else { now.current };
    limit.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_as_the_system_allows() {
        let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(take_all_handles(), most);
        assert_eq!(
            getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
            most
        );
    }
}
