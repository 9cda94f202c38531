//! The hammer against small servers of known temperament: it bites, and it is not fooled.

mod temperaments;
