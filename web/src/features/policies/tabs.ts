// The kinds of rules, each with an address.

export const TABS = [
  { to: '/policies', name: 'Modes' },
  { to: '/policies/cedar', name: 'Cedar' },
  { to: '/policies/what-if', name: 'What if' },
  { to: '/policies/explain', name: 'Explain' },
  { to: '/policies/grants', name: 'Grants' },
  { to: '/policies/consents', name: 'Consents' },
  { to: '/policies/spaces', name: 'Spaces' },
  { to: '/policies/observe', name: 'Observe' },
  { to: '/policies/sessions', name: 'Sessions' },
  { to: '/policies/kill-switch', name: 'Kill switch' },
] as const
