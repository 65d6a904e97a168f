// People: who is in the org, what each may do, and invitations.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { UserPlus } from 'lucide-react'
import { useState } from 'react'
import type { Schemas } from '@/api/types'
import { FormDialog } from '@/components/form-dialog'
import { Asked } from '@/components/list-page'
import { Button, Copy, cx, Empty, Foreign, fieldClass, Loading, When } from '@/components/ui'
import { meQuery } from '@/lib/me'
import { usersQuery } from '@/lib/users'
import { MAY, ROLES } from './model'
import { addUser, changeUser, disableUser, inviteUser, type Role, type User } from './queries'
import { ShownOnce } from './shown-once'

const BANDS: readonly Schemas['Band'][] = ['green', 'amber', 'red', 'black']
type Open = { kind: 'add' } | { kind: 'change' | 'invite' | 'disable'; user: User }

export function Members({ q, onFilter }: { q: string; onFilter: (q: string) => void }) {
  const client = useQueryClient()
  // Others look names up, which may be a minute old. Here the list itself is looked at.
  const users = useQuery({ ...usersQuery, staleTime: 0 })
  const me = useQuery(meQuery).data
  const [open, setOpen] = useState<Open>()
  const [invited, setInvited] = useState<{ name: string; text: string }>()
  const mayManage = !!me?.permissions.includes('manage_identity')
  const shown = (users.data ?? []).filter(user => `${user.name} ${user.id} ${user.role}`.toLowerCase().includes(q.toLowerCase()))
  const done = () => {
    setOpen(undefined)
    return client.invalidateQueries({ queryKey: usersQuery.queryKey })
  }
  return (
    <>
      <div className="flex flex-wrap items-center gap-2 px-4 py-3 md:px-6">
        <input
          type="search"
          aria-label="Filter"
          placeholder="Filter"
          value={q}
          onChange={event => onFilter(event.target.value)}
          className={`${fieldClass} max-w-xs`}
        />
        <span className="flex-1" />
        {mayManage && (
          <Button look="primary" onClick={() => setOpen({ kind: 'add' })}>
            <UserPlus aria-hidden className="size-4" /> Invite somebody
          </Button>
        )}
      </div>
      <Asked query={users} />
      {users.isPending && <Loading />}
      {users.data && shown.length === 0 && (
        <Empty title="Nobody is called so">
          <Button onClick={() => onFilter('')}>Show all</Button>
        </Empty>
      )}
      <ul className="divide-y border-t">
        {shown.map(user => (
          <li key={user.id} className="grid gap-x-4 gap-y-1 px-4 py-3 sm:grid-cols-[minmax(0,1fr)_auto] md:px-6">
            <div className="min-w-0">
              <p className={cx('font-medium', !!user.disabled_at && 'text-muted-fg line-through')}>
                <Link to="/settings" search={{ q: user.id }} className="hover:underline">
                  <Foreign text={user.name} />
                </Link>
                {`user:${user.id}` === me?.principal && <span className="font-normal text-muted-fg"> (you)</span>}
              </p>
              <p className="text-xs text-muted-fg">
                <span className="text-fg">{user.role}</span>: {MAY[user.role]} · in spaces up to {user.max_band} · since{' '}
                <When at={user.created_at} />
                {user.disabled_at && (
                  <>
                    {' '}
                    · disabled <When at={user.disabled_at} />
                  </>
                )}
              </p>
              <Copy text={user.id} />
            </div>
            {mayManage && !user.disabled_at && (
              <div className="flex flex-wrap items-center gap-1">
                {`user:${user.id}` !== me?.principal && (
                  <Button look="quiet" aria-label={`Change ${user.name}`} onClick={() => setOpen({ kind: 'change', user })}>
                    Change
                  </Button>
                )}
                <Button look="quiet" aria-label={`Invite again: ${user.name}`} onClick={() => setOpen({ kind: 'invite', user })}>
                  Invite again
                </Button>
                {`user:${user.id}` !== me?.principal && (
                  <Button look="quiet" aria-label={`Disable ${user.name}`} onClick={() => setOpen({ kind: 'disable', user })}>
                    Disable
                  </Button>
                )}
              </div>
            )}
          </li>
        ))}
      </ul>
      {open?.kind === 'add' && (
        <Add
          onClose={() => setOpen(undefined)}
          onAdded={async (name, text) => {
            setInvited({ name, text })
            await done()
          }}
        />
      )}
      {open?.kind === 'change' && <Change user={open.user} onClose={() => setOpen(undefined)} onDone={done} />}
      {open?.kind === 'invite' && (
        <FormDialog
          title={`Invite ${open.user.name} again`}
          verb="Invite"
          onClose={() => setOpen(undefined)}
          send={async () => {
            const { invitation } = await inviteUser(open.user.id)
            setInvited({ name: open.user.name, text: invitation })
            await done()
          }}
        >
          <p>Their earlier invitations stop working. When they redeem this one, every token that they had ends.</p>
          <Copy text={`countersign user invite ${open.user.name}`} />
        </FormDialog>
      )}
      {open?.kind === 'disable' && (
        <FormDialog
          title={`Disable ${open.user.name}, for good`}
          verb="Disable for good"
          look="danger"
          onClose={() => setOpen(undefined)}
          send={async () => {
            await disableUser(open.user.id)
            await done()
          }}
        >
          <p>Their tokens, and those of their agents and services, stop working at once. Nobody can take this back.</p>
          <Copy text={`countersign user disable ${open.user.name}`} />
        </FormDialog>
      )}
      {invited && (
        <ShownOnce title={`The invitation of ${invited.name}`} text={invited.text} onClose={() => setInvited(undefined)}>
          <p>It works once, within seven days. They open this address in a browser, and get a token of their own:</p>
          <Copy text={`${location.origin}/login/invitation/${invited.text}`} />
          <p>Or they redeem it with this command:</p>
          <Copy text={`countersign login --url ${location.origin}`} />
        </ShownOnce>
      )}
    </>
  )
}

