//! Whether a word looks like the name of a setting rather than like a secret.
//!
//! A line of base64 that ends in `=` looks like a key without a value, and a
//! token before a colon like a key with one. So a name is made of words: letters
//! that could be spoken, in one case or in camel case, with few digits, and
//! those at the end of a word.

const MAX_NAME: usize = 64;
const MAX_WORDS: usize = 8;
const MAX_WORD: usize = 24;
const MAX_DIGITS: usize = 4;
const MAX_WORD_DIGITS: usize = 3;
/// The longest run of consonants in a word of more than [`SHORT_WORD`] letters.
const MAX_CONSONANTS: usize = 6;
const SHORT_WORD: usize = 6;
/// The most upper-case runs of a word in camel case.
const MAX_HUMPS: usize = 4;

/// Whether `name` may be shown.
pub(super) fn is_name(name: &str) -> bool {
    let bare = name.trim_start_matches(['_', '$', '@', '.', '-']);
    let marks = name.len() - bare.len();
    let starts_well = bare.starts_with(|first: char| first.is_ascii_alphabetic());
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    let mut words = 0;
    let is_made_of_words = bare.split(['_', '-', '.']).all(|word| {
        words += 1;
        word.is_empty() || is_word(word)
    });
    starts_well
        && marks <= 2
        && name.len() <= MAX_NAME
        && digits <= MAX_DIGITS
        && is_made_of_words
        && words <= MAX_WORDS
}

fn is_word(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    if word.len() - letters.len() > MAX_WORD_DIGITS
        || letters.len() > MAX_WORD
        || !letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    {
        return false;
    }
    (letters.len() <= SHORT_WORD || longest_consonants(letters) <= MAX_CONSONANTS)
        && is_cased(letters)
}

fn longest_consonants(letters: &str) -> usize {
    let vowel = |c: char| matches!(c.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u' | 'y');
    letters.split(vowel).map(str::len).max().unwrap_or(0)
}

/// One case throughout, or camel case with humps of some length.
fn is_cased(letters: &str) -> bool {
    let upper = |byte: &u8| byte.is_ascii_uppercase();
    let bytes = letters.as_bytes();
    if bytes.iter().all(upper) || !bytes.iter().any(upper) {
        return true;
    }
    let humps = bytes.chunk_by(|one, next| upper(one) == upper(next));
    let humps = humps.filter(|run| run.first().is_some_and(upper)).count();
    humps <= MAX_HUMPS && letters.len() >= 3 * humps
}
