export const PARTS = ['members', 'tokens', 'channels', 'packages', 'retention'] as const
export type Part = (typeof PARTS)[number]