function Add({ onClose, onAdded }: { onClose: () => void; onAdded: (name: string, invitation: string) => Promise<void> }) {
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('approver')
  return (
    <FormDialog
      title="Invite somebody"
      verb="Invite"
      disabled={name.trim() === ''}
      onClose={onClose}
      send={async () => {
        const { user, invitation } = await addUser(name.trim(), role)
        await onAdded(user.name, invitation.invitation)
      }}
    >
      <label className="block">
        Name
        <input value={name} onChange={event => setName(event.target.value)} maxLength={64} className={`${fieldClass} mt-1`} />
        <span className="text-xs text-muted-fg">Their mail address, if a channel is to send them links.</span>
      </label>
      <RoleField role={role} onChange={setRole} />
      <Copy text={`countersign user create ${name.trim() || 'NAME'} --role ${role}`} />
    </FormDialog>
  )
}

function RoleField({ role, onChange }: { role: Role; onChange: (role: Role) => void }) {
  return (
    <label className="block">
      Role
      <select value={role} onChange={event => onChange(event.target.value as Role)} className={`${fieldClass} mt-1`}>
        {ROLES.map(each => (
          <option key={each} value={each}>
            {each}: {MAY[each]}
          </option>
        ))}
      </select>
    </label>
  )
}

function Change({ user, onClose, onDone }: { user: User; onClose: () => void; onDone: () => Promise<void> }) {
  const [role, setRole] = useState(user.role)
  const [band, setBand] = useState(user.max_band)
  return (
    <FormDialog
      title={`Change ${user.name}`}
      verb="Change"
      disabled={role === user.role && band === user.max_band}
      onClose={onClose}
      send={async () => {
        await changeUser(user.id, {
          role: role === user.role ? undefined : role,
          max_band: band === user.max_band ? undefined : band,
        })
        await onDone()
      }}
    >
      <RoleField role={role} onChange={setRole} />
      <label className="block">
        Acts in spaces up to
        <select value={band} onChange={event => setBand(event.target.value as typeof band)} className={`${fieldClass} mt-1`}>
          {BANDS.map(each => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <p className="text-muted-fg">It holds for their tokens and agents at once, and is signed into the audit log.</p>
      <Copy text={role === user.role ? `countersign user limit ${user.name} ${band}` : `countersign user role ${user.name} ${role}`} />
    </FormDialog>
  )
}
