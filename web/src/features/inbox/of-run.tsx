// What a call is part of, if a step of an automation made it: the automation, its run and the step.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Invocation } from '@/api/types'
import { Foreign, When } from '@/components/ui'
import { line } from '@/lib/clean'
import type { stepOf } from './model'
import { sessionQuery } from './queries'

export function OfRun({ item, step }: { item: Invocation; step: NonNullable<ReturnType<typeof stepOf>> }) {
  const session = useQuery(sessionQuery(item.session_id))
  // The title of its session is the name of the automation.
  const title = item.session_title || session.data?.title
  const automation = item.principal.replace('automation:', '')
  return (
    <p className="mt-2 text-sm text-muted-fg">
      automation{' '}
      <Link to="/automations/$automation" params={{ automation }} className="font-medium text-fg hover:underline">
        <Foreign text={title || automation} />
      </Link>{' '}
      ·{' '}
      <Link to="/runs/$run" params={{ run: step.run }} search={{ step: step.step }} className="text-primary underline">
        run <span className="font-mono text-xs">{step.run}</span>
      </Link>
      {step.step && (
        <>
          {' '}
          · step <span className="font-medium text-fg">{line(step.step)}</span>
        </>
      )}{' '}
      · asked <When at={item.created_at} />
    </p>
  )
}
