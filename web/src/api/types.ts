// Short names for the generated types. Nothing is described here that the API does not describe.
import type { components } from '../../../clients/typescript/api'

export type Schemas = components['schemas']
export type Invocation = Schemas['InvocationView']
export type Status = Schemas['Status']
export type Tier = Schemas['Tier']
export type Mode = Schemas['Mode']
export type Foresight = Schemas['ForesightView']
export type ApproveRequest = Schemas['ApproveRequest']
export type Entry = Schemas['EntryView']
export type Proof = Schemas['ProofView']
export type Key = Schemas['KeyView']
export type Action = Schemas['ActionView']
export type Source = Schemas['SourceView']
export type Review = Schemas['ReviewView']
export type Session = Schemas['SessionView']
export type Problem = Schemas['Problem']
export type Permission = Schemas['Permission']
export type Automation = Schemas['AutomationView']
export type Run = Schemas['RunView']
export type Firing = Schemas['FiringView']
export type Mistake = Schemas['MistakeView']
export type Json = Record<string, unknown>
