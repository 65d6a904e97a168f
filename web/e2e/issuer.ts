// A real issuer, with its own pages: people type who they are there, and agree or cancel.
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { program } from './program'

const FOLDER = process.env.ISSUER ?? join(process.env.CARGO_TARGET_DIR ?? '../target', 'clients/oauth')

export type Issuer = Awaited<ReturnType<typeof issuer>>

/** `roles` are what its groups give here, such as `ops=admin`. */
export async function issuer(roles: string) {
  const own = program([process.env.ISSUER_NODE ?? 'node', join(FOLDER, 'provider.mjs'), String(await freePort()), 'asks'])
  const url = await own.says(/^(http\S+)$/m)
  return {
    url,
    /** What the operator of a server sets. */
    settings: {
      COUNTERSIGN_OIDC_ISSUER: url,
      COUNTERSIGN_OIDC_NAME: 'Example SSO',
      COUNTERSIGN_OIDC_CLIENT_ID: 'countersign',
      COUNTERSIGN_OIDC_CLIENT_SECRET: 'canary-client-secret-7731',
      COUNTERSIGN_OIDC_SCOPES: 'openid,profile,groups',
      COUNTERSIGN_OIDC_ROLES: roles,
      COUNTERSIGN_OIDC_ALLOWED_NETWORKS: '127.0.0.1/32,::1/128',
    },
    /** Everybody is in this group alone from now on. */
    group: async (name: string) => {
      await fetch(`${url}/groups?g=${name}`, { method: 'POST' })
    },
    /** From the page that offers it to the issuer's, where this person says who they are. */
    signIn: async (page: Page, name: string) => {
      await goThere(page, url)
      await page.getByPlaceholder('Enter any login').fill(name)
      await page.getByPlaceholder('and password').fill('any')
      await page.getByRole('button', { name: 'Sign-in' }).click()
      await page.getByRole('button', { name: 'Continue' }).click()
    },
    cancel: async (page: Page) => {
      await goThere(page, url)
      await page.getByRole('link', { name: 'Cancel' }).click()
    },
  }
}

async function goThere(page: Page, url: string): Promise<void> {
  // Its pages ask for a font of the web.
  await page.route(/^https:/, route => route.fulfill({ contentType: 'text/css', body: '' }))
  await page.getByRole('link', { name: 'Sign in with Example SSO' }).click()
  await page.waitForURL(to => to.origin === url)
}

function freePort(): Promise<number> {
  return new Promise(found => {
    const listener = createServer().listen(0, '127.0.0.1', () => {
      const { port } = listener.address() as AddressInfo
      listener.close(() => found(port))
    })
  })
}
