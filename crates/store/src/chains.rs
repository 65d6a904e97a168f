//! The chain of automations that led to a request, as it travels through systems of others: in the header `Countersign-Chain`, signed, so that
//! nobody else can say that an automation led to something. Whoever leaves it out only hides a loop from one of the guards.

use crate::Store;
use countersign_core::limits::CHAIN_DEPTH_MAX;
use countersign_core::{AutomationId, Digest, OrgId};
use subtle::ConstantTimeEq as _;

impl Store {
    pub(crate) fn sign_chain(&self, org: &OrgId, chain: &[AutomationId]) -> String {
        let listed = chain.iter().map(AutomationId::as_str).collect::<Vec<_>>().join(",");
        format!("v1;{listed};{}", self.chain_mac(org, &listed))
    }

    /// The chain that a request says it is part of, if this org signed it.
    pub fn read_chain(&self, org: &OrgId, text: &str) -> Option<Vec<AutomationId>> {
        let (listed, mac) = text.strip_prefix("v1;")?.split_once(';')?;
        if !bool::from(self.chain_mac(org, listed).as_bytes().ct_eq(mac.as_bytes())) {
            return None;
        }
        // The guard looks no further.
        listed.split(',').take(CHAIN_DEPTH_MAX).map(|id| AutomationId::parse(id).ok()).collect()
    }

    fn chain_mac(&self, org: &OrgId, listed: &str) -> String {
        Digest::new(*self.keychain.row_mac(&format!("chain {org} {listed}")).as_bytes()).to_string()
    }
}
