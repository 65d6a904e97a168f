// Paths of the API that the generated types do not have. Whoever asks one says what it answers.
import { api } from './client'

type Answer<T> = Promise<{ data?: T; error?: unknown; response: Response }>
type Undescribed = {
  GET<T>(path: string, asked: { params: { query: object } }): Answer<T>
  POST<T>(path: string, asked: { params?: { path: object }; body: object }): Answer<T>
}

export const undescribed = api as unknown as Undescribed
