// Pictures of every page, for people to look at: `SHOTS=folder npm run shots`.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'vitest'
import { places } from './places'
import { seeded } from './seed'
import { approvable, settled, visit } from './visit'

/** What a test of every page need not visit, and a designer looks at all the same. */
const MORE = ['/?q=nothing-is-called-so', '/sources?add=github', '/settings?tab=packages']

/** `SHOTS_OF=sources` takes only those whose address has this word. */
const folder = process.env.SHOTS ?? 'shots'

test.each(['light', 'dark'] as const)('pictures, %s', { timeout: 300_000 }, async theme => {
  mkdirSync(folder, { recursive: true })
  const here = await seeded()
  for (const width of [1280, 390]) {
    const page = await visit(here.server, { theme, width })
    const picture = (name: string) => page.screenshot({ path: join(folder, `${name}-${width}-${theme}.png`) })
    await page.goto(`/?call=${here.examples.refund}`)
    await approvable(page)
    await page.keyboard.press('e')
    await page
      .getByRole('dialog')
      .getByLabel(/^How much/)
      .waitFor()
    await picture('edit')
    for (const place of [...places(here), ...MORE]) {
      if (!place.includes(process.env.SHOTS_OF ?? '')) continue
      await page.goto(place)
      await settled(page)
      const name =
        place
          .replace(/(inv|rcp|grt|ses|spc|aut|run|drf)_\w+/g, '$1')
          .replace(/\W+/g, '-')
          .replace(/^-|-$/g, '') || 'inbox'
      await picture(name)
    }
  }
})
