// Holds what the build must keep: nothing inline, nothing that evaluates text, and an entry that loads fast.
import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const ENTRY_KB_MAX = 165
const CSS_KB_MAX = 12
const dist = new URL('../dist/', import.meta.url)
const read = name => readFileSync(new URL(name, dist))
const kb = bytes => gzipSync(bytes, { level: 9 }).length / 1000
const wrong = []

const page = read('index.html').toString()
if (/<script(?![^>]*\ssrc=)[^>]*>/.test(page)) wrong.push('index.html has an inline script')
if (/<style|\sstyle=|\son[a-z]+=/.test(page)) wrong.push('index.html has an inline style or handler')

const manifest = JSON.parse(read('.vite/manifest.json').toString())
const entry = Object.values(manifest).find(chunk => chunk.isEntry)
const loaded = new Set()
const load = chunk => {
  if (loaded.has(chunk.file)) return
  loaded.add(chunk.file)
  for (const name of chunk.imports ?? []) load(manifest[name])
}
load(entry)
const size = kb(Buffer.concat([...loaded].map(read)))
if (size > ENTRY_KB_MAX) wrong.push(`the entry is ${size.toFixed(1)} kB gzipped; at most ${ENTRY_KB_MAX}`)
const css = entry.css.reduce((sum, name) => sum + kb(read(name)), 0)
if (css > CSS_KB_MAX) wrong.push(`the styles are ${css.toFixed(1)} kB gzipped; at most ${CSS_KB_MAX}`)

for (const name of readdirSync(new URL('assets/', dist)).filter(name => name.endsWith('.js'))) {
  const text = read(`assets/${name}`).toString()
  if (/\bnew Function\s*\(|(?<![.\w])eval\s*\(/.test(text)) wrong.push(`${name} evaluates text, which the content security policy refuses`)
}
console.log(`entry ${size.toFixed(1)} kB, styles ${css.toFixed(1)} kB gzipped`)
if (wrong.length > 0) {
  console.error(wrong.join('\n'))
  process.exit(1)
}
