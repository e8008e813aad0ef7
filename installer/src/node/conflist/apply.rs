//! Carries out a [`Plan`]. Each step checks that the file is still as it was surveyed, so that nothing another process
//! writes meanwhile is lost.

use std::{fs, path::Path, time::Instant};

use anyhow::{Context, Result};

use super::{
    backoff::Backoff,
    plan::{Plan, Target, WRITTEN_MEANWHILE},
    step::{Change, Step},
};
use crate::node::{
    atomic::{self, Access},
    report::Report,
};

/// What a change came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Another process has written the file since the survey.
    WrittenMeanwhile,
    Failed,
}

/// Applies a plan of [`Plan::install`]. True when our entry is in every network it belongs in.
pub fn install(plan: &Plan, backoff: &mut Backoff, report: &mut Report) -> bool {
    tell(plan, report);
    for change in &plan.repairs {
        apply(change, report);
    }
    let mut in_place = plan.is_visible && !plan.networks.is_empty();
    for target in &plan.networks {
        let inserted = insert(target, backoff, report);
        let file = if inserted { &target.result } else { &target.file };
        report.network(file, inserted);
        in_place &= inserted;
    }
    if in_place {
        for change in &plan.removals {
            if apply(change, report) == Outcome::WrittenMeanwhile {
                report.reconcile_in(WRITTEN_MEANWHILE);
            }
        }
    }
    in_place
}

/// Applies a plan of [`Plan::uninstall`]. False when another process was writing, so that another survey is needed.
pub fn uninstall(plan: &Plan, report: &mut Report) -> bool {
    tell(plan, report);
    let outcomes = plan.removals.iter().map(|change| apply(change, report));
    let written = outcomes.filter(|o| *o == Outcome::WrittenMeanwhile).count();
    written == 0 && plan.retry.is_none()
}

/// Takes over what the plan found out.
pub fn tell(plan: &Plan, report: &mut Report) {
    for problem in &plan.problems {
        report.problem("conflist", problem);
    }
    for notice in &plan.notices {
        report.notice(notice);
    }
    if let Some(time) = plan.retry {
        report.reconcile_in(time);
    }
}

fn insert(target: &Target, backoff: &mut Backoff, report: &mut Report) -> bool {
    let (file, now) = (&target.file, Instant::now());
    if backoff.is_contested(file, now) {
        let cause = if target.has_cilium {
            "Cilium in exclusive mode does this: set cni.exclusive=false in its chart"
        } else {
            "is it an agent that must be alone or last (for Cilium, set cni.exclusive=false)?"
        };
        report.notice(format_args!(
            "{file}: another process removes our entry whenever it is inserted, so it is inserted only every 30 s in the end; \
             {cause}"
        ));
    }
    let Some(change) = &target.change else {
        return true;
    };
    let delay = backoff.delay(file, now);
    if !delay.is_zero() {
        report.delay_rewrite(delay);
        return false;
    }
    let outcome = apply(change, report);
    if outcome != Outcome::Failed {
        backoff.wrote(file, now);
    }
    if outcome == Outcome::WrittenMeanwhile {
        report.reconcile_in(WRITTEN_MEANWHILE);
    }
    outcome == Outcome::Done
}

fn apply(change: &Change, report: &mut Report) -> Outcome {
    for step in &change.steps {
        match step.apply() {
            Ok(true) => {}
            Ok(false) => return Outcome::WrittenMeanwhile,
            Err(error) => {
                report.failed("conflist", &change.file, &error);
                return Outcome::Failed;
            }
        }
    }
    if let Some(message) = change.action.message() {
        report.changed(message, &change.file);
    }
    Outcome::Done
}

impl Step {
    /// False when another process has written the file since the survey; then nothing is changed.
    fn apply(&self) -> Result<bool> {
        match self {
            Self::Write { file, access, text } => {
                let access = access.as_deref().map_or(Access::Mode(0o600), Access::As);
                atomic::replace(file.here(), text, access).with_context(|| format!("write {file}"))?;
                Ok(true)
            }
            Self::Replace {
                file,
                source,
                seen,
                text,
            } => atomic::replace_if_unchanged(file.here(), source, seen, text),
            Self::Remove { file, source, seen } => atomic::remove_if_unchanged(file.here(), source, seen),
            Self::Link { file, target, seen } => {
                let unchanged = |seen: &Vec<u8>| fs::read(file.here()).is_ok_and(|now| now == *seen);
                let restore = seen.as_ref().is_none_or(unchanged);
                if restore {
                    atomic::link(file.here(), target).context("restore the symlink")?;
                }
                Ok(restore)
            }
            Self::RestoreSingle {
                file,
                copy,
                text,
                link,
                list,
                seen,
            } => {
                let is_missing = fs::symlink_metadata(file.here()).is_err();
                if is_missing {
                    restore(file.here(), copy.here(), text, link.as_deref())?;
                }
                let removed = atomic::remove_if_unchanged(list.here(), list.here(), seen)?;
                if is_missing && !removed {
                    // It would come before the list that another process has just written.
                    atomic::remove(file.here())?;
                }
                Ok(removed)
            }
            Self::Forget { record } => atomic::remove(record.here()).map(|_| true),
        }
    }
}

fn restore(file: &Path, copy: &Path, text: &[u8], link: Option<&Path>) -> Result<()> {
    match link {
        Some(target) => atomic::link(file, target).context("restore the symlink"),
        None => atomic::replace(file, text, Access::As(copy)).context("restore the original"),
    }
}
