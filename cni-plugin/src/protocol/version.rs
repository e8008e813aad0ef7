//! The versions of the protocol. In a file of its own, because both configuration and reply depend on it.

/// The protocol versions the plugin speaks, oldest first. Runtimes and libraries compare them as strings.
pub const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// The newest version the plugin speaks.
pub const NEWEST: &str = VERSIONS[VERSIONS.len() - 1];

/// The versions whose results have the same shape. The reference library has one type for each group and accepts any of
/// its versions (`supportedVersions` of `pkg/types/020`, `040` and `100`).
const SHAPES: [&[&str]; 3] = [
    &["0.1.0", "0.2.0"],
    &["0.3.0", "0.3.1", "0.4.0"],
    &["1.0.0", "1.1.0"],
];

/// Returns true when results of both versions have the same shape.
pub(super) fn have_same_shape(one: &str, other: &str) -> bool {
    SHAPES
        .iter()
        .any(|shape| shape.contains(&one) && shape.contains(&other))
}

/// Returns major, minor and patch, or none when the text is not a version. Minor and patch may be absent, as in the
/// reference library.
pub(super) fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    let numbers = (
        parts.next()??,
        parts.next().unwrap_or(Some(0))?,
        parts.next().unwrap_or(Some(0))?,
    );
    parts.next().is_none().then_some(numbers)
}
