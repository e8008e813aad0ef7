//! Text from elsewhere, made safe for our messages.

/// Returns at most 300 characters on one line, with anything like a token removed.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .map(|word| if word.contains("eyJ") { "(token)" } else { word })
        .collect();
    words.join(" ").chars().take(300).collect()
}
