//! Text that others wrote, made fit for one of our messages.

/// At most 300 characters on one line, with what looks like a token taken out.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .map(|word| if word.contains("eyJ") { "(token)" } else { word })
        .collect();
    words.join(" ").chars().take(300).collect()
}
