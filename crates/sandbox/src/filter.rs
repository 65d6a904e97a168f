//! Step 13: the seccomp filters, which say which system calls a program may make. The server builds and hashes them; the jail installs
//! them.
//!
//! Filters stack, and the strictest answer wins. `refused` and `absent` apply in both profiles; `high_isolation` adds `allowed`, which
//! kills on every call that it does not list. Rules on the call number alone are found by binary search (`search`); rules on arguments are
//! checked one after another.

mod refused;
mod allowed;
mod computing;
mod search;

use crate::outcome::CgroupBackend;
use crate::spec::Profile;
use rustix::io::Errno;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, sock_filter,
};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Conditions that must all hold.
type Conditions<'a> = &'a [(u8, SeccompCmpOp, u64)];

/// The sockets that a program may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    None,
    /// TCP and UDP over IPv4, which its network namespace keeps inside.
    Inet,
}

/// The filters of a profile, ready to be sent to the jail.
#[derive(Clone, Debug)]
pub(crate) struct Filters {
    pub(crate) programs: Vec<Vec<u8>>,
    pub(crate) sha256: String,
}

#[derive(Debug)]
pub(crate) struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<BackendError> for Failed {
    fn from(error: BackendError) -> Self {
        Self(error.to_string())
    }
}

/// The filters of a profile. Where no cgroup counts memory, they also refuse what only a cgroup could count.
pub(crate) fn build(profile: Profile, counted_by: CgroupBackend, sockets: Sockets) -> Result<Filters, Failed> {
    let errno = |errno: Errno| SeccompAction::Errno(errno.raw_os_error().unsigned_abs());
    let mut programs = vec![by_number(refused::absent(), &errno(Errno::NOSYS), &SeccompAction::Allow)];
    match profile {
        Profile::Default => {}
        Profile::HighIsolation => {
            programs.push(by_number(allowed::calls(), &SeccompAction::Allow, &SeccompAction::KillProcess));
            programs.push(by_arguments(allowed::misused()?, SeccompAction::KillProcess)?);
        }
    }
    match sockets {
        Sockets::None => {}
        Sockets::Inet => {
            programs.push(by_arguments(refused::other_families()?, errno(Errno::AFNOSUPPORT))?);
            programs.push(by_arguments(refused::other_protocols()?, errno(Errno::PROTONOSUPPORT))?);
        }
    }
    programs.push(by_arguments(refused::arguments(counted_by, sockets)?, errno(Errno::PERM))?);
    // This filter must be the last: it refuses to install another.
    programs.push(by_number(refused::calls(sockets), &errno(Errno::PERM), &SeccompAction::Allow));
    let mut hash = Sha256::new();
    for program in &programs {
        hash.update((program.len() as u64).to_le_bytes());
        hash.update(program);
    }
    Ok(Filters { sha256: hex::encode(hash.finalize()), programs })
}

/// The filter of a worker (`worker.rs`): it computes, reads and writes what is open, and gets an error for everything else.
pub(crate) fn of_worker() -> Vec<u8> {
    let refused = SeccompAction::Errno(Errno::PERM.raw_os_error().unsigned_abs());
    by_number(computing::CALLS.iter().copied(), &SeccompAction::Allow, &refused)
}

/// Installs one filter on every thread of this process. It cannot be removed.
pub(crate) fn install(bytes: &[u8]) -> Result<(), seccompiler::Error> {
    let program: BpfProgram = bytes
        .chunks_exact(8)
        .map(|one| sock_filter {
            code: u16::from_le_bytes([one[0], one[1]]),
            jt: one[2],
            jf: one[3],
            k: u32::from_le_bytes([one[4], one[5], one[6], one[7]]),
        })
        .collect();
    seccompiler::apply_filter_all_threads(&program)
}

/// One answer for these calls, whatever their arguments, and another for all other calls.
fn by_number(calls: impl IntoIterator<Item = i64>, listed: &SeccompAction, otherwise: &SeccompAction) -> Vec<u8> {
    // A negative number is a call that this architecture does not have.
    let calls: BTreeSet<u32> = calls.into_iter().filter_map(|call| u32::try_from(call).ok()).collect();
    to_bytes(&search::compile(&calls, u32::from(listed.clone()), u32::from(otherwise.clone())))
}

/// One answer for these calls with these arguments; every other call passes. The filters of `by_number` check the architecture.
fn by_arguments(rules: Rules, on_match: SeccompAction) -> Result<Vec<u8>, Failed> {
    let arch = std::env::consts::ARCH.try_into()?;
    let program: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, on_match, arch)?.try_into()?;
    Ok(to_bytes(&program))
}

fn to_bytes(program: &[sock_filter]) -> Vec<u8> {
    let each = |one: &sock_filter| {
        let [a, b] = one.code.to_le_bytes();
        let [k0, k1, k2, k3] = one.k.to_le_bytes();
        [a, b, one.jt, one.jf, k0, k1, k2, k3]
    };
    program.iter().flat_map(each).collect()
}

/// Adds a call with these arguments. Only the low 32 bits of an argument are compared: for all of these the kernel looks at no more.
fn when(rules: &mut Rules, call: i64, conditions: Conditions<'_>) -> Result<(), Failed> {
    let conditions = conditions
        .iter()
        .map(|(argument, operator, value)| SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value))
        .collect::<Result<Vec<_>, _>>()?;
    rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_have_filters_of_their_own_and_the_same_ones_every_time() {
        let [one, other] = Profile::ALL.map(|profile| build(profile, CgroupBackend::V2, Sockets::None).unwrap());
        assert_ne!(one.sha256, other.sha256);
        assert_eq!(one.sha256, build(Profile::Default, CgroupBackend::V1, Sockets::None).unwrap().sha256);
        assert_ne!(one.sha256, build(Profile::Default, CgroupBackend::None, Sockets::None).unwrap().sha256);
        assert_eq!((one.programs.len(), other.programs.len()), (3, 5));
    }

    #[test]
    fn every_filter_looks_at_the_architecture_first_and_fits_the_kernel() {
        for (profile, sockets) in Profile::ALL.into_iter().flat_map(|profile| [(profile, Sockets::None), (profile, Sockets::Inet)]) {
            for program in build(profile, CgroupBackend::None, sockets).unwrap().programs {
                assert_eq!(program.len() % 8, 0);
                assert!(program.len() / 8 <= 4096, "{}", program.len() / 8);
                assert_eq!(program[..8], [0x20, 0, 0, 0, 4, 0, 0, 0]);
            }
        }
    }

    #[test]
    fn no_call_is_both_allowed_and_refused_whatever_its_arguments() {
        let absent: BTreeSet<_> = refused::absent().collect();
        for sockets in [Sockets::None, Sockets::Inet] {
            let refused: BTreeSet<_> = refused::calls(sockets).collect();
            assert!(absent.is_disjoint(&refused));
            for conditional in refused::arguments(CgroupBackend::None, sockets).unwrap().keys() {
                assert!(!refused.contains(conditional), "{conditional} is refused anyway");
            }
        }
        for conditional in allowed::misused().unwrap().keys() {
            assert!(allowed::calls().any(|call| call == *conditional), "{conditional} would kill anyway");
        }
    }
}
