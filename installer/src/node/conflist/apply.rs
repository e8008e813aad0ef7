//! Carries out a [`Plan`]. Each step checks that the file is still as it was surveyed, so that nothing another process
//! writes meanwhile is lost.

use std::{fs, time::Instant};

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
pub fn install(plan: Plan, backoff: &mut Backoff, report: &mut Report) -> bool {
    report.append(plan.findings);
    for change in &plan.repairs {
        apply(change, report);
    }
    let mut in_place = !plan.is_hidden && !plan.networks.is_empty();
    for target in &plan.networks {
        let inserted = insert(target, backoff, report);
        let file = if inserted { &target.result } else { &target.file };
        report.network(file, inserted);
        in_place &= inserted;
    }
    for change in plan.removals.iter().filter(|_| in_place) {
        apply(change, report);
    }
    in_place
}

/// Applies a plan of [`Plan::uninstall`]. False when another process was writing, so that another survey is needed.
pub fn uninstall(plan: Plan, report: &mut Report) -> bool {
    let is_busy = plan.findings.again_in().is_some();
    report.append(plan.findings);
    let outcomes = plan.removals.iter().map(|change| apply(change, report));
    let written = outcomes.filter(|o| *o == Outcome::WrittenMeanwhile).count();
    written == 0 && !is_busy
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
    outcome == Outcome::Done
}

fn apply(change: &Change, report: &mut Report) -> Outcome {
    for step in &change.steps {
        match step.apply() {
            Ok(true) => {}
            Ok(false) => {
                report.reconcile_in(WRITTEN_MEANWHILE);
                return Outcome::WrittenMeanwhile;
            }
            Err(error) => {
                report.failed("conflist", &change.file, &error);
                return Outcome::Failed;
            }
        }
    }
    if let Some(message) = change.message {
        report.changed(message, &change.file);
    }
    Outcome::Done
}

impl Step {
    /// False when another process has written the file since the survey; then nothing is changed.
    fn apply(&self) -> Result<bool> {
        match self {
            Self::Write(file, access, text) => {
                let access = access.as_deref().map_or(Access::Mode(0o600), Access::As);
                atomic::replace(file.here(), text, access).with_context(|| format!("write {file}"))?;
                Ok(true)
            }
            Self::Replace(file, seen, text) => {
                atomic::replace_if_unchanged(file.here(), &seen.source, &seen.text, text)
            }
            Self::Remove(file, seen) => atomic::remove_if_unchanged(file.here(), &seen.source, &seen.text),
            Self::Link(file, target, seen) => {
                let is_unchanged = seen
                    .as_ref()
                    .is_none_or(|seen| fs::read(&seen.source).is_ok_and(|now| now == seen.text));
                if is_unchanged {
                    atomic::link(file.here(), target).context("restore the symlink")?;
                }
                Ok(is_unchanged)
            }
            Self::RestoreSingle {
                file,
                copy,
                link,
                list,
                seen,
            } => {
                let is_missing = fs::symlink_metadata(file.here()).is_err();
                match link {
                    Some(target) if is_missing => atomic::link(file.here(), target),
                    None if is_missing => fs::read(copy.here())
                        .map_err(Into::into)
                        .and_then(|text| atomic::replace(file.here(), &text, Access::As(copy.here()))),
                    _ => Ok(()),
                }
                .context("restore the original")?;
                let is_removed = atomic::remove_if_unchanged(list.here(), &seen.source, &seen.text)?;
                if is_missing && !is_removed {
                    // It would come before the list that another process has just written.
                    atomic::remove(file.here())?;
                }
                Ok(is_removed)
            }
            Self::Forget(record) => atomic::remove(record.here()).map(|_| true),
        }
    }
}
