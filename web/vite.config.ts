import path from 'node:path'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// `npm run dev` shows the pages with the API of a server that runs. The token stays in this process: a page gets no cookie from Vite.
const token = process.env.COUNTERSIGN_TOKEN
const server = process.env.COUNTERSIGN_URL ?? 'http://127.0.0.1:7117'

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { '@': path.resolve(import.meta.dirname, 'src') } },
  // 0: nothing is inlined, so the content security policy needs no hashes.
  build: { target: 'es2022', manifest: true, sourcemap: false, assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { '/api': { target: server, headers: token ? { authorization: `Bearer ${token}` } : {} } } },
  test: {
    environment: 'happy-dom',
    include: ['src/**/*.test.{ts,tsx}'],
    setupFiles: ['src/test/setup.ts'],
    // What the files share is loaded once.
    isolate: false,
    maxWorkers: 2,
    // Pages make much that is thrown away at once.
    execArgv: ['--max-semi-space-size=64'],
    // To print the page costs a tenth of the time, because whoever waits for something does not find it first.
    env: { DEBUG_PRINT_LIMIT: process.env.DEBUG_PRINT_LIMIT ?? '0' },
    testTimeout: 60_000,
  },
})
