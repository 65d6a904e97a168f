// Everything the pages of automations ask the server.
import { infiniteQueryOptions, type QueryClient, queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { Automation, Json, Schemas } from '@/api/types'
import { everyPage } from '@/lib/pages'

/** What stands in the address may be no status: the server says so. */
export const listQuery = (status: string | undefined) =>
  queryOptions({
    queryKey: ['automations', 'list', status],
    queryFn: () =>
      everyPage(after =>
        body(
          api.GET('/api/v1/automations', {
            params: { query: { status: status as Schemas['AutomationStatus'] | undefined, limit: 100, after } },
          }),
        ),
      ),
  })

export const draftsQuery = queryOptions({
  queryKey: ['automations', 'drafts'],
  queryFn: () => everyPage(after => body(api.GET('/api/v1/automation-drafts', { params: { query: { limit: 100, after } } }))),
})

export const draftQuery = (draft: string) =>
  queryOptions({
    queryKey: ['automation-draft', draft],
    queryFn: () => body(api.GET('/api/v1/automation-drafts/{draft}', { params: { path: { draft } } })),
    retry: false,
  })

export const saveDraft = (draft: string, accept: string[], secrets: Record<string, string>) =>
  body(
    api.POST('/api/v1/automation-drafts/{draft}/save', {
      params: { path: { draft } },
      body: { accept, signing_secrets: secrets },
    }),
  )

export const dropDraft = (draft: string) => body(api.DELETE('/api/v1/automation-drafts/{draft}', { params: { path: { draft } } }))

export const importDefinition = (definition: Json, space: string | undefined) =>
  body(api.POST('/api/v1/automations/import', { body: { definition, space } }))

export const schemaQuery = queryOptions({
  queryKey: ['schema', 'automation'],
  queryFn: async () => (await body(api.GET('/api/v1/schemas/automation'))) as Json,
  staleTime: Number.POSITIVE_INFINITY,
})

export const eventTypesQuery = queryOptions({
  queryKey: ['event-types'],
  queryFn: async () => (await body(api.GET('/api/v1/event-types'))).items,
  staleTime: 300_000,
  retry: false,
})

/**
 * What would happen to each step of a definition, and when it would fire; its mistakes are an error with all of them. `automation` is the one
 * that it would be a new version of.
 */
export const dryRunQuery = (definition: Json, space: string | undefined, automation: string | undefined) =>
  queryOptions({
    queryKey: ['dry-run', automation, space, definition],
    queryFn: () => body(api.POST('/api/v1/automations/dry-run', { body: { automation, definition, space } })),
    staleTime: 30_000,
    retry: false,
    placeholderData: before => before,
  })

/** The same for what is saved, with the modes that the automation has of its own. */
export const planQuery = (automation: string) =>
  queryOptions({
    queryKey: ['automations', automation, 'plan'],
    queryFn: () => body(api.GET('/api/v1/automations/{automation}/plan', { params: { path: { automation } } })),
    retry: false,
  })

export const changesQuery = (automation: string, definition: Json) =>
  queryOptions({
    queryKey: ['automations', automation, 'diff', definition],
    queryFn: () => body(api.POST('/api/v1/automations/{automation}/diff', { params: { path: { automation } }, body: { definition } })),
    retry: false,
  })

export type Saving = { definition: Json; space?: string; signing_secrets: Record<string, string> }

export const create = (saving: Saving) => body(api.POST('/api/v1/automations', { body: saving }))

/** Only if the saved definition is still the one that was seen. */
export const save = (automation: Automation, { definition, signing_secrets }: Saving) =>
  body(
    api.PUT('/api/v1/automations/{automation}', {
      params: { path: { automation: automation.id }, header: { 'If-Match': `"${automation.digest}"` } },
      body: { definition, signing_secrets },
    }),
  )

export const setStatus = (automation: string, verb: 'pause' | 'resume' | 'archive') =>
  body(api.POST(`/api/v1/automations/{automation}/${verb}`, { params: { path: { automation } } }))

export const runNow = (automation: string, inputs: Json) =>
  body(api.POST('/api/v1/automations/{automation}/run', { params: { path: { automation } }, body: { inputs } }))

/** A schedule starts from now, or makes up for what it missed. */
export function switchTrigger(automation: string, trigger: string, isOn: boolean, catchUp: boolean) {
  const params = { path: { automation, trigger } }
  return isOn
    ? body(api.POST('/api/v1/automations/{automation}/triggers/{trigger}/enable', { params, body: { catch_up: catchUp } }))
    : body(api.POST('/api/v1/automations/{automation}/triggers/{trigger}/disable', { params }))
}

export const rotateToken = (automation: string, trigger: string, keepOld: boolean) =>
  body(
    api.POST('/api/v1/automations/{automation}/triggers/{trigger}/rotate-token', {
      params: { path: { automation, trigger } },
      body: { keep_old: keepOld },
    }),
  )

export const firingsQuery = (automation: string, outcome: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ['automations', automation, 'firings', outcome],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      body(
        api.GET('/api/v1/automations/{automation}/firings', {
          params: {
            path: { automation },
            query: { outcome: outcome as Schemas['FiringOutcome'] | undefined, limit: 50, after: pageParam },
          },
        }),
      ),
    getNextPageParam: page => page.next ?? undefined,
  })

export const versionsQuery = (automation: string) =>
  queryOptions({
    queryKey: ['automations', automation, 'versions'],
    queryFn: () =>
      everyPage(after =>
        body(api.GET('/api/v1/automations/{automation}/versions', { params: { path: { automation }, query: { limit: 100, after } } })),
      ),
  })

/** Everything that is said of automations may have changed. */
export const changed = (client: QueryClient): void => {
  void client.invalidateQueries({ queryKey: ['automations'] })
}
