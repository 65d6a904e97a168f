import './index.css'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { ApiError } from '@/api/client'
import { ToastProvider } from '@/components/toasts'
import { ShelfProvider } from '@/features/inbox/shelf'
import { EventsProvider } from '@/lib/events'
import { FreshQueryClient } from '@/lib/query-client'
import { router } from './router'

const client = new FreshQueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      // What was refused will be refused again.
      retry: (count, error) => count < 2 && !(error instanceof ApiError && error.problem.status >= 400 && error.problem.status < 500),
    },
  },
})

const place = document.getElementById('root')
if (place) {
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <EventsProvider>
          <ShelfProvider>
            <ToastProvider>
              <RouterProvider router={router} />
            </ToastProvider>
          </ShelfProvider>
        </EventsProvider>
      </QueryClientProvider>
    </StrictMode>,
  )
}
