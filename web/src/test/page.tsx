// A whole page for a test: every provider around it, and an address to open.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRouter, RouterProvider } from '@tanstack/react-router'
import { render } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { forgetWord } from '@/api/client'
import { ToastProvider } from '@/components/toasts'
import { ShelfProvider } from '@/features/inbox/shelf'
import { EventsProvider } from '@/lib/events'
import { router } from '@/router'
import { serve } from './server'

export function openPage(address: string, answers: Parameters<typeof serve>[0]) {
  forgetWord()
  const server = serve({ 'GET /api/v1/invocations': () => ({ items: [], next: null }), ...answers })
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  const own = createRouter({ routeTree: router.routeTree, history: createMemoryHistory({ initialEntries: [address] }) })
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
