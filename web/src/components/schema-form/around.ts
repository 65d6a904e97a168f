// What the page around a form gives its fields, and hears of them.
import { createContext, type ReactNode } from 'react'
import type { Vocabulary } from './completion'

/** What the templates in the fields may use. */
export const Templates = createContext<Vocabulary | undefined>(undefined)

/** What stands beneath the fields of a kind, by the widget that the schema names. */
export const Beneath = createContext<Readonly<Record<string, ReactNode>>>({})

/** Hears of each form, by its name, whether a text in it could not be read: what it had before still stands in the value. */
export const Unread = createContext<(form: string, is: boolean) => void>(() => {})
