//! A filter on the call number alone, by binary search: a dozen steps instead of hundreds.
//!
//! When a filter is installed, the kernel runs it once for every call number, and later again for every call that is not always allowed. A
//! filter that compared one number after another would cost a program more at its start than all its namespaces.

use seccompiler::sock_filter;
use std::collections::BTreeSet;

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
pub(super) const KILL_PROCESS: u32 = 0x8000_0000;
/// Offsets in the data that the kernel gives to a filter.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
/// x32 calls report the architecture of the 64-bit ones but have other numbers, so a denylist of numbers would let them all pass.
const X32_BIT: u32 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Answers `listed` for these calls and `otherwise` for all others. A call of another architecture kills the process.
pub(super) fn compile(calls: &BTreeSet<u32>, listed: u32, otherwise: u32) -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE_AT),
        sock_filter { code: JUMP_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE },
        answer(KILL_PROCESS),
        load(NUMBER_AT),
        sock_filter { code: JUMP_GREATER_EQUAL, jt: 0, jf: 1, k: X32_BIT },
        answer(KILL_PROCESS),
    ];
    program.extend(halved(&steps(calls, listed, otherwise), otherwise));
    program
}

/// The numbers at which the answer changes, each with the answer from there on. Consecutive calls share one step.
fn steps(calls: &BTreeSet<u32>, listed: u32, otherwise: u32) -> Vec<(u32, u32)> {
    let mut steps = Vec::new();
    for call in calls {
        if call.checked_sub(1).is_none_or(|before| !calls.contains(&before)) {
            steps.push((*call, listed));
        }
        if !calls.contains(&(call + 1)) {
            steps.push((call + 1, otherwise));
        }
    }
    steps
}

/// Compiles the binary search. `below` is the answer for numbers before the first step.
fn halved(steps: &[(u32, u32)], below: u32) -> Vec<sock_filter> {
    let Some((number, from_here)) = steps.get(steps.len() / 2).copied() else {
        return vec![answer(below)];
    };
    let (before, after) = (&steps[..steps.len() / 2], &steps[steps.len() / 2 + 1..]);
    let (left, right) = (halved(before, below), halved(after, from_here));
    let mut program = match u8::try_from(left.len()) {
        Ok(over) => vec![sock_filter { code: JUMP_GREATER_EQUAL, jt: over, jf: 0, k: number }],
        // The distance is too large for a conditional jump; an unconditional one can go any distance.
        Err(_) => vec![
            sock_filter { code: JUMP_GREATER_EQUAL, jt: 0, jf: 1, k: number },
            sock_filter { code: JUMP, jt: 0, jf: 0, k: u32::try_from(left.len()).unwrap_or(u32::MAX) },
        ],
    };
    program.extend(left);
    program.extend(right);
    program
}

const fn load(at: u32) -> sock_filter {
    sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: at }
}

const fn answer(with: u32) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k: with }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer the kernel would give, and the number of steps it takes.
    fn run(program: &[sock_filter], architecture: u32, number: u32) -> (u32, usize) {
        let (mut at, mut word, mut steps) = (0_usize, 0_u32, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at].clone();
            at += 1;
            steps += 1;
            match code {
                LOAD_WORD => word = if k == NUMBER_AT { number } else { architecture },
                JUMP => at += k as usize,
                JUMP_EQUAL => at += usize::from(if word == k { jt } else { jf }),
                JUMP_GREATER_EQUAL => at += usize::from(if word >= k { jt } else { jf }),
                RETURN => return (k, steps),
                other => panic!("{other:#x} is not one of ours"),
            }
        }
    }

    fn check(calls: &[u32]) {
        let calls: BTreeSet<u32> = calls.iter().copied().collect();
        let program = compile(&calls, 1, 2);
        let last = calls.last().copied().unwrap_or(0) + 10;
        for number in (0..last).chain([1_000, X32_BIT - 1]) {
            let (found, steps) = run(&program, ARCHITECTURE, number);
            assert_eq!(found, if calls.contains(&number) { 1 } else { 2 }, "{number}");
            assert!(steps <= 5 + 2 * (calls.len() + 2).ilog2() as usize + 6, "{steps} steps for {} calls", calls.len());
        }
        for number in [X32_BIT, X32_BIT + 1, u32::MAX] {
            assert_eq!(run(&program, ARCHITECTURE, number).0, KILL_PROCESS);
        }
        for architecture in [0, 0x4000_0003, ARCHITECTURE ^ 1] {
            assert_eq!(run(&program, architecture, 1).0, KILL_PROCESS);
        }
    }

    #[test]
    fn every_number_is_answered_as_it_is_listed() {
        check(&[]);
        check(&[0]);
        check(&[0, 1, 2, 3]);
        check(&[5]);
        check(&[5, 6, 9, 11, 12, 13, 40]);
        check(&(0..500).filter(|number| number % 2 == 0).collect::<Vec<_>>());
        check(&(0..1_500).filter(|number| number % 3 != 0).collect::<Vec<_>>());
        check(&(100..400).collect::<Vec<_>>());
    }
}
