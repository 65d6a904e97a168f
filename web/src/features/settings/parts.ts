export const PARTS = ['members', 'tokens', 'channels', 'packages', 'allowed', 'retention'] as const
export type Part = (typeof PARTS)[number]
