//! Format-aware variants of valid JSON, and how many of them to run.

use serde_json::{Map, Number, Value, json};

use crate::robustness::damaged_files::Numbers;

/// Returns the seed of the variants: `FUZZ_SEED`, or 1.
pub(super) fn seed() -> u64 {
    number_of("FUZZ_SEED").unwrap_or(1)
}

/// Returns how many variants of each input to run: `FUZZ_ROUNDS`, or a number that takes seconds.
pub(super) fn rounds() -> usize {
    number_of("FUZZ_ROUNDS").unwrap_or(2000) as usize
}

#[expect(
    clippy::disallowed_methods,
    reason = "an option of the person who runs the test"
)]
fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// Returns the document with one to three values replaced.
pub(super) fn distorted(document: &Value, numbers: &mut Numbers) -> Value {
    let mut variant = document.clone();
    for _ in 0..=numbers.below(3) {
        distort(&mut variant, numbers);
    }
    variant
}

fn distort(value: &mut Value, numbers: &mut Numbers) {
    let deeper = numbers.below(8) != 0;
    match value {
        Value::Object(fields) if deeper && !fields.is_empty() => {
            let chosen = numbers.below(fields.len());
            fields
                .values_mut()
                .skip(chosen)
                .take(1)
                .for_each(|field| distort(field, numbers));
        }
        Value::Array(entries) if deeper && !entries.is_empty() => {
            let chosen = numbers.below(entries.len());
            distort(&mut entries[chosen], numbers);
        }
        found => *found = odd_value(found, numbers),
    }
}

/// Returns a value that a program expecting `usual` may not handle.
fn odd_value(usual: &Value, numbers: &mut Numbers) -> Value {
    const NUMBERS: [i64; 9] = [
        0,
        -1,
        1,
        65_535,
        65_536,
        2_147_483_648,
        4_294_967_295,
        i64::MIN,
        i64::MAX,
    ];
    const TEXTS: [&str; 14] = [
        "",
        " ",
        "0",
        "-",
        "1-",
        "99999999999999999999",
        "1.0.0",
        "null",
        "\u{0}",
        "\u{1f600}",
        "::",
        "[::]:0",
        "0.0.0.0/0",
        "%s%n../../",
    ];
    match numbers.below(11) {
        0 => Value::Null,
        1 => json!(numbers.below(2) == 0),
        2 | 3 => json!(NUMBERS[numbers.below(NUMBERS.len())]),
        4 => Number::from_f64(1e308).map_or(Value::Null, Value::Number),
        5 | 6 => json!(TEXTS[numbers.below(TEXTS.len())]),
        7 => json!("x".repeat(1 << numbers.below(17))),
        8 => Value::Array(vec![usual.clone(); numbers.below(4)]),
        9 => Value::Object(Map::from_iter([(
            TEXTS[numbers.below(TEXTS.len())].to_owned(),
            usual.clone(),
        )])),
        _ => nested(numbers.below(300)),
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| json!([inner]))
}
