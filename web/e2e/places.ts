// Every page that the router knows, by its address, and a few states of pages that a person sees often.
import { router } from '@/router'
import type { Seeded } from './seed'

export function places({ examples }: Seeded): string[] {
  // What ends with `$` only leads to another page.
  const paths = Object.keys(router.routesByPath).filter(path => !path.endsWith('/$'))
  const pages = paths.map(path =>
    path.replace(/\$(\w+)/g, (_, name: string) => {
      const example = examples[name]
      if (!example) throw new Error(`the page ${path} needs an example of \`${name}\`: add one to e2e/seed.ts`)
      return encodeURIComponent(example)
    }),
  )
  const states = [
    `/?call=${examples.call}`,
    '/?tab=decided',
    '/?tab=snoozed',
    '/?tab=attention',
    '/actions?action=forge.merge',
    '/actions?action=forge.refund',
    `/actions?action=${examples.action}`,
    '/automations/gallery?starter=watch-a-page',
    `/automations/${examples.automation}?tab=history`,
    `/automations/${examples.automation}?tab=versions&version=2`,
    `/automations/${examples.automation}/edit?view=json`,
    `/automations/${examples.automation}/edit?view=diff`,
    `/runs/${examples.run}?step=look`,
    '/sources?add=own',
    `/secrets?secret=${examples.secret}`,
    '/secrets?connection=mail',
    `/policies/explain?action=files.list&session=${examples.session}`,
    '/events?event=1',
    '/events?tab=dead',
    '/events?tab=groups',
    '/settings?tab=tokens',
    '/settings?tab=channels&channel=pager',
    '/settings?tab=packages&package=notes',
    '/settings?tab=retention',
  ]
  return [...new Set([...pages, ...states])]
}
