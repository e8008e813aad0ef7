use super::*;

/// A neighbour that does not want us in its file.
#[derive(Debug, Clone, Copy)]
enum Neighbour {
    /// Takes our entry out this many milliseconds after each of our writes.
    Answers(u64),
    /// Writes its file again every so many milliseconds, whatever we do.
    Repeats(u64),
}
use Neighbour::{Answers, Repeats};

/// The times, in milliseconds, at which we write while a neighbour works against us until `end`, and its last word.
fn fight(neighbour: Neighbour, end: u64) -> (Vec<u64>, u64) {
    let (start, mut pace) = (Instant::now(), Pace::new());
    let (mut writes, mut theirs, mut undone) = (Vec::new(), 0, true);
    for now in 0.. {
        let due = match neighbour {
            Repeats(every) => now % every == 0,
            Answers(after) => !undone && writes.last().is_some_and(|last| now - last >= after),
        };
        if now <= end && due {
            (theirs, undone) = (now, true);
        }
        let at = start + Duration::from_millis(now);
        if undone && pace.wait(at, theirs).is_zero() {
            pace.wrote(at);
            writes.push(now);
            undone = false;
        }
        if !undone && now > end {
            break;
        }
    }
    (writes, theirs)
}

const ALL: [Neighbour; 11] = [
    Answers(1),
    Answers(5),
    Answers(50),
    Answers(200),
    Answers(800),
    Repeats(20),
    Repeats(50),
    Repeats(100),
    Repeats(300),
    Repeats(500),
    Repeats(900),
];

#[test]
fn nine_rewrites_in_a_row_are_each_followed_within_a_second() {
    let (writes, _) = fight(Answers(5), 9000);
    assert_eq!(writes[..4], [0, 5, 955, 1905]);
    assert!(writes[..9].windows(2).all(|w| w[1] - w[0] < 1000), "{writes:?}");
}

#[test]
fn any_fight_stays_under_one_rewrite_a_second_and_is_not_given_up() {
    for neighbour in ALL {
        let (writes, _) = fight(neighbour, 60_000);
        for window in writes.windows(10) {
            let span = window[9] - window[0];
            assert!(span >= 10_000, "{neighbour:?}: ten within {span} ms: {writes:?}");
        }
        assert!(writes.len() >= 25, "{neighbour:?}: {writes:?}");
    }
}

#[test]
fn our_entry_is_in_within_a_second_of_the_last_word_of_a_neighbour_that_writes_at_its_own_pace() {
    for neighbour in ALL.into_iter().filter(|n| matches!(n, Repeats(..=500))) {
        for end in (100..30_000).step_by(611).chain([10_000]) {
            let (writes, theirs) = fight(neighbour, end);
            let took = writes.last().unwrap() - theirs;
            assert!(took <= 1000, "{neighbour:?} until {end}: {took} ms: {writes:?}");
        }
    }
}

#[test]
fn our_entry_is_in_within_a_second_of_a_fight_of_some_seconds_or_of_ten() {
    for neighbour in ALL {
        for end in (100..6000).chain(10_000..13_000).step_by(97) {
            let (writes, _) = fight(neighbour, end);
            let took = writes.last().unwrap().saturating_sub(end);
            assert!(took <= 1000, "{neighbour:?} until {end}: {took} ms: {writes:?}");
        }
    }
}

#[test]
fn a_neighbour_that_rewrites_once_a_second_is_followed_at_once_for_ever() {
    let (writes, _) = fight(Repeats(1000), 60_000);
    assert_eq!(writes, (0..=60).map(|i| 1000 * i).collect::<Vec<_>>());
}

#[test]
fn a_fight_is_known_as_one_and_forgotten_after_a_window() {
    let (start, mut pace) = (Instant::now(), Pace::new());
    for i in 0..MOST {
        assert_eq!(pace.is_fight(), i > PEACEFUL, "after {i}");
        pace.wait(start, 0);
        pace.wrote(start);
    }
    assert!(pace.wait(start, 0) > Duration::from_secs(6));
    assert_eq!(pace.wait(start + WINDOW, 0), Duration::ZERO);
    assert!(!pace.is_fight());
}
