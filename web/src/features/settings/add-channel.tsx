// Adds a channel: how it tells, and of which calls.
import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import type { Tier } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Copy, fieldClass } from '@/components/ui'
import { SecretPicker } from '@/features/secrets/picker'
import { spacesQuery } from '@/lib/spaces'
import { type ChannelField, type ChannelForm, channelRequest, isLong, missing } from './model'
import { addChannel, type ChannelKind } from './queries'

const TIERS: readonly Tier[] = ['R0', 'R1', 'R2', 'R3', 'R4']

type Props = { kinds: readonly ChannelKind[]; onClose: () => void; onAdded: () => Promise<void> }

export function AddChannel({ kinds, onClose, onAdded }: Props) {
  const [chosen, setChosen] = useState<string>()
  const kind = kinds.find(each => each.kind === chosen) ?? kinds[0]
  const [form, setForm] = useState<ChannelForm>({
    name: '',
    texts: {},
    tiers: [],
    attendance: '',
    space: '',
    after: '',
  })
  const spaces = useQuery(spacesQuery)
  if (!kind) return null
  const set = <Name extends keyof ChannelForm>(name: Name, value: ChannelForm[Name]) => setForm(old => ({ ...old, [name]: value }))
  return (
    <FormDialog
      title="Add a channel"
      verb="Add"
      wide
      disabled={missing(form, kind).length > 0}
      onClose={onClose}
      send={async () => {
        await addChannel(channelRequest(form, kind))
        await onAdded()
      }}
    >
      <div className="grid gap-3 sm:grid-cols-2">
        <label>
          Name
          <input
            value={form.name}
            maxLength={64}
            placeholder="pager"
            onChange={event => set('name', event.target.value)}
            className={`${fieldClass} mt-1`}
          />
        </label>
        <label>
          It tells by
          <select value={kind.kind} onChange={event => setChosen(event.target.value)} className={`${fieldClass} mt-1`}>
            {kinds.map(each => (
              <option key={each.kind} value={each.kind}>
                {each.title}
              </option>
            ))}
          </select>
        </label>
        {kind.settings.map(field => (
          <SettingField
            key={`${kind.kind}${field.name}`}
            field={field}
            value={form.texts[field.name] ?? ''}
            onChange={text => set('texts', { ...form.texts, [field.name]: text })}
          />
        ))}
      </div>
      <fieldset className="rounded-md border p-3">
        <legend className="px-1 text-xs text-muted-fg">Of which calls</legend>
        <div className="grid gap-3 sm:grid-cols-3">
          <label>
            Space
            <select value={form.space} onChange={event => set('space', event.target.value)} className={`${fieldClass} mt-1`}>
              <option value="">every space</option>
              {spaces.data?.map(space => (
                <option key={space.id} value={space.id}>
                  {space.name}
                </option>
              ))}
            </select>
          </label>
          <label>
            Sessions
            <select
              value={form.attendance}
              onChange={event => set('attendance', event.target.value as ChannelForm['attendance'])}
              className={`${fieldClass} mt-1`}
            >
              <option value="">all</option>
              <option value="interactive">where somebody sits</option>
              <option value="unattended">where nobody sits</option>
            </select>
          </label>
          <label>
            If it still waits after
            <input
              value={form.after}
              placeholder="at once; 10m"
              onChange={event => set('after', event.target.value)}
              className={`${fieldClass} mt-1`}
            />
          </label>
        </div>
        <div className="mt-3 flex flex-wrap items-center gap-x-4 gap-y-1">
          <span className="text-muted-fg">Tiers:</span>
          {TIERS.map(tier => (
            <label key={tier} className="flex items-center gap-1.5">
              <input
                type="checkbox"
                className="size-4"
                checked={form.tiers.includes(tier)}
                onChange={() =>
                  set('tiers', form.tiers.includes(tier) ? form.tiers.filter(each => each !== tier) : [...form.tiers, tier].sort())
                }
              />
              {tier}
            </label>
          ))}
          <span className="text-xs text-muted-fg">{form.tiers.length === 0 && 'none is chosen: all'}</span>
        </div>
      </fieldset>
      <Copy text="countersign channel add --help" />
    </FormDialog>
  )
}

function SettingField({ field, value, onChange }: { field: ChannelField; value: string; onChange: (text: string) => void }) {
  const id = useId()
  const common = { id, value, className: `${fieldClass} mt-1`, 'aria-describedby': `${id}-hint` }
  return (
    <div>
      <label htmlFor={id}>
        {field.label}
        {!field.is_required && <span className="text-muted-fg"> (optional)</span>}
      </label>
      {isLong(field) ? (
        <textarea {...common} rows={2} placeholder={field.example} onChange={event => onChange(event.target.value)} />
      ) : field.shape === 'secret' ? (
        <span className="mt-1 block">
          <SecretPicker id={id} value={value} onChange={onChange} />
        </span>
      ) : (
        <input {...common} placeholder={field.example} onChange={event => onChange(event.target.value)} />
      )}
      <span id={`${id}-hint`} className="block text-xs text-muted-fg">
        {field.help}
        {isLong(field) && '; one on each line'}
      </span>
    </div>
  )
}
