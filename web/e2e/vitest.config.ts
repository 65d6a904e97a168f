// The journeys: the real server, in a real browser. Three files at a time: a journey mostly waits.
import path from 'node:path'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: path.resolve(import.meta.dirname, '..'),
  resolve: { alias: { '@': path.resolve(import.meta.dirname, '../src') } },
  test: {
    environment: 'node',
    include: [process.env.SHOTS ? 'e2e/shots.ts' : 'e2e/**/*.test.ts'],
    globalSetup: ['e2e/chromium.ts'],
    maxWorkers: 3,
    // What they share is loaded once.
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
