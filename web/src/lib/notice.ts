// What tells a person who looks elsewhere: the title, the icon of the tab, and, if they asked for it, a notification.
import { useEffect, useRef, useSyncExternalStore } from 'react'

/** `(3) Inbox · Countersign`. */
export function useTitle(page: string | undefined, count: number): void {
  useEffect(() => {
    document.title = `${count > 0 ? `(${count}) ` : ''}${page ? `${page} · ` : ''}Countersign`
  }, [page, count])
}

/** What is on the icon of the tab: a number, if there is one, or a sign. */
export function useBadge(mark: number | '!'): void {
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')
    const badge = mark ? drawn(typeof mark === 'number' && mark > 9 ? '9+' : String(mark)) : undefined
    if (!icon) return
    icon.type = badge ? 'image/png' : 'image/svg+xml'
    icon.href = badge ?? '/favicon.svg'
  }, [mark])
}

function drawn(text: string): string | undefined {
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
  context.fillText(text, 16, 17)
  return canvas.toDataURL('image/png')
}

export type NotifyState = 'on' | 'off' | 'refused' | 'unsupported' | 'insecure'

/** Chrome on Android has the class, grants the permission, and makes none. */
let isUnsupported = false
const listeners = new Set<() => void>()

function listen(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

function stateNow(): NotifyState {
  if (!window.isSecureContext) return 'insecure'
  if (isUnsupported || !('Notification' in window)) return 'unsupported'
  if (Notification.permission === 'denied') return 'refused'
  return Notification.permission === 'granted' && localStorage.getItem('notify') === 'on' ? 'on' : 'off'
}

export const isNotified = (): boolean => stateNow() === 'on'

/** Tells every part of the page that the state may be another one. */
function tell(): void {
  for (const listener of listeners) listener()
}

/** Has one tag for all tabs: the newest replaces the one before. A click on it shows this page. */
function show(body: string, open?: () => void): boolean {
  try {
    const shown = new Notification('Countersign', { body, tag: 'countersign-inbox' })
    shown.onclick = () => {
      window.focus()
      shown.close()
      open?.()
    }
    return true
  } catch {
    isUnsupported = true
    stop()
    return false
  }
}

/** Shows what a notification looks like here. */
const tryIt = () => show('You will be told when a call waits and this page is hidden.')

async function ask(): Promise<void> {
  const isGranted = stateNow() === 'off' && (await Notification.requestPermission()) === 'granted'
  if (isGranted && tryIt()) localStorage.setItem('notify', 'on')
  tell()
}

function stop(): void {
  localStorage.removeItem('notify')
  tell()
}

/**
 * With a number: notifies when it grows while nobody looks, and a click does `open`. Nothing of a call is in the text, and nothing is answered
 * from it.
 */
export function useNotifications(waiting?: number, open?: () => void) {
  const state = useSyncExternalStore(listen, stateNow)
  const last = useRef(waiting)
  const latest = useRef(open)
  latest.current = open
  useEffect(() => {
    const grew = waiting !== undefined && last.current !== undefined && waiting > last.current
    last.current = waiting
    if (!grew || !document.hidden || !isNotified()) return
    show(waiting === 1 ? 'A call waits for a person.' : `${waiting} calls wait for a person.`, () => latest.current?.())
  }, [waiting])
  return { state, ask, stop, tryIt }
}

/** Tells whoever looks elsewhere that nothing more is told here. */
export function useLogoutNotification(isOut: boolean): void {
  useEffect(() => {
    if (isOut && document.hidden && isNotified()) show('You are logged out: no more calls are told here.')
  }, [isOut])
}
