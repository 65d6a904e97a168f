export const RANGES = ['24h', '7d', '30d'] as const
export type Range = (typeof RANGES)[number]
