//! What one pass changes in the net dir, computed from a [`Survey`] without touching a file.

use std::{ffi::OsStr, fmt, time::Duration};

use super::{
    choice::choose,
    edit,
    network::{Form, Network},
    originals::Originals,
    step::{Change, LIST_REBUILT, Step},
    survey::{Content, NetFile, Survey},
};
use crate::{
    cli::config::{Config, Paths},
    host::HostPath,
    node::report::Report,
};

/// How soon to survey again after another process has written meanwhile.
pub const WRITTEN_MEANWHILE: Duration = Duration::from_millis(10);

/// The changes of one pass, in order.
#[derive(Debug, Default)]
pub struct Plan {
    /// Brings back what others have damaged, and drops originals that are no longer needed.
    pub repairs: Vec<Change>,
    /// The networks our entry belongs in.
    pub networks: Vec<Target>,
    /// Takes our entry out of the other files, once it is in all of `networks`: a moment with two entries is harmless, one
    /// with none is not.
    pub removals: Vec<Change>,
    /// What keeps our entry out, what is odd, and when to survey again.
    pub findings: Report,
    /// A file leaves it open which networks are meant.
    pub is_uncertain: bool,
    /// A meant network cannot be seen by this process.
    pub is_hidden: bool,
}

/// A network our entry belongs in.
#[derive(Debug)]
pub struct Target {
    /// The file that was found.
    pub file: HostPath,
    /// The file that holds our entry afterwards.
    pub result: HostPath,
    /// The change that inserts it; `None` when it is there and up to date.
    pub change: Option<Change>,
    /// Cilium is one of its plugins.
    pub has_cilium: bool,
}

impl Plan {
    /// Plans the installation: our entry in the meant networks and in no others.
    pub fn install(config: &Config, survey: Survey) -> Self {
        let mut plan = Self::default();
        let Survey {
            mut files,
            mut originals,
            renamed_by_cilium,
        } = survey;
        let paths = &config.paths;
        plan.repair_links(paths, &mut files, &mut originals);
        plan.rebuild_lists(config, &mut files, &originals);
        for file in renamed_by_cilium {
            plan.findings.notice(format_args!(
                "{file}: Cilium has renamed this network; if it is needed, set cni.exclusive=false"
            ));
        }
        let selected = choose(config, &files, &originals, &mut plan);
        for file in selected.iter().filter_map(|index| files.get(*index)) {
            plan.networks
                .extend(Target::new(config, file, &files, &originals));
        }
        if !plan.is_uncertain {
            for (index, file) in files.iter().enumerate() {
                if !selected.contains(&index) && !plan.networks.iter().any(|t| t.result == file.file) {
                    plan.remove_from(paths, file, &originals);
                }
            }
        }
        plan
    }

    /// Plans the removal of our entry from every file. Replaced originals come back.
    pub fn uninstall(paths: &Paths, survey: &Survey) -> Self {
        let mut plan = Self::default();
        for file in &survey.files {
            plan.remove_from(paths, file, &survey.originals);
        }
        plan
    }

