//! Step 13: the system calls a program has. Built and hashed by the server, installed by the jail.
//!
//! Filters stack, and the strictest answer wins. `refused` and `absent` hold in both profiles; `high_isolation` adds `allowed`, which
//! kills on whatever it does not list.

mod refused;
mod allowed;

use crate::spec::Profile;
use rustix::io::Errno;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, sock_filter,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// One condition after another: all must hold.
type Conditions<'a> = &'a [(u8, SeccompCmpOp, u64)];

/// A profile's filters, ready to be handed over.
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

pub(crate) fn build(profile: Profile) -> Result<Filters, Failed> {
    let errno = |errno: Errno| SeccompAction::Errno(errno.raw_os_error().unsigned_abs());
    let mut programs = vec![compile(refused::absent()?, SeccompAction::Allow, errno(Errno::NOSYS))?];
    match profile {
        Profile::Default => {}
        Profile::HighIsolation => programs.push(compile(allowed::rules()?, SeccompAction::KillProcess, SeccompAction::Allow)?),
    }
    // The last: it refuses to install another.
    programs.push(compile(refused::rules()?, SeccompAction::Allow, errno(Errno::PERM))?);
    let mut hash = Sha256::new();
    for program in &programs {
        hash.update((program.len() as u64).to_le_bytes());
        hash.update(program);
    }
    Ok(Filters { sha256: hex::encode(hash.finalize()), programs })
}

/// Installs one filter on every thread of this process. It cannot be taken back.
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

fn compile(rules: Rules, otherwise: SeccompAction, on_match: SeccompAction) -> Result<Vec<u8>, Failed> {
    let arch = std::env::consts::ARCH.try_into()?;
    let program: BpfProgram = SeccompFilter::new(rules, otherwise, on_match, arch)?.try_into()?;
    let mut bytes = vec![];
    for one in x32_guard().iter().chain(&program) {
        bytes.extend_from_slice(&one.code.to_le_bytes());
        bytes.extend_from_slice(&[one.jt, one.jf]);
        bytes.extend_from_slice(&one.k.to_le_bytes());
    }
    Ok(bytes)
}

/// The x32 calls carry the architecture of the 64-bit ones and other numbers, so a list of numbers would let them all pass.
fn x32_guard() -> Vec<sock_filter> {
    const X32_BIT: u32 = 0x4000_0000;
    const LOAD_WORD: u16 = 0x20;
    const JUMP_GREATER_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const KILL_PROCESS: u32 = 0x8000_0000;
    if cfg!(target_arch = "x86_64") {
        vec![
            sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
            sock_filter { code: JUMP_GREATER_EQUAL, jt: 0, jf: 1, k: X32_BIT },
            sock_filter { code: RETURN, jt: 0, jf: 0, k: KILL_PROCESS },
        ]
    } else {
        vec![]
    }
}

/// Adds calls whatever their arguments.
fn always(rules: &mut Rules, calls: &[i64]) {
    for call in calls {
        rules.insert(*call, vec![]);
    }
}

/// Adds a call with these arguments. Only the low 32 bits are compared: that is all the kernel looks at in every one of them.
fn when(rules: &mut Rules, call: i64, conditions: Conditions<'_>) -> Result<(), Failed> {
    let conditions = conditions
        .iter()
        .map(|(argument, operator, value)| SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value))
        .collect::<Result<Vec<_>, _>>()?;
    rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
    Ok(())
}

/// The same for an argument that is a pointer.
fn when_wide(rules: &mut Rules, call: i64, (argument, operator, value): (u8, SeccompCmpOp, u64)) -> Result<(), Failed> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)?;
    rules.entry(call).or_default().push(SeccompRule::new(vec![condition])?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_have_filters_of_their_own_and_the_same_ones_every_time() {
        let [one, other] = Profile::ALL.map(|profile| build(profile).unwrap());
        assert_ne!(one.sha256, other.sha256);
        assert_eq!(one.sha256, build(Profile::Default).unwrap().sha256);
        assert_eq!((one.programs.len(), other.programs.len()), (2, 3));
    }

    #[test]
    fn every_filter_begins_with_the_guard_and_fits_the_kernel() {
        for profile in Profile::ALL {
            for program in build(profile).unwrap().programs {
                assert_eq!(program.len() % 8, 0);
                assert!(program.len() / 8 <= 4096, "{}", program.len() / 8);
                if cfg!(target_arch = "x86_64") {
                    assert_eq!(program[..8], [0x20, 0, 0, 0, 0, 0, 0, 0]);
                    assert_eq!(program[8..16], [0x35, 0, 0, 1, 0, 0, 0, 0x40]);
                }
            }
        }
    }
}
