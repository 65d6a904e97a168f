// One receipt: how the call went through its stages, and whether what the server says of it is what was signed.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ArrowLeft, CircleCheck, CircleX, Download, FlaskConical } from 'lucide-react'
import { useEffect, useState } from 'react'
import { ApiError } from '@/api/client'
import type { Entry, Key, Proof } from '@/api/types'
import { Pre } from '@/components/changes'
import { Rail } from '@/components/rail'
import { Marks, StatusBadge } from '@/components/status'
import { Button, Copy, cx, Failed, Foreign, Loading, Section, When } from '@/components/ui'
import { Who } from '@/features/policies/parts'
import { json } from '@/lib/clean'
import { useNames } from '@/lib/names'
import { bodyOf, stagesOf, timeOf } from './model'
import { entriesQuery, keysQuery, proofQuery, receiptQuery } from './queries'
import { type Check, canVerify, tampered, verify } from './verify'

const route = getRouteApi('/receipts/$receipt')

export function Receipt() {
  const { receipt: id } = route.useParams()
  const receipt = useQuery(receiptQuery(id))
  const nameOf = useNames()
  const proof = useQuery(proofQuery(id))
  const keys = useQuery(keysQuery)
  const entries = useQuery(entriesQuery(receipt.data?.invocation_id ?? undefined))
  if (receipt.error) return <Failed error={receipt.error as ApiError} retry={() => void receipt.refetch()} />
  if (!receipt.data) return <Loading />
  const body = bodyOf(receipt.data)
  return (
    <div className="h-full overflow-auto px-4 py-4 md:px-6">
      <Link to="/receipts" className="inline-flex items-center gap-1 text-sm text-muted-fg hover:text-fg">
        <ArrowLeft aria-hidden className="size-4" /> Receipts
      </Link>
      <header className="mt-2">
        <div className="flex flex-wrap items-center gap-3">
          {body.status && <StatusBadge status={body.status} />}
          <Marks dryRun={body.dry_run} observed={body.observed} />
          <Copy text={id} />
          <span className="text-xs text-muted-fg">
            entry #{receipt.data.seq} · <When at={timeOf(receipt.data)} />
          </span>
        </div>
        <h1 className="mt-1 text-lg font-semibold">
          <Foreign text={body.action ?? receipt.data.kind} />
        </h1>
        {body.principal && (
          <p className="text-muted-fg">
            <Who id={body.principal} />
          </p>
        )}
        <p className="flex flex-wrap gap-x-4">
          {body.invocation_id && (
            <Link to="/invocations/$invocation" params={{ invocation: body.invocation_id }} className="text-primary underline">
              The call
            </Link>
          )}
          {body.session && (
            <Link to="/policies/sessions/$session" params={{ session: body.session }} className="text-primary underline">
              The session
            </Link>
          )}
        </p>
      </header>

      <Section title="Verified here, in this browser">
        {proof.error instanceof ApiError ? (
          <Failed error={proof.error} retry={() => void proof.refetch()} />
        ) : proof.data && keys.data ? (
          <Verified id={id} shown={receipt.data} proof={proof.data} keys={keys.data.items} />
        ) : (
          <Loading />
        )}
      </Section>

      <Section title="What happened">
        {entries.data ? (
          <Rail stages={stagesOf(entries.data.items, nameOf)} />
        ) : (
          <p className="text-muted-fg">{entries.isPending && receipt.data.invocation_id ? '…' : 'It is not about one call.'}</p>
        )}
      </Section>

      <Section title="What was signed" aside={<Copy text={`countersign receipt show ${id}`} />}>
        <Pre text={json(receipt.data.payload)} />
      </Section>
    </div>
  )
}

function Verified({ id, shown, proof, keys }: { id: string; shown: Entry; proof: Proof; keys: readonly Key[] }) {
  const client = useQueryClient()
  const [checks, setChecks] = useState<Check[]>()
  const [able, setAble] = useState(true)
  const [isTampered, setTampered] = useState(false)
  // WebCrypto is asked, and answers later.
  useEffect(() => {
    let isHere = true
    void (async () => {
      const can = await canVerify()
      const looked = isTampered ? tampered(proof) : proof
      let found = can ? await verify(id, shown, looked, keys) : []
      if (!isTampered && found.some(check => !check.ok)) {
        // No event tells of new keys: these may have been replaced since they were read.
        const now = await client.fetchQuery({ ...keysQuery, staleTime: 0 }).catch(() => undefined)
        if (now) found = await verify(id, shown, looked, now.items)
      }
      if (!isHere) return
      setAble(can)
      setChecks(found)
    })()
    return () => {
      isHere = false
    }
  }, [client, id, shown, proof, keys, isTampered])
  if (!able)
    return (
      <p>
        This browser cannot verify Ed25519 signatures. Use the command line: <Copy text="countersign receipt verify" />
      </p>
    )
  if (!checks) return <p className="text-muted-fg">Verifying…</p>
  const isGood = checks.every(check => check.ok)
  const signer = keys.filter(key => key.purpose === 'receipt')
  return (
    <div className={cx('rounded-md border p-4', isGood ? 'border-ok' : 'border-danger bg-removed')}>
      <p className="flex items-center gap-2 font-medium" role="status">
        {isGood ? <CircleCheck aria-hidden className="size-5 text-ok" /> : <CircleX aria-hidden className="size-5 text-danger" />}
        {isGood ? 'Verified' : isTampered ? 'Not verified: one byte of this copy was changed' : 'Not verified'}
      </p>
      <ul className="mt-2 space-y-1 text-sm">
        {checks.map(check => (
          <li key={check.name} className="flex flex-wrap gap-x-2">
            <span className={check.ok ? 'text-ok' : 'font-medium text-danger'}>
              {check.ok ? '✓' : '✗'} {check.name}
            </span>
            <span className="font-mono text-xs leading-5 text-muted-fg">{check.detail}</span>
          </li>
        ))}
      </ul>
      <p className="mt-3 text-xs text-muted-fg">
        The keys came from this server. To trust more than it, compare them with the file receipt.pub that you kept:{' '}
        {signer.map(key => (
          <Copy key={key.key_id} text={key.public} label={key.key_id} className="mr-2" />
        ))}
      </p>
      <div className="mt-3 flex flex-wrap items-center gap-2">
        <Button onClick={() => download(`${id}.proof.json`, JSON.stringify({ proof, keys }, null, 2))}>
          <Download aria-hidden className="size-4" /> Download proof
        </Button>
        <Copy text={`countersign receipt verify ${id}.proof.json`} className="max-w-full" />
        <Button look="quiet" aria-pressed={isTampered} onClick={() => setTampered(!isTampered)}>
          <FlaskConical aria-hidden className="size-4" /> {isTampered ? 'Back to the real one' : 'Try it with one byte changed'}
        </Button>
      </div>
    </div>
  )
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
