//! Times as seconds since 1970, read and written as certificates, tokens and Kubernetes have them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time in seconds since 1970.
pub fn now() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    }
}

/// Returns the current time as `2026-11-30T23:59:59.123Z`.
pub fn timestamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = rfc3339(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), since.subsec_millis())
}

/// Formats a time as `2026-11-30T23:59:59Z`.
pub fn rfc3339(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Parses `2026-11-30T23:59:59Z`, also with fractions of a second (dropped) or an offset from UTC.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut date = date.split('-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let mut clock = clock.split('.').next()?.split(':').map(number);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let offset = number(hours)? * 3600 + number(minutes)? * 60;
            if zone.starts_with('-') { -offset } else { offset }
        }
    };
    seconds(year, month, day, hour, minute, second).map(|s| s - offset)
}

/// Converts a date and time in UTC; `None` if a part is out of range. A leap second counts as the second after it.
pub fn seconds(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Option<i64> {
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (0..=9999).contains(&year);
    in_range.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Formats a duration as kubectl does: `45s`, `12m`, `3h`, `9d`.
pub fn span(seconds: i64) -> String {
    match seconds.unsigned_abs() {
        s @ 0..120 => format!("{s}s"),
        s @ 120..7200 => format!("{}m", s / 60),
        s @ 7200..172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

fn number(digits: &str) -> Option<i64> {
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

// The two functions below use years that begin on 1 March, so that the leap day is the last day of a year, and eras of
// 400 years, after which the calendar repeats. From 0000-03-01 to 1970-01-01 it is 719468 days.

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip_in_rfc3339() {
        for (time, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_083_199, "2026-11-30T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-62_167_219_200, "0000-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(time), written);
            assert_eq!(parse_rfc3339(written), Some(time), "{written}");
        }
        assert_eq!(
            parse_rfc3339("2026-11-30T23:59:59.123456789Z"),
            Some(1_796_083_199)
        );
        assert_eq!(parse_rfc3339("2026-12-01T01:59:59+02:00"), Some(1_796_083_199));
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "now",
            "2026-13-01T00:00:00Z",
            "2026-11-30",
            "2026-11-30T23:59:59",
            "2026-11-30T25:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text:?}");
        }
    }
}