    /// All changes, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        let inserts = self.networks.iter().filter_map(|target| target.change.as_ref());
        self.repairs.iter().chain(inserts).chain(&self.removals)
    }

    /// Restores a symlink whose replacement is damaged, or whose target has changed into something that [`Target::new`]
    /// cannot insert into. The rest of the plan treats it as if its owner had just created it. Drops the record of a symlink
    /// whose place its owner has filled with something else.
    fn repair_links(&mut self, paths: &Paths, files: &mut Vec<NetFile>, originals: &mut Originals) {
        let (singles, ours) = (&originals.singles, &paths.type_name);
        originals.links.retain_mut(|link| {
            let found = files.iter().position(|f| f.file == link.file);
            let (is_ours, is_damaged) = match found.and_then(|index| files.get(index)) {
                Some(file) if file.link.is_some() => return true,
                Some(file) => match &file.content {
                    Content::Network { text, network } => (link.made(text, network, ours), false),
                    Content::Damaged { settled: true, .. } => (true, true),
                    _ => return true,
                },
                None => (singles.iter().any(|single| single.file == link.file), false),
            };
            if !is_ours {
                self.repairs.push(Change::forget(&link.record));
                return false;
            }
            let restore = is_damaged || link.changed().is_some_and(|now| !now.takes_entry(ours));
            if restore && let Some(now) = link.now.take() {
                self.repairs.push(Change::restore_link(link, None));
                let restored = NetFile {
                    file: link.file.clone(),
                    open: link.file.clone(),
                    behind: Some(now.file),
                    link: Some(link.target.clone()),
                    content: Content::Network {
                        text: now.text,
                        network: now.network,
                    },
                };
                match found.and_then(|index| files.get_mut(index)) {
                    Some(file) => *file = restored,
                    None => files.push(restored),
                }
            }
            true
        });
        files.sort_by(|a, b| a.file.cmp(&b.file));
    }

    /// Makes lists of ours again that another process has damaged.
    fn rebuild_lists(&mut self, config: &Config, files: &mut [NetFile], originals: &Originals) {
        for file in files {
            let Content::Damaged { settled: true, .. } = file.content else {
                continue;
            };
            let Some(single) = originals.single_of(&file.file) else {
                continue;
            };
            let text = match &single.text {
                Ok(text) => text,
                Err(error) => {
                    let file = &file.file;
                    self.findings.problem("conflist", format_args!("{file}: {error}"));
                    continue;
                }
            };
            let original = Network::parse(text, Form::Single);
            let plugin = original.as_ref().ok().and_then(|o| o.plugins.first());
            let list = plugin.map(|plugin| edit::list_from_single(text, plugin, &config.entry));
            if let Some(text) = list
                && let Ok(network) = Network::parse(&text, Form::List)
            {
                let access = Some(single.copy.here().to_path_buf());
                let write = Step::Write(file.open.clone(), access, text.clone());
                self.repairs
                    .push(Change::new(LIST_REBUILT, &file.file, vec![write]));
                file.content = Content::Network { text, network };
            }
        }
    }

    /// Plans that a file ends up without our entry, or as the original that it replaced.
    fn remove_from(&mut self, paths: &Paths, file: &NetFile, originals: &Originals) {
        let damaged = file.damaged_text();
        match &file.content {
            // The process that is writing it may put back what it has read, our entry included.
            Content::Damaged { settled: false, .. } => return self.findings.reconcile_in(WRITTEN_MEANWHILE),
            Content::Unread { why } => {
                let file = &file.file;
                return self.findings.problem(
                    "conflist",
                    format_args!("{file}: {why}; our entry may be in it, so the plugin is kept"),
                );
            }
            Content::Hidden { .. } => return,
            Content::Network { .. } | Content::Damaged { settled: true, .. } => {}
        }
        if let Some(link) = originals.link_at(&file.file) {
            let ours = match &file.content {
                Content::Network { text, network } if file.link.is_none() => {
                    Some(text).filter(|text| link.made(text, network, &paths.type_name))
                }
                _ => damaged,
            };
            if let Some(seen) = ours {
                return self.removals.push(Change::restore_link(link, Some(seen)));
            }
            self.removals.push(Change::forget(&link.record));
        }
        if let Some(single) = originals.single_of(&file.file) {
            let text = match &file.content {
                Content::Network { text, .. } if single.made(file) => Some(text),
                _ => damaged,
            };
            match (&single.text, text) {
                (Err(error), _) => {
                    let file = &file.file;
                    return self.findings.problem("conflist", format_args!("{file}: {error}"));
                }
                (Ok(_), Some(seen)) => {
                    let link = originals.link_at(&single.file);
                    let change = Change::restore_single(single, seen, link);
                    return self.removals.push(change);
                }
                (Ok(_), None) => self.removals.push(Change::forget(&single.copy)),
            }
        }
        if let Content::Network { text, network } = &file.content {
            self.removals
                .extend(Change::remove_entry(file, text, network, &paths.type_name));
        }
    }
}

impl Target {
    /// Plans that our entry is in this file and up to date.
    fn new(config: &Config, file: &NetFile, files: &[NetFile], originals: &Originals) -> Option<Self> {
        let paths = &config.paths;
        let Content::Network { text, network } = &file.content else {
            return None;
        };
        let mut target = Self {
            file: file.file.clone(),
            result: file.file.clone(),
            change: None,
            has_cilium: network.has("cilium-cni"),
        };
        let replaced = originals.link_at(&file.file).filter(|_| file.link.is_none());
        let behind = replaced.and_then(|link| Some((link, link.changed()?)));
        if let Some((link, now)) = behind.filter(|(_, now)| now.takes_entry(&paths.type_name)) {
            // Without a moment in which the symlink is back, and with it a list without our entry.
            let text = edit::with_entry(&now.text, &now.network.plugins, &config.entry);
            target.change = text.map(|text| Change::follow(link, now, text));
        } else if network.form == Form::List {
            let changed = edit::with_entry(text, &network.plugins, &config.entry);
            let had_entry = network.has(&paths.type_name);
            target.change = changed.map(|changed| Change::insert(paths, file, text, changed, had_entry));
        } else if let Some(plugin) = network.plugins.first() {
            let list = edit::list_from_single(text, plugin, &config.entry);
            target.result = list_path(paths, &file.file, files, originals);
            target.change = Some(Change::make_list(paths, file, text, &target.result, list));
        }
        Some(target)
    }
}

/// Returns where the list goes that replaces a single-plugin file. A list of the usual name that is not ours stays; ours then
/// takes the place in the runtime's order that the single-plugin file had.
fn list_path(paths: &Paths, single: &HostPath, files: &[NetFile], originals: &Originals) -> HostPath {
    let list = |stem: Option<&OsStr>| {
        let mut name = stem.unwrap_or_default().to_owned();
        name.push(".conflist");
        paths.net_dir.join(name)
    };
    let usual = list(single.host().file_stem());
    let is_ours = originals.single_of(&usual).is_some_and(|s| s.file == *single);
    if is_ours || !files.iter().any(|f| f.file == usual) {
        usual
    } else {
        list(single.host().file_name())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes().try_for_each(|change| writeln!(f, "{change}"))
    }
}

#[cfg(test)]
mod tests;
