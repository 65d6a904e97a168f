// The journeys: the real server, in a real browser. Two files at a time: a journey mostly waits, and machines have few cores.
import path from 'node:path'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: path.resolve(import.meta.dirname, '..'),
  resolve: { alias: { '@': path.resolve(import.meta.dirname, '../src') } },
  test: {
    environment: 'node',
    include: [process.env.SHOTS ? 'e2e/shots.ts' : 'e2e/**/*.test.ts'],
    globalSetup: ['e2e/chromium.ts'],
    maxWorkers: 2,
    // What they share is loaded once.
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
