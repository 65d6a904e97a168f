// A page of the router, open in a browser of a few lines, on a server of a few lines.
import { QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRouter, RouterProvider } from '@tanstack/react-router'
import { render } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { vi } from 'vitest'
import { ToastProvider } from '@/components/toasts'
import { ShelfProvider } from '@/features/inbox/shelf'
import { EventsProvider } from '@/lib/events'
import { FreshQueryClient } from '@/lib/query-client'
import { router } from '@/router'
import { me, serve } from './server'

/** Whoever may do everything. */
export const admin = { ...me, permissions: [...me.permissions, 'manage_identity'] }

export function openPage(path: string, answers: Parameters<typeof serve>[0]) {
  vi.stubGlobal('matchMedia', () => ({ matches: true, addEventListener() {}, removeEventListener() {} }))
  const none = () => ({ items: [], next: null })
  const server = serve({
    'GET /api/v1/whoami': () => admin,
    'GET /api/v1/invocations': none,
    'GET /api/v1/sources': none,
    'GET /api/v1/connections': none,
    'GET /api/v1/secrets': none,
    'GET /api/v1/spaces': none,
    'GET /api/v1/packages': none,
    ...answers,
  })
  const client = new FreshQueryClient({ defaultOptions: { queries: { retry: false } } })
  const own = createRouter({ routeTree: router.routeTree, history: createMemoryHistory({ initialEntries: [path] }) })
  render(
    <QueryClientProvider client={client}>
      <EventsProvider>
        <ShelfProvider>
          <ToastProvider>
            <RouterProvider router={own as typeof router} />
          </ToastProvider>
        </ShelfProvider>
      </EventsProvider>
    </QueryClientProvider>,
  )
  return { server, user: userEvent.setup(), router: own }
}
