// What tells a person who looks elsewhere: the title, the icon of the tab, and, if they asked for it, a notification.
import { useCallback, useEffect, useRef, useState } from 'react'

/** `(3) Inbox · Countersign`. */
export function useTitle(page: string | undefined, count: number): void {
  useEffect(() => {
    document.title = `${count > 0 ? `(${count}) ` : ''}${page ? `${page} · ` : ''}Countersign`
  }, [page, count])
}

/** The number on the icon of the tab. */
export function useBadge(count: number): void {
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')
    const badge = count > 0 ? drawn(count) : undefined
    if (!icon) return
    icon.type = badge ? 'image/png' : 'image/svg+xml'
    icon.href = badge ?? '/favicon.svg'
  }, [count])
}

function drawn(count: number): string | undefined {
  const canvas = document.createElement('canvas')
  canvas.width = 32
  canvas.height = 32
  const context = canvas.getContext('2d')
  if (!context) return undefined
  context.fillStyle = '#3b4cca'
  context.beginPath()
  context.roundRect(0, 0, 32, 32, 8)
  context.fill()
  context.fillStyle = '#ffffff'
  context.font = 'bold 20px sans-serif'
  context.textAlign = 'center'
  context.textBaseline = 'middle'
  context.fillText(count > 9 ? '9+' : String(count), 16, 17)
  return canvas.toDataURL('image/png')
}

/** Shows what a notification looks like here. */
function tryIt(): void {
  new Notification('Countersign', { body: 'You will be told when a call waits and this page is hidden.', tag: 'countersign-inbox' })
}

export type NotifyState = 'on' | 'off' | 'refused' | 'unsupported' | 'insecure'

function stateNow(): NotifyState {
  if (!window.isSecureContext) return 'insecure'
  if (!('Notification' in window)) return 'unsupported'
  if (Notification.permission === 'denied') return 'refused'
  return Notification.permission === 'granted' && localStorage.getItem('notify') === 'on' ? 'on' : 'off'
}

/**
 * With a number: notifies when it grows while nobody looks, and a click does `open`. Nothing of a call is in the text, and nothing is answered
 * from it.
 */
export function useNotifications(waiting?: number, open?: () => void) {
  const [state, setState] = useState<NotifyState>(stateNow)
  const last = useRef(waiting)
  const latest = useRef(open)
  latest.current = open
  useEffect(() => {
    const grew = waiting !== undefined && last.current !== undefined && waiting > last.current
    last.current = waiting
    if (!grew || !document.hidden || stateNow() !== 'on') return
    // One tag for all tabs: the newest replaces the one before.
    const shown = new Notification('Countersign', {
      body: waiting === 1 ? 'A call waits for a person.' : `${waiting} calls wait for a person.`,
      tag: 'countersign-inbox',
    })
    shown.onclick = () => {
      window.focus()
      shown.close()
      latest.current?.()
    }
  }, [waiting])
  const ask = useCallback(async () => {
    if (stateNow() === 'off' && (await Notification.requestPermission()) === 'granted') {
      localStorage.setItem('notify', 'on')
      tryIt()
    }
    setState(stateNow())
  }, [])
  const stop = useCallback(() => {
    localStorage.removeItem('notify')
    setState(stateNow())
  }, [])
  return { state, ask, stop, tryIt }
}
