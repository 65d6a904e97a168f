// A program of a journey: what it prints, what is typed at its terminal, and its end, which is that of the test at the latest.
import { type ChildProcess, spawn } from 'node:child_process'
import { onTestFinished } from 'vitest'

export type Program = ReturnType<typeof program>

/** On a `terminal` a program says what it writes to no file. */
export function program(command: string[], { env = process.env, terminal = false }: { env?: NodeJS.ProcessEnv; terminal?: boolean } = {}) {
  const words = terminal ? ['python3', '-c', ON_A_TERMINAL, ...command] : command
  // A group of its own: whatever is behind a terminal ends with it.
  const child = spawn(words[0] as string, words.slice(1), { env: { ...env, NO_COLOR: '1' }, stdio: 'pipe', detached: true })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      printed += chunk.toString()
    })
  // It is not there.
  child.on('error', error => {
    printed += error.message
  })
  onTestFinished(() => end(child, 'SIGKILL'))
  return {
    printed: () => printed,
    /** What it printed, once it has printed this; the first group of it. */
    says: async (words: RegExp, most?: number): Promise<string> => {
      const found = () => words.exec(printed)
      await until(() => {
        if (!found() && hasEnded(child)) throw new Error(`\`${command.join(' ')}\` ended without saying ${words}: ${printed}`)
        return found() !== null
      }, most).catch((error: Error) => Promise.reject(new Error(`${error.message}; it printed: ${printed}`)))
      return found()?.[1] ?? ''
    },
    hasEnded: () => hasEnded(child),
    type: (text: string) => void child.stdin.write(text),
    /** The code that it ends with. */
    exit: async () => {
      await until(() => hasEnded(child))
      return child.exitCode
    },
    end: (signal: 'SIGTERM' | 'SIGKILL') => end(child, signal),
  }
}

const ON_A_TERMINAL = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null

async function end(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (hasEnded(child)) return
  const exit = new Promise(gone => child.once('exit', gone))
  process.kill(-(child.pid as number), signal)
  await exit
}

export async function until(holds: () => boolean | Promise<boolean>, most = 20_000): Promise<void> {
  const last = Date.now() + most
  while (!(await holds())) {
    if (Date.now() > last) throw new Error(`it did not become true within ${most} ms: ${holds}`)
    await new Promise(rest => setTimeout(rest, 25))
  }
}
