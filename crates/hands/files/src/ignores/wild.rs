//! One pattern of an ignore file, matched byte by byte as git matches it.
//!
//! Written from git's documented and observed behaviour instead of on top of a
//! glob library: those read braces as alternatives, know no `[[:alpha:]]`, take
//! an unclosed `[` literally, and give up on a whole file of many rules. Time
//! is bounded by the pattern's length times the path's, whatever the stars.

/// A pattern, ready to be matched.
#[derive(Clone, Debug)]
pub(super) enum Wild {
    /// No special character.
    Literal(Box<[u8]>),
    /// A star, then no special character: `*.log`.
    Suffix(Box<[u8]>),
    /// Anything else, as states of an automaton.
    States(Box<[Token]>),
}

/// One state: what moves on to the next.
#[derive(Clone, Debug)]
pub(super) enum Token {
    Byte(u8),
    /// `?`: one byte that is not `/`.
    Any,
    /// `*`: bytes that are not `/`.
    Star,
    /// `**` between slashes: any bytes.
    StarStar,
    /// The next two states may be left out: `**/` also means "here".
    SkipTwo,
    /// `[…]`: one byte of the set.
    Class(Box<[bool; 256]>),
}

/// Whether a pattern is about a name or about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Name,
    Path,
}

impl Wild {
    /// Parses `pattern`; `None` when it can match nothing.
    pub(super) fn parse(pattern: &[u8], about: About) -> Option<Self> {
        let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let Some(first) = pattern.iter().position(special) else {
            return Some(Self::Literal(pattern.into()));
        };
        if about == About::Name
            && let Some((b'*', rest)) = pattern.split_first()
            && !rest.iter().any(special)
        {
            return Some(Self::Suffix(rest.into()));
        }
        let mut tokens = Vec::with_capacity(pattern.len());
        let mut at = 0;
        while let Some(&byte) = pattern.get(at) {
            at += 1;
            match byte {
                b'?' => tokens.push(Token::Any),
                b'*' => {
                    let stars_at = at - 1;
                    while pattern.get(at) == Some(&b'*') {
                        at += 1;
                    }
                    // git compares what is before the first special character
                    // on its own, so a `**` that comes first counts as free on
                    // its left side, like one after a slash.
                    let double =
                        at - stars_at > 1 && (stars_at == first || pattern[stars_at - 1] == b'/');
                    let rest = &pattern[at..];
                    if about == About::Path && double && rest.first() == Some(&b'/') {
                        at += 1;
                        // `**/**/` says no more than `**/`.
                        let repeated = matches!(
                            tokens.as_slice(),
                            [.., Token::SkipTwo, Token::StarStar, Token::Byte(b'/')]
                        );
                        if !repeated {
                            let dirs = [Token::SkipTwo, Token::StarStar, Token::Byte(b'/')];
                            tokens.extend(dirs);
                        }
                    } else if about == About::Path
                        && double
                        && (rest.is_empty() || rest.starts_with(b"\\/"))
                    {
                        tokens.push(Token::StarStar);
                    } else {
                        tokens.push(Token::Star);
                    }
                }
                b'[' => {
                    let (set, after) = class(pattern, at)?;
                    tokens.push(Token::Class(set));
                    at = after;
                }
                b'\\' => {
                    tokens.push(Token::Byte(*pattern.get(at)?));
                    at += 1;
                }
                byte => tokens.push(Token::Byte(byte)),
            }
        }
        Some(Self::States(tokens.into()))
    }

    /// Whether the whole of `text` matches.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Literal(literal) => **literal == *text,
            Self::Suffix(suffix) => text.ends_with(suffix),
            Self::States(tokens) => run(tokens, text),
        }
    }
}

/// Runs all ways through `tokens` at once, so nothing is tried twice.
fn run(tokens: &[Token], text: &[u8]) -> bool {
    // Most patterns fit one word, which then never leaves the registers.
    let words = tokens.len() / 64 + 1;
    let (mut now, mut next) = (vec![0u64; words], vec![0u64; words]);
    enter(tokens, &mut now, 0);
    for &byte in text {
        next.fill(0);
        let mut alive = false;
        for (word, &bits) in now.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let state = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some(token) = tokens.get(state) else {
                    continue;
                };
                let to = match token {
                    Token::Byte(wanted) if *wanted == byte => state + 1,
                    Token::Any if byte != b'/' => state + 1,
                    Token::Class(set) if byte != b'/' && set[usize::from(byte)] => state + 1,
                    Token::Star if byte != b'/' => state,
                    Token::StarStar => state,
                    Token::Byte(_)
                    | Token::Any
                    | Token::Class(_)
                    | Token::Star
                    | Token::SkipTwo => continue,
                };
                enter(tokens, &mut next, to);
                alive = true;
            }
        }
        if !alive {
            return false;
        }
        std::mem::swap(&mut now, &mut next);
    }
    now[tokens.len() / 64] & (1 << (tokens.len() % 64)) != 0
}

/// Marks `state`, and what is reached from it without a byte.
fn enter(tokens: &[Token], states: &mut [u64], mut state: usize) {
    loop {
        let (word, bit) = (state / 64, 1 << (state % 64));
        if states[word] & bit != 0 {
            return;
        }
        states[word] |= bit;
        match tokens.get(state) {
            Some(Token::Star | Token::StarStar) => state += 1,
            Some(Token::SkipTwo) => {
                enter(tokens, states, state + 3);
                state += 1;
            }
            Some(Token::Byte(_) | Token::Any | Token::Class(_)) | None => return,
        }
    }
}

/// Parses the set whose `[` is before `at`; says where the pattern goes on.
fn class(pattern: &[u8], mut at: usize) -> Option<(Box<[bool; 256]>, usize)> {
    let mut set = Box::new([false; 256]);
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    // The byte a range may start from.
    let mut low: Option<u8> = None;
    let first = at;
    loop {
        let byte = *pattern.get(at)?;
        match byte {
            b']' if at > first => break,
            b'-' if low.is_some() && pattern.get(at + 1).is_some_and(|&next| next != b']') => {
                at += 1;
                at += usize::from(pattern[at] == b'\\');
                let high = *pattern.get(at)?;
                for byte in low.take()?..=high {
                    set[usize::from(byte)] = true;
                }
            }
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let name_at = at + 2;
                let close = name_at + memchr::memchr(b']', &pattern[name_at..])?;
                if let Some((b':', name)) = pattern[name_at..close].split_last() {
                    let member = posix(name)?;
                    for byte in 0..=u8::MAX {
                        set[usize::from(byte)] |= member(byte);
                    }
                    low = None;
                    at = close;
                } else {
                    // No `:]`: a bracket like any other character.
                    set[usize::from(b'[')] = true;
                    low = Some(b'[');
                }
            }
            mut byte => {
                if byte == b'\\' {
                    at += 1;
                    byte = *pattern.get(at)?;
                }
                set[usize::from(byte)] = true;
                low = Some(byte);
            }
        }
        at += 1;
    }
    if negated {
        set.iter_mut().for_each(|member| *member = !*member);
    }
    Some((set, at + 1))
}

/// The members of a named class, ASCII only as in git.
fn posix(name: &[u8]) -> Option<fn(u8) -> bool> {
    Some(match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
