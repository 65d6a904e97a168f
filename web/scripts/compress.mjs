// Writes each text of the build a second time, compressed, so that the server need not compress anything.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { brotliCompressSync } from 'node:zlib'

const dist = new URL('../dist/', import.meta.url)
for (const folder of ['', 'assets/']) {
  for (const name of readdirSync(new URL(folder, dist)).filter(name => /\.(js|css|html|svg)$/.test(name))) {
    const file = new URL(folder + name, dist)
    writeFileSync(new URL(`${file}.br`), brotliCompressSync(readFileSync(file)))
  }
}
