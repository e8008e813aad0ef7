//! What was promised of a figure.

use std::fmt;

/// Something that must not be more than something else.
#[derive(Debug)]
pub struct Promise {
    /// The figure in words, with its unit.
    pub of: String,
    /// What it was measured to be.
    pub is: f64,
    /// The most it may be.
    pub at_most: f64,
}

impl Promise {
    /// A figure that was not measured is not kept.
    pub fn is_kept(&self) -> bool {
        self.is <= self.at_most
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:.3}, promised at most {:.3}",
            self.of, self.is, self.at_most
        )
    }
}

/// Those that were missed, a line each, and how many there were.
pub fn print(promises: &[Promise], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let missed: Vec<&Promise> = promises.iter().filter(|p| !p.is_kept()).collect();
    for promise in &missed {
        writeln!(f, "MISSED {promise}")?;
    }
    writeln!(f, "{} promises, {} missed", promises.len(), missed.len())
}
