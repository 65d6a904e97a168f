// Server-sent events from a stream of bytes. `EventSource` can send no header of ours, so the stream is read with `fetch`.

export type Message = { event: string; data: string; id?: string }

/** Feed it texts as they come; it calls back once for each whole message. */
export function parser(tell: (message: Message) => void, moved: (id: string) => void = () => {}): (text: string) => void {
  let rest = ''
  let data: string[] = []
  let event = ''
  let id: string | undefined
  const end = () => {
    if (data.length > 0) tell({ event: event || 'message', data: data.join('\n'), id })
    if (id !== undefined) moved(id)
    data = []
    event = ''
    id = undefined
  }
  return text => {
    rest += text
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw
      if (line === '') end()
      else if (!line.startsWith(':')) {
        const at = line.indexOf(':')
        const [field, value] = at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')]
        if (field === 'data') data.push(value)
        else if (field === 'event') event = value
        else if (field === 'id') id = value
      }
    }
  }
}
