//! The characters that a person does not see, by kind.

/// Whether a character has no shape of its own, whatever its purpose.
pub(super) const fn is_unseen(character: char) -> bool {
    is_tag(character) || selector(character).is_some() || is_zero_width(character) || is_directional(character)
}

pub(super) const fn is_tag(character: char) -> bool {
    matches!(character, '\u{e0000}'..='\u{e007f}')
}

/// The number of a variation selector among the 256, from zero; `None` for other characters.
pub(super) const fn selector(character: char) -> Option<u8> {
    match character {
        '\u{fe00}'..='\u{fe0f}' => Some((character as u32 - 0xfe00) as u8),
        '\u{e0100}'..='\u{e01ef}' => Some((character as u32 - 0xe0100 + 16) as u8),
        _ => None,
    }
}

/// Characters without width: spaces, joiners, fillers, invisible operators and marks of other systems.
pub(super) const fn is_zero_width(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
    )
}

pub(super) const fn is_directional(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
