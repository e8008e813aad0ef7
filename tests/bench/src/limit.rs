//! Upper limits of measured figures.

use std::fmt;

/// A measured figure and the most it may be.
#[derive(Debug)]
pub struct Limit {
    /// The name of the figure, with its unit.
    pub of: String,
    /// The measured value.
    pub is: f64,
    /// The most it may be.
    pub at_most: f64,
}

impl Limit {
    /// Returns whether the limit is met. A figure that was not measured (NaN) does not meet it.
    pub fn is_met(&self) -> bool {
        self.is <= self.at_most
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.3}, limit {:.3}", self.of, self.is, self.at_most)
    }
}

/// Prints the exceeded limits, one per line, and the number of limits.
pub fn print(limits: &[Limit], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let exceeded: Vec<&Limit> = limits.iter().filter(|p| !p.is_met()).collect();
    for limit in &exceeded {
        writeln!(f, "EXCEEDED {limit}")?;
    }
    writeln!(f, "{} limits, {} exceeded", limits.len(), exceeded.len())
}
