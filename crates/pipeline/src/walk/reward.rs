//! How well an execution went, as one number for agents that learn from receipts. Integers only: a receipt holds no floats.

/// 1.0 in the unit of every number here, millionths.
const ONE: i64 = 1_000_000;

/// The weight of each part, in millionths. Cost and latency are subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewardWeights {
    pub success: i64,
    pub quality: i64,
    pub cost: i64,
    pub latency: i64,
}

impl Default for RewardWeights {
    fn default() -> Self {
        Self { success: 600_000, quality: 300_000, cost: 50_000, latency: 50_000 }
    }
}

/// How far an invocation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execution {
    /// Denied, expired or cancelled: there is nothing to learn from it, so it scores zero.
    Never,
    Failed,
    Succeeded,
}

/// What was measured of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) execution: Execution,
    /// As the source says, in thousandths; a value above one counts as one.
    pub(crate) quality_thousandths: u32,
    pub(crate) cpu_ms: u64,
    pub(crate) cpu_budget_ms: u64,
    pub(crate) exec_ms: u64,
    pub(crate) timeout_ms: u64,
}

/// The reward and its parts, all in millionths; cost and latency are fractions of their budgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RewardParts {
    /// From minus one to one.
    pub(crate) scalar_millionths: i64,
    pub(crate) success: i64,
    pub(crate) quality: i64,
    pub(crate) cost: i64,
    pub(crate) latency: i64,
}

/// `clamp(success + quality - cost - latency, -1, 1)`, each weighted; rounded towards zero.
pub(crate) fn reward(measured: &Measured, weights: &RewardWeights) -> RewardParts {
    let success = match measured.execution {
        Execution::Never => return RewardParts::default(),
        Execution::Failed => 0,
        Execution::Succeeded => ONE,
    };
    let quality = (i64::from(measured.quality_thousandths) * 1_000).min(ONE);
    let cost = share(measured.cpu_ms, measured.cpu_budget_ms);
    let latency = share(measured.exec_ms, measured.timeout_ms);
    let weighted = |weight: i64, part: i64| i128::from(weight) * i128::from(part);
    let sum = weighted(weights.success, success) + weighted(weights.quality, quality)
        - weighted(weights.cost, cost)
        - weighted(weights.latency, latency);
    let scalar = (sum / i128::from(ONE)).clamp(-i128::from(ONE), i128::from(ONE));
    RewardParts { scalar_millionths: i64::try_from(scalar).unwrap_or_default(), success, quality, cost, latency }
}

/// The fraction of the budget that was used, at most one. With a budget of zero, any use counts as one.
fn share(used: u64, budget: u64) -> i64 {
    if used >= budget {
        return if used == 0 { 0 } else { ONE };
    }
    i64::try_from(u128::from(used) * u128::from(ONE.unsigned_abs()) / u128::from(budget)).unwrap_or(ONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(execution: Execution) -> Measured {
        Measured { execution, quality_thousandths: 500, cpu_ms: 480, cpu_budget_ms: 1_000, exec_ms: 3_600, timeout_ms: 30_000 }
    }

    fn check(measured: Measured, expected: RewardParts) {
        assert_eq!(reward(&measured, &RewardWeights::default()), expected, "{measured:?}");
    }

    #[test]
    fn success_quality_cost_and_latency_make_the_reward() {
        let full = RewardParts { scalar_millionths: 720_000, success: ONE, quality: 500_000, cost: 480_000, latency: 120_000 };
        check(measured(Execution::Succeeded), full);
        check(measured(Execution::Failed), RewardParts { scalar_millionths: 120_000, success: 0, ..full });
        check(
            Measured { quality_thousandths: 0, ..measured(Execution::Succeeded) },
            RewardParts { scalar_millionths: 570_000, quality: 0, ..full },
        );
        check(
            Measured { quality_thousandths: 4_000, ..measured(Execution::Succeeded) },
            RewardParts { scalar_millionths: 870_000, quality: ONE, ..full },
        );
        check(
            Measured { cpu_ms: 0, cpu_budget_ms: 0, exec_ms: 0, timeout_ms: 0, ..measured(Execution::Succeeded) },
            RewardParts { scalar_millionths: 750_000, cost: 0, latency: 0, ..full },
        );
        check(
            Measured { cpu_ms: 5_000, exec_ms: u64::MAX, quality_thousandths: 0, ..measured(Execution::Failed) },
            RewardParts { scalar_millionths: -100_000, success: 0, quality: 0, cost: ONE, latency: ONE },
        );
    }

    proptest! {
        #[test]
        fn a_reward_is_always_within_one_and_minus_one_whatever_the_weights(
            (success, quality, cost, latency) in any::<(i64, i64, i64, i64)>(),
            (quality_thousandths, cpu_ms, cpu_budget_ms, exec_ms, timeout_ms) in any::<(u32, u64, u64, u64, u64)>(),
            execution in prop_oneof![Just(Execution::Failed), Just(Execution::Succeeded)],
        ) {
            let measured = Measured { execution, quality_thousandths, cpu_ms, cpu_budget_ms, exec_ms, timeout_ms };
            let parts = reward(&measured, &RewardWeights { success, quality, cost, latency });
            prop_assert!((-ONE..=ONE).contains(&parts.scalar_millionths));
            for part in [parts.success, parts.quality, parts.cost, parts.latency] {
                prop_assert!((0..=ONE).contains(&part));
            }
        }

        #[test]
        fn what_never_executed_always_scores_zero(
            (quality_thousandths, cpu_ms, cpu_budget_ms, exec_ms, timeout_ms) in any::<(u32, u64, u64, u64, u64)>(),
        ) {
            let measured = Measured { execution: Execution::Never, quality_thousandths, cpu_ms, cpu_budget_ms, exec_ms, timeout_ms };
            prop_assert_eq!(reward(&measured, &RewardWeights::default()), RewardParts::default());
        }
    }
}
