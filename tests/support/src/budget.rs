//! Time budgets of tests, scaled by one variable for slow machines.

use std::{sync::OnceLock, time::Duration};

/// The variable that multiplies every budget, such as `EVERGREEN_TEST_TIME_FACTOR=3`.
const FACTOR: &str = "EVERGREEN_TEST_TIME_FACTOR";

/// Returns the time a test allows for something that takes `budget` on an idle machine.
pub fn within(budget: Duration) -> Duration {
    static SCALE: OnceLock<f64> = OnceLock::new();
    budget.mul_f64(*SCALE.get_or_init(factor))
}

#[allow(
    clippy::disallowed_methods,
    reason = "an option of the person who runs the tests"
)]
fn factor() -> f64 {
    let Ok(text) = std::env::var(FACTOR) else {
        return 1.0;
    };
    let factor = text.parse().unwrap_or_else(|e| panic!("{FACTOR}={text}: {e}"));
    assert!(factor >= 1.0, "{FACTOR}={text} is less than 1");
    factor
}
