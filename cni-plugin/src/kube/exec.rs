//! (to come)

use super::{
    credentials::Material,
    error::{Class, Error},
    kubeconfig::{Exec, Kubeconfig},
};
use crate::{deadline::Deadline, log::Log};

pub(super) struct Handed;

impl Handed {
    pub(super) fn add_to(self, _: &mut Material) {}
}

pub(super) fn run(_: &Exec, _: &Kubeconfig, _: Deadline, _: Log) -> Result<Handed, Error> {
    Err(Error::new(Class::Kubeconfig, "exec is not supported yet"))
}
